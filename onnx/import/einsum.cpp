// Products whose axes are in another order: Einsum, and MatMul with a constant on the left.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "qtape/core/error.h"
#include "qtape/onnx/import/channels.h"
#include "qtape/onnx/import/operators.h"

namespace qtape {
namespace {

struct EinsumOperators : OnnxOperators {
  void einsum();

  void with_matrix(std::string a, std::string b, const std::string& y, bool swapped);
  void of_values(const std::string& a, const std::string& b, const std::string& y);
  OnnxValue ordered(OnnxValue value, const std::string& labels, const std::string& wanted);
  OnnxValue grouped(OnnxValue value, std::vector<int64_t> shape);
  OnnxValue matrices(OnnxValue value, const std::string& labels,
                     const std::array<std::string, 3>& parts);
};

/// Returns the letters of `labels` that are not in `without`.
std::string less(const std::string& labels, const std::string& without) {
  std::string rest;
  for (const char c : labels) {
    if (without.find(c) == std::string::npos) rest += c;
  }
  return rest;
}

bool has_repeats(std::string labels) {
  std::ranges::sort(labels);
  return std::ranges::adjacent_find(labels) != labels.end();
}

}  // namespace

/// Transposes a value with the axes `labels` to the axes `wanted`.
OnnxValue EinsumOperators::ordered(OnnxValue value, const std::string& labels,
                                   const std::string& wanted) {
  value = to.to_same(value);
  std::vector<int> permutation;
  std::vector<int64_t> shape;
  for (const char c : wanted) {
    const size_t at = labels.find(c);
    permutation.push_back(static_cast<int>(at));
    shape.push_back(value.shape[at]);
  }
  return {.id = to.permuted(value.id, std::move(permutation)), .shape = std::move(shape)};
}

/// Multiplies a value with the axes `a` by a constant matrix with the axes `b`.
void EinsumOperators::with_matrix(std::string a, std::string b, const std::string& y,
                                  bool swapped) {
  const int constant = swapped ? 0 : 1;
  if (swapped) std::swap(a, b);
  expect_weights(constant, 2, "a matrix of floats");
  OnnxValue x = operand(swapped ? 1 : 0);
  const OnnxConstant& matrix = to.constant(node, constant);
  const std::string added = less(b, a), shared = less(b, added);
  const bool row = b[0] == shared[0];  // the matrix is [in, out]
  require<OnnxMixedSamples>(x.rank() == std::ssize(a) && b.size() == 2 && added.size() == 1 &&
                                shared != a.substr(0, 1) &&
                                y.find(shared) == std::string::npos && y.size() == a.size() &&
                                y[0] == a[0] && less(y, a + added).empty() &&
                                less(a + added, y + shared).empty(),
                            "only products of matrices are supported, with the batch first");
  x = ordered(std::move(x), a, less(a, shared) + shared);
  const int64_t in = matrix.shape[row ? 0 : 1], out = matrix.shape[row ? 1 : 0];
  require<FormatError>(x.shape.back() == in, "the matrix expects {} features, the input has {}",
                       in, extents_text(x.shape));
  const NodeId w = to.add_parameter(node.input(constant), {out, in},
                                    row ? transposed(matrix.floats, in, out) : matrix.floats,
                                    to.layer_label(node), "weight");
  x.id = to.add(MatMul{.transpose_b = true}, {x.id, w}, to.node_label(node, "product"));
  x.shape.back() = out;
  give(ordered(std::move(x), less(a, shared) + added, y));
}

/// Returns the extents of the axes `wanted` of a value with the axes `labels`.
std::vector<int64_t> extents_of(const OnnxValue& value, const std::string& labels,
                                const std::string& wanted) {
  std::vector<int64_t> extents;
  for (const char c : wanted) extents.push_back(value.shape[labels.find(c)]);
  return extents;
}

/// Throws FormatError unless axes with one label have the same extent.
void expect_equal_extents(const OnnxValue& left, const std::string& a, const OnnxValue& right,
                          const std::string& b) {
  for (size_t k = 0; k < a.size(); ++k) {
    const size_t at = b.find(a[k]);
    require<FormatError>(at == std::string::npos || left.shape[k] == right.shape[at],
                         "the axes '{}' of {} and {} differ", a[k], extents_text(left.shape),
                         extents_text(right.shape));
  }
}

/// Returns `value` in the shape `shape`.
OnnxValue EinsumOperators::grouped(OnnxValue value, std::vector<int64_t> shape) {
  if (value.shape == shape) return value;
  value.shape = shape;
  shape[0] = -1;
  value.id = to.add(Reshape{.shape = std::move(shape)}, {value.id});
  return value;
}

/// Multiplies two values that depend on inputs: axes of both and of the result are common ones,
/// of which the batch is the first; axes of both alone are summed.
void EinsumOperators::of_values(const std::string& a, const std::string& b,
                                const std::string& y) {
  OnnxValue left = operand(0), right = operand(1);
  std::string shared, outer;
  for (const char c : a) {
    if (b.find(c) == std::string::npos) continue;
    (y.find(c) == std::string::npos ? shared : outer) += c;
  }
  const std::string rows = less(a, shared + outer), columns = less(b, shared + outer);
  require<OnnxMixedSamples>(left.rank() == std::ssize(a) && right.rank() == std::ssize(b) &&
                                y[0] == a[0] && y[0] == b[0] &&
                                y.size() == outer.size() + rows.size() + columns.size() &&
                                less(y, outer + rows + columns).empty(),
                            "only products of matrices are supported, with the batch first");
  expect_equal_extents(left, a, right, b);
  std::vector<int64_t> result = extents_of(left, a, outer + rows);
  for (const int64_t each : extents_of(right, b, columns)) result.push_back(each);
  const bool transposed = columns.empty() || shared.empty() || b.find(columns) < b.find(shared);
  left = matrices(std::move(left), a, {outer, rows, shared});
  right = transposed ? matrices(std::move(right), b, {outer, columns, shared})
                     : matrices(std::move(right), b, {outer, shared, columns});
  const MatMul op{.transpose_b = transposed};
  left.id = to.add(op, {left.id, right.id}, to.node_label(node, "product"));
  left.shape.back() = right.shape.end()[transposed ? -2 : -1];
  give(ordered(grouped(std::move(left), std::move(result)), outer + rows + columns, y));
}

/// Returns a value with the axes `labels` as matrices with the axes of `parts`: common axes,
/// and those that become the last two.
OnnxValue EinsumOperators::matrices(OnnxValue value, const std::string& labels,
                                    const std::array<std::string, 3>& parts) {
  const auto& [outer, rows, columns] = parts;
  std::vector<int64_t> shape = extents_of(value, labels, outer);
  for (const std::string& part : {rows, columns}) {
    shape.push_back(onnx_product(extents_of(value, labels, part)));
  }
  return grouped(ordered(std::move(value), labels, outer + rows + columns), std::move(shape));
}

void EinsumOperators::einsum() {
  std::string equation = node.text("equation", "");
  std::erase(equation, ' ');
  const size_t comma = equation.find(','), arrow = equation.find("->");
  expect(node.inputs() == 2 && comma != std::string::npos && arrow != std::string::npos &&
             comma < arrow && equation.find('.') == std::string::npos &&
             equation.find(',', comma + 1) == std::string::npos,
         "the equation {} is not supported: use a product of two operands with named axes",
         printable(equation));
  settle();
  const std::string a = equation.substr(0, comma);
  const std::string b = equation.substr(comma + 1, arrow - comma - 1);
  const std::string y = equation.substr(arrow + 2);
  require<FormatError>(!a.empty() && !b.empty() && !y.empty() && !has_repeats(a) &&
                           !has_repeats(b) && !has_repeats(y),
                       "the equation {} is not supported", printable(equation));
  const bool first = to.is_constant(node.input(0)), second = to.is_constant(node.input(1));
  if (first || second) return with_matrix(a, b, y, first);
  of_values(a, b, y);
}

/// Multiplies a matrix by [n, ..., rows, columns]: the rows become the last axis.
void OnnxOperators::matmul_left() {
  expect_weights(0, 0, "a matrix of floats");
  OnnxValue a = to.to_same(operand(1));
  const OnnxConstant& matrix = to.constant(node, 0);
  const Shape& shape = matrix.shape;
  const bool single = shape.rank() >= 2 && shape.elements() == shape[-2] * shape[-1];
  require<FormatError>(single && shape.rank() <= a.rank(),
                       "input 0 must be a matrix of floats");
  const int64_t out = shape[-2], in = shape[-1];
  require<FormatError>(a.rank() >= 3 && a.shape[a.shape.size() - 2] == in,
                       "the matrix expects {} rows, the input has {}", in,
                       extents_text(a.shape));
  std::vector<int> swapped(a.shape.size());
  std::iota(swapped.begin(), swapped.end(), 0);
  std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
  const NodeId w = to.add_parameter(node.input(0), {out, in}, matrix.floats,
                                    to.module_label(node), "weight");
  a.id = to.permuted(a.id, swapped);
  a.id = to.add(MatMul{.transpose_b = true}, {a.id, w}, to.node_label(node, "product"));
  a.id = to.permuted(a.id, swapped);
  a.shape[a.shape.size() - 2] = out;
  give(std::move(a));
}

namespace {

constexpr OnnxOperator einsum_rows[] = {{"Einsum", convert<&EinsumOperators::einsum>}};

}  // namespace

std::span<const OnnxOperator> einsum_conversions() { return einsum_rows; }

}  // namespace qtape
