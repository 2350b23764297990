// Operators that move codes.
#include <array>

#include "qtape/tflite/import/program_reader.h"

namespace qtape::tflite {
namespace {

/// RESHAPE, SQUEEZE and EXPAND_DIMS: the shape of the output says it all.
void read_reshape(ProgramReader& reader) {
  reader.check_operands(1, 2);
  reader.check_same_grid(0);
  const ProgramNodeId x = reader.codes(0);
  const Shape to = reader.shape_of(reader.output());
  std::vector<int64_t> extents(to.extents().begin(), to.extents().end());
  if (reader.batched()) extents[0] = -1;
  reader.finish(integer::Reshape{qtape::Reshape{.shape = std::move(extents)}}, {x});
}

void read_pad(ProgramReader& reader) {
  const bool with_value = reader.op().op == Builtin::PadV2;
  reader.check_operands(with_value ? 3 : 2, with_value ? 3 : 2);
  reader.check_same_grid(0);
  const ProgramNodeId x = reader.codes(0);
  const int rank = reader.type_of(x).type.shape.rank();
  const std::vector<int64_t> pads = reader.numbers(1);
  check(std::ssize(pads) == 2 * rank, "has {} numbers of padding, expected {}", pads.size(),
        2 * rank);
  std::vector<int64_t> begin, end;
  for (size_t axis = 0; axis < pads.size() / 2; ++axis) {
    begin.push_back(pads[2 * axis]);
    end.push_back(pads[2 * axis + 1]);
  }
  integer::Pad pad{Shape(begin), Shape(end), reader.grid_of(reader.output()).zero_point};
  if (with_value) {
    check(reader.grid_of(reader.input(2)) == reader.grid_of(reader.output()),
          "the border has another scale or zero point than the output");
    const auto border = reader.data_of(reader.input(2), TfliteType::Int8, 1);
    pad.code = static_cast<int8_t>(border[0]);
  }
  reader.finish(std::move(pad), {x});
}

void read_concatenation(ProgramReader& reader) {
  reader.check_operands(1, 64);
  const auto options = reader.options<ConcatenationOptions>();
  check(options.activation == Activation::None,
        "has the fused activation {}, expected 0 (NONE)", static_cast<int>(options.activation));
  std::vector<ProgramNodeId> operands;
  for (size_t k = 0; k < reader.op().inputs.size(); ++k) {
    reader.check_same_grid(k);
    operands.push_back(reader.codes(k));
  }
  integer::Concat concat;
  concat.axis = options.axis;
  concat.count = static_cast<int>(operands.size());
  reader.finish(std::move(concat), operands);
}

}  // namespace

std::span<const OperatorReader> structure_readers() {
  static constexpr std::array readers = {
      OperatorReader{Builtin::Reshape, 1, read_reshape},
      OperatorReader{Builtin::Squeeze, 2, read_reshape},
      OperatorReader{Builtin::ExpandDims, 1, read_reshape},
      OperatorReader{Builtin::Pad, 2, read_pad},
      OperatorReader{Builtin::PadV2, 2, read_pad},
      OperatorReader{Builtin::Concatenation, 2, read_concatenation}};
  return readers;
}

}  // namespace qtape::tflite
