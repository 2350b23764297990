// Poolings.
#include <array>

#include "qtape/ops/families/reduction.h"
#include "qtape/tflite/bounds.h"
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
  pool.padding = padding_of(options.padding);
  reader.finish_limited(std::move(pool), x, options.activation);
}

/// A mean over axes.
void read_mean(ProgramReader& reader) {
  reader.check_operands(2, 2);
  const ProgramNodeId x = reader.codes(0);
  integer::Sum sum;
  sum.mean = true;
  sum.keep_dims = reader.options<ReducerOptions>().keep_dims;
  const int rank = reader.type_of(x).type.shape.rank();
  for (const int64_t axis : reader.numbers(1)) {
    check(axis >= -rank && axis < rank, "axis {} is out of range for rank {}", axis, rank);
    check(!reader.batched() || (axis != 0 && axis != -rank),
          "mixes samples: axis 0 is the batch");
    sum.axes.push_back(static_cast<int>(axis));
  }
  check(!sum.axes.empty(), "has no axes, expected at least one");
  const CodeGrid grid = reader.output_grid(Activation::None);
  check_mean(reduced_terms(reader.type_of(x).type.shape, sum.axes), reader.type_of(x),
             grid.scale);
  const ProgramNodeId sums = reader.add(std::move(sum), {x});
  reader.finish_requantized(sums, grid);
}

}  // namespace

std::span<const OperatorReader> window_readers() {
  static constexpr std::array readers = {
      OperatorReader{Builtin::AveragePool2d, 3,
                     [](ProgramReader& reader) { read_pool(reader, integer::MeanPool{}); }},
      OperatorReader{Builtin::Mean, 3, read_mean},
      OperatorReader{Builtin::MaxPool2d, 3, [](ProgramReader& reader) {
                       read_pool(reader, integer::Structure<qtape::MaxPool>{});
                     }}};
  return readers;
}

}  // namespace qtape::tflite
