// Integer ops over windows and images in C99.
#pragma once

#include <fmt/format.h>

#include "qtape/c99/c_axes.h"
#include "qtape/c99/c_products.h"
#include "qtape/c99/c_source.h"
#include "qtape/integer/ops/integer_ops.h"

namespace qtape {

inline void write(const integer::Structure<qtape::MaxPool>& op, CNode& node) {
  const Pool windows = op.pool(node.in(0).type.shape);
  const std::string code(c_type(node.out().type.dtype));
  const std::string window =
      write_window(node, windows.images, windows.channels, windows.window);
  const auto& [h, w] = windows.window;
  if (node.out().type.dtype != DType::S8) {
    node.own_because = "CMSIS-NN is called for 8-bit codes";
  } else if (h.dilation != 1 || w.dilation != 1) {
    node.own_because = "CMSIS-NN's windows have no dilation here";
  } else if (node.kernels == CKernels::CmsisNn) {
    return node.call_library("arm_max_pool_s8", "cmsis_max_pool", node.operands[0], node.result,
                             window);
  }
  node.call(node.source.kernel("max_pool", code, {{"X", code}}), node.operands[0], node.result,
            window);
}

inline void write(const integer::AvgPool& op, CNode& node) {
  const IntegerValue& x = node.in(0);
  const Pool windows = op.pool(x.type.shape);
  const std::string code(c_type(x.type.dtype));
  const std::string sum(c_type(node.out().type.dtype));
  const CStore store = node.store(sum);
  const std::string window =
      write_window(node, windows.images, windows.channels, windows.window);
  const std::string average = node.source.kernel("avg_pool", fmt::format("{}_{}", code, sum),
                                                 {{"X", code},
                                                  {"Y", store.type},
                                                  {"ACC", sum},
                                                  {"TO", store.to},
                                                  {"STORE", store.function}});
  node.call(average, node.operands[0], node.result, window, x.zero_point,
            op.common_multiple(x.type.shape),
            op.count_include_pad ? windows.window.kernel() : 0, store.argument);
}

inline void write(const integer::MeanPool& op, CNode& node) {
  const IntegerValue& x = node.in(0);
  if (node.out().type.elements() == 0) return;
  const Pool windows = op.pool(x.type.shape);
  const std::string code(c_type(x.type.dtype));
  const std::string window =
      write_window(node, windows.images, windows.channels, windows.window);
  const std::string mean = node.source.kernel(
      "mean_pool", code,
      {{"X", code}, {"ACC", size_of(x.type.dtype) == 1 ? "int32_t" : "int64_t"}});
  node.call(mean, node.operands[0], node.result, window);
}

inline void write(const integer::Structure<qtape::Upsample>&, CNode& node) {
  const Shape& x = node.in(0).type.shape;
  const Shape& y = node.out().type.shape;
  const bool one = x.rank() == 3;
  const int64_t height = one ? 1 : x[1];
  const int64_t width = one ? x[1] : x[2];
  const int64_t by_h = one || x[1] == 0 ? 1 : y[1] / x[1];
  const int64_t by_w = width == 0 ? 1 : y[one ? 1 : 2] / width;
  node.call(node.source.kernel("repeat", ""), node.operands[0], node.result, x[0], height,
            width, by_h, by_w, x[-1] * size_of(node.out().type.dtype));
}

inline void write(const integer::Interpolate& op, CNode& node) {
  const IntegerValue& x = node.in(0);
  const Shape& from = x.type.shape;
  const Shape& to = node.out().type.shape;
  if (to.elements() == 0) return;
  std::vector<CWord> words;
  if (from.rank() == 3) words = c_words_of(1, 1, 0, 0, 1);
  for (int k = 0; k + 2 < from.rank(); ++k) {
    const auto i = static_cast<size_t>(k);
    const int64_t last = std::max(op.step[i] * (to[1 + k] - 1) + op.offset[i],
                                  (from[1 + k] - 1) * op.divisor[i]);
    check(last <= std::numeric_limits<int32_t>::max() &&
              op.step[i] * to[1 + k] <= std::numeric_limits<int32_t>::max(),
          "positions along axis {} do not fit 32 bits", 1 + k);
    for (const int64_t each :
         {from[1 + k], to[1 + k], op.step[i], op.offset[i], op.divisor[i]}) {
      words.push_back(CWord::of(each));
    }
  }
  node.source.kernel("positions", "");
  const std::string table =
      node.source.table(node.name, "positions", node.source.prefix() + "_positions", words, 5);
  const std::string code(c_type(x.type.dtype));
  const std::string sum(c_type(node.out().type.dtype));
  const std::string place = node.source.kernel("place", "");
  const CStore store = node.store(sum);
  node.call(node.source.kernel("interpolate", fmt::format("{}_{}", code, sum),
                               {{"X", code},
                                {"Y", store.type},
                                {"ACC", sum},
                                {"TO", store.to},
                                {"PLACE", place},
                                {"STORE", store.function}}),
            node.operands[0], node.result, table, from[0], from[-1], x.zero_point,
            store.argument);
}

inline void write(const integer::Pad& op, CNode& node) {
  const Shape& x = node.in(0).type.shape;
  const Shape& y = node.out().type.shape;
  if (y.elements() == 0) return;
  const std::vector<int64_t> strides = row_major_strides(y);
  int64_t at = 0;
  for (int axis = 0; axis < y.rank(); ++axis)
    at += op.begin[axis] * strides[static_cast<size_t>(axis)];
  std::vector<CAxis> axes;
  for (int axis = 0; axis + 1 < x.rank(); ++axis) {
    axes.push_back({x[axis], strides[static_cast<size_t>(axis)]});
  }
  const int64_t width = x.rank() == 0 ? 1 : x[-1];
  const std::string walk = write_axes(node, axes);
  const std::string code_type(c_type(node.in(0).type.dtype));
  node.call(node.source.kernel("pad", code_type, {{"X", code_type}}), node.operands[0],
            node.result, y.elements(), op.code, at, x.elements() / std::max<int64_t>(1, width),
            width, walk, std::ssize(axes));
}

}  // namespace qtape
