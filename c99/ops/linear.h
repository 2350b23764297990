// Linear and MatMul in C99.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "qtape/c99/c_grid.h"
#include "qtape/c99/c_products.h"
#include "qtape/c99/c_source.h"
#include "qtape/integer/ops/integer_ops.h"

namespace qtape {
namespace {

void write_cmsis(const integer::Linear& op, CNode& node) {
  const IntegerValue& x = node.in(0);
  const auto [n, k] = std::pair(op.weights.outputs(), op.weights.terms());
  const int64_t rows = node.out().type.elements() / std::max<int64_t>(1, n);
  const bool each = node.out().scales.size() > 1;
  const std::vector<int64_t> offsets = op.weights.offsets(x);
  const std::vector<int32_t> sums(offsets.begin(), offsets.end());
  const CWeights w = write_weights(node, op.weights.unpacked(), n, 8, 0);
  const std::string bias =
      node.source.array<int32_t>(node.name, "bias", op.weights.all_biases());
  const std::string helium = node.source.helium_array(node.name, "sums", sums);
  const std::string grid = cmsis_grid(node, node.out(), *node.grid(), each ? n : 1);
  node.call_library("arm_fully_connected_wrapper_s8", "cmsis_dense", node.operands[0],
                    node.result, rows, k, n, x.zero_point, w.array, bias, helium, each ? 1 : 0,
                    grid);
  node.source.check_rounding("cmsis_check_dense", node.source.kernel("cmsis_dense", ""),
                             rounds_once(node.requantization));
}

}  // namespace

inline void write(const integer::Linear& op, CNode& node) {
  node.own_because = not_by_cmsis_nn(node.use(), op.weights);
  if (node.kernels == CKernels::CmsisNn && node.own_because.empty()) {
    return write_cmsis(op, node);
  }
  const QuantizedWeights& weights = op.weights;
  const IntegerValue& x = node.in(0);
  const auto [n, k] = std::pair(weights.outputs(), weights.terms());
  const int64_t rows = node.out().type.elements() / std::max<int64_t>(1, n);
  const std::string sum = weights.certificate.fits_s32() ? "int32_t" : "int64_t";
  const std::string code(c_type(x.type.dtype));
  const CStore store = node.store(sum);
  const CWeights w = write_weights(node, weights.unpacked(), n, weights.storage_bits, 0);
  const COffsets offsets = write_offsets(node, "offset", weights.offsets(x));
  const std::string dense = node.source.kernel(
      "dense", fmt::format("{}_{}_{}", code, weights.storage_bits, store.type),
      {{"X", code},
       {"Y", store.type},
       {"ACC", sum},
       {"W", w.type},
       {"OFFSET", offsets.type},
       {"TO", store.to},
       {"STORE", store.function},
       {"DOT", dot_kernel(node, weights.storage_bits, code, sum)}});
  node.call(dense, node.operands[0], node.result, rows, k, n, w.array, w.row, offsets.array,
            store.argument);
}

inline void write(const integer::MatMul& op, CNode& node) {
  node.own_because = "arm_batch_matmul_s8 is not called";
  const IntegerValue& a = node.in(0);
  const IntegerValue& b = node.in(1);
  const integer::MatMul::Extents e = op.extents(a.type.shape, b.type.shape);
  const std::string sum(c_type(node.out().type.dtype));
  const CStore store = node.store(sum);
  const std::string a_code(c_type(a.type.dtype));
  const std::string b_code(c_type(b.type.dtype));
  node.source.kernel("matmul_extents", "");
  const std::string extents = node.source.constant(
      node.name, "extents",
      {.type = node.source.prefix() + "_matmul",
       .first = "matrices",
       .words = c_words_of(e.batch, e.m, e.k, e.n, e.a_row, e.a_term, a.zero_point, e.b_matrix,
                           e.b_term, e.b_column, b.zero_point)});
  const std::string kernel =
      node.source.kernel("matmul", fmt::format("{}_{}_{}", a_code, b_code, store.type),
                         {{"A", a_code},
                          {"B", b_code},
                          {"Y", store.type},
                          {"ACC", sum},
                          {"TO", store.to},
                          {"STORE", store.function}});
  node.call(kernel, node.operands[0], node.operands[1], node.result, "&" + extents,
            store.argument);
}

}  // namespace qtape
