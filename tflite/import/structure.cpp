// Operators that move elements.
#include <array>

#include "qtape/tflite/import/layers.h"

namespace qtape::tflite {
namespace {

/// RESHAPE, SQUEEZE and EXPAND_DIMS: the shape of the output alone defines them.
Layer read_reshape(OperatorView& view) {
  view.check_operands(1, 2);
  view.check_same_grid(0);
  const Shape to = view.shape_of(view.output());
  ReshapeLayer layer{{to.extents().begin(), to.extents().end()}};
  if (view.batched()) layer.shape[0] = -1;
  return layer;
}

/// Sets the value of the border of PADV2.
void read_border(const OperatorView& view, PadLayer& pad) {
  const TfliteTensor& border = view.input(2);
  if (view.output().type == TfliteType::Float32) {
    pad.value = view.constants<float>(border, TfliteType::Float32, 1)[0];
    return;
  }
  check(view.grid_of(border) == view.grid_of(view.output()),
        "the border has another scale or zero point than the output");
  pad.code = view.codes_of(border, 1)[0];
}

Layer read_pad(OperatorView& view) {
  const bool with_value = view.op().op == Builtin::PadV2;
  view.check_operands(with_value ? 3 : 2, with_value ? 3 : 2);
  view.check_same_grid(0);
  const int rank = view.shape_of(view.input(0)).rank();
  const std::vector<int64_t> pads = view.numbers(1);
  check(std::ssize(pads) == 2 * rank, "has {} numbers of padding, expected {}", pads.size(),
        2 * rank);
  std::vector<int64_t> begin, end;
  for (size_t axis = 0; axis < pads.size() / 2; ++axis) {
    begin.push_back(pads[2 * axis]);
    end.push_back(pads[2 * axis + 1]);
  }
  PadLayer layer{.begin = Shape(begin), .end = Shape(end)};
  if (with_value) read_border(view, layer);
  return layer;
}

Layer read_concatenation(OperatorView& view) {
  view.check_operands(1, 64);
  const auto options = view.options<ConcatenationOptions>();
  check(options.activation == Activation::None,
        "has the fused activation {}, expected 0 (NONE)", static_cast<int>(options.activation));
  for (size_t k = 0; k < view.op().inputs.size(); ++k) view.check_same_grid(k);
  return ConcatLayer{options.axis};
}

}  // namespace

std::span<const OperatorReader> structure_readers() {
  static constexpr std::array readers = {
      OperatorReader{Builtin::Reshape, 1, read_reshape},
      OperatorReader{Builtin::Squeeze, 2, read_reshape},
      OperatorReader{Builtin::ExpandDims, 1, read_reshape},
      OperatorReader{Builtin::Pad, 4, read_pad},
      OperatorReader{Builtin::PadV2, 4, read_pad},
      OperatorReader{Builtin::Concatenation, 3, read_concatenation}};
  return readers;
}

}  // namespace qtape::tflite
