// Poolings and means.
#include <array>

#include "qtape/ops/families/reduction.h"
#include "qtape/tflite/import/layers.h"

namespace qtape::tflite {
namespace {

Layer read_pool(OperatorView& view) {
  view.check_operands(1, 1);
  view.check_same_grid(0);
  const auto options = view.options<Pool2dOptions>();
  const size_t rank = view.input(0).shape.size();
  check(rank == 4, "input 0 has {} axes, expected 4", rank);
  return PoolLayer{.largest = view.op().op == Builtin::MaxPool2d,
                   .kernel = {options.filter_height, options.filter_width},
                   .stride = {options.stride_h, options.stride_w},
                   .padding = padding_of(options.padding),
                   .activation = options.activation};
}

/// A mean over axes.
Layer read_mean(OperatorView& view) {
  view.check_operands(2, 2);
  MeanLayer mean{.keep_dims = view.options<ReducerOptions>().keep_dims};
  const Shape shape = view.shape_of(view.input(0));
  const int rank = shape.rank();
  for (const int64_t axis : view.numbers(1)) {
    check(axis >= -rank && axis < rank, "axis {} is out of range for rank {}", axis, rank);
    check(!view.batched() || (axis != 0 && axis != -rank),
          "mixes samples: axis 0 is the batch");
    mean.axes.push_back(static_cast<int>(axis));
  }
  check(!mean.axes.empty(), "has no axes, expected at least one");
  mean.terms = reduced_terms(shape, mean.axes);
  return mean;
}

}  // namespace

Padding padding_of(PaddingType padding) {
  check(padding == PaddingType::Same || padding == PaddingType::Valid,
        "has the padding {}, expected 0 (SAME) or 1 (VALID)", static_cast<int>(padding));
  return padding == PaddingType::Same ? Padding::Same : Padding::Valid;
}

std::span<const OperatorReader> window_readers() {
  static constexpr std::array readers = {OperatorReader{Builtin::AveragePool2d, 3, read_pool},
                                         OperatorReader{Builtin::Mean, 3, read_mean},
                                         OperatorReader{Builtin::MaxPool2d, 3, read_pool}};
  return readers;
}

}  // namespace qtape::tflite
