// Products of constants, such as those of an initial state.
#include <algorithm>

#include "qtape/onnx/import/folds.h"

namespace qtape {
namespace {

struct ProductFolds : FoldOperators {
  void matmul();
  void gemm();

  /// Returns a b + bias of matrices; `bias` may be null. If `rows`, b is transposed.
  OnnxConstant product(const OnnxConstant& a, const OnnxConstant& b, bool rows,
                       const OnnxConstant* bias);
};

}  // namespace

OnnxConstant ProductFolds::product(const OnnxConstant& a, const OnnxConstant& b, bool rows,
                                   const OnnxConstant* bias) {
  require<FormatError>(a.is_float && b.is_float && a.shape.rank() == 2 && b.shape.rank() == 2 &&
                           b.batch_axis < 0 && (bias == nullptr || bias->is_float) &&
                           a.shape[1] == b.shape[rows ? 1 : 0],
                       "constants of {} and {} cannot be multiplied, expected floats, a matrix "
                       "on the right and equal inner extents",
                       to_string(a.shape), to_string(b.shape));
  const int64_t n = a.shape[0], in = a.shape[1], out = b.shape[rows ? 0 : 1];
  for (int k = 1; bias != nullptr && k <= bias->shape.rank(); ++k) {
    const int64_t extent = bias->shape[-k];
    require<FormatError>(k <= 2 && (extent == 1 || extent == (k == 1 ? out : n)),
                         "input 2 of {} does not broadcast to [{}, {}]", to_string(bias->shape),
                         n, out);
  }
  // A product takes its inner extent as many operations for each number.
  const Shape shape = room_for({n, out});
  to.expect_room(onnx_product(shape.elements(), std::max<int64_t>(1, in)));
  OnnxConstant y{.shape = shape};
  const std::vector<size_t> places =
      bias == nullptr ? std::vector<size_t>() : broadcast_places(bias->shape, shape);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < out; ++j) {
      double sum = bias == nullptr ? 0.0 : double{bias->floats[places[y.floats.size()]]};
      for (int64_t k = 0; k < in; ++k) {
        const int64_t from = rows ? j * in + k : k * out + j;
        sum += double{a.floats[static_cast<size_t>(i * in + k)]} *
               double{b.floats[static_cast<size_t>(from)]};
      }
      y.floats.push_back(static_cast<float>(sum));
    }
  }
  return y;
}

/// A vector is a matrix of one row before a product and of one column after it; the output
/// lacks that axis.
void ProductFolds::matmul() {
  OnnxConstant a = input(0), b = input(1);
  const bool row = a.shape.rank() == 1, column = b.shape.rank() == 1;
  std::vector<int64_t> extents = extents_of(a.shape);
  const bool samples_last = a.batch_axis >= 0 && a.batch_axis + 1 == a.shape.rank();
  if (a.shape.rank() > 2 && !samples_last) {
    a.shape = {a.shape.elements() / std::max<int64_t>(1, a.shape[-1]), a.shape[-1]};
  }
  if (row) a.shape = {1, a.shape[0]};
  if (column) b.shape = {b.shape[0], 1};
  OnnxConstant y = product(a, b, false, nullptr);
  extents.pop_back();
  if (!column) extents.push_back(y.shape[1]);
  y.shape = Shape(extents);
  finish(std::move(y));
}

void ProductFolds::gemm() {
  expect_attribute("transA", 0);
  const bool rows = node.integer("transB", 0) != 0;
  require<FormatError>(node.real("alpha", 1) == 1 && node.real("beta", 1) == 1,
                       "only factors alpha and beta of 1 are supported for constants");
  finish(product(input(0), input(1), rows, has(2) ? &input(2) : nullptr));
}

namespace {

constexpr OnnxOperator product_fold_rows[] = {{"MatMul", convert<&ProductFolds::matmul>},
                                              {"Gemm", convert<&ProductFolds::gemm>}};

}  // namespace

std::span<const OnnxOperator> product_folds() { return product_fold_rows; }

}  // namespace qtape
