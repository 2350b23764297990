// Matrix products as specified at https://onnx.ai/onnx/operators, for opsets 13 to 21.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "qtape/onnx/interpreter/call.h"

namespace qtape::interpreter {
namespace {

/// Returns a [..., m, k] times b [..., k, n] with the same leading extents, or [k, n].
template <class T>
OnnxArray product(const Call& c, const std::vector<T>& a, const std::vector<T>& b) {
  const Extents& left = c.in(0).shape;
  const Extents& right = c.in(1).shape;
  const bool shared = right.size() == 2;
  require<FormatError>(
      !left.empty() && right.size() >= 2 && left.back() == right.end()[-2] &&
          (shared || (left.size() == right.size() &&
                      std::equal(left.begin(), left.end() - 2, right.begin()))),
      "the extents of the operands do not match");
  const auto k = static_cast<size_t>(left.back()), n = static_cast<size_t>(right.back());
  const size_t rows = shared ? 0 : static_cast<size_t>(left.end()[-2]);  // of a matrix
  Extents shape = left;
  shape.back() = right.back();
  std::vector<T> y;
  for (size_t row = 0; k > 0 && row < a.size() / k; ++row) {
    const size_t matrix = shared ? 0 : row / rows * k * n;
    std::vector<Sum<T>> sums(n, 0);
    for (size_t i = 0; i < k; ++i) {
      for (size_t j = 0; j < n; ++j) sums[j] += Sum<T>{a[row * k + i]} * b[matrix + i * n + j];
    }
    for (const Sum<T> sum : sums) y.push_back(static_cast<T>(sum));
  }
  y.resize(static_cast<size_t>(onnx_elements(shape)));
  return {shape, std::move(y)};
}

OnnxArray mat_mul(const Call& c) { return product(c, c.of<float>(0), c.of<float>(1)); }

OnnxArray mat_mul_integer(const Call& c) {
  return product(c, differences(c, 0, 2), differences(c, 1, 3));
}

OnnxArray gemm(const Call& c) {
  require<FormatError>(c.node.integer("transA", 0) == 0 && c.node.integer("transB", 0) == 1 &&
                           c.node.real("alpha", 1) == 1 && c.node.real("beta", 1) == 1,
                       "is supported only as A B' + C");
  const Extents& w = c.in(1).shape;
  require<FormatError>(w.size() == 2, "B must be a matrix");
  const OnnxArray b = moved(c.in(1), {w[1], w[0]},
                            [&](const Extents& index) { return index[1] * w[1] + index[0]; });
  const OnnxArray y = mat_mul({c.node, {&c.in(0), &b}});
  return c.has(2) ? add({c.node, {&y, &c.in(2)}}) : y;
}

OnnxType product_type(const OnnxTypes& c) {
  OnnxType type = c.in(0);
  type.shape.back() = c.in(1).shape.back();
  return type;
}

OnnxType integer_product_type(const OnnxTypes& c) {
  return {onnx::TensorProto::INT32, product_type(c).shape};
}

OnnxType gemm_type(const OnnxTypes& c) {
  return {c.in(0).element, {c.in(0).shape[0], c.in(1).shape[0]}};
}

constexpr Operator product_table[] = {{"Gemm", gemm, gemm_type},
                                      {"MatMul", mat_mul, product_type},
                                      {"MatMulInteger", mat_mul_integer, integer_product_type}};

}  // namespace

std::span<const Operator> product_operators() { return product_table; }

}  // namespace qtape::interpreter
