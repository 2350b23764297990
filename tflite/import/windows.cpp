// Poolings.
#include <array>

#include "qtape/tflite/import/program_reader.h"

namespace qtape::tflite {
namespace {

template <class P>
void read_pool(ProgramReader& reader, P pool) {
  reader.check_operands(1, 1);
  const auto options = reader.options<Pool2dOptions>();
  const ProgramNodeId x = reader.codes(0);
  check(reader.type_of(x).type.shape.rank() == 4, "input 0 has {} axes, expected 4",
        reader.type_of(x).type.shape.rank());
  pool.kernel = Shape{options.filter_height, options.filter_width};
  pool.stride = Shape{options.stride_h, options.stride_w};
  pool.padding = options.padding == PaddingType::Same ? Padding::Same : Padding::Valid;
  reader.finish_limited(std::move(pool), x, options.activation);
}

}  // namespace

std::span<const OperatorReader> window_readers() {
  static constexpr std::array readers = {
      OperatorReader{Builtin::AveragePool2d, 3,
                     [](ProgramReader& reader) { read_pool(reader, integer::MeanPool{}); }},
      OperatorReader{Builtin::MaxPool2d, 3, [](ProgramReader& reader) {
                       read_pool(reader, integer::Structure<qtape::MaxPool>{});
                     }}};
  return readers;
}

}  // namespace qtape::tflite
