#include "qtape/c99/c_axes.h"

#include <fmt/format.h>

namespace qtape {

std::vector<int64_t> row_major_strides(const Shape& shape) {
  std::vector<int64_t> strides(static_cast<size_t>(shape.rank()));
  int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[static_cast<size_t>(axis)] = stride;
    stride *= shape[axis];
  }
  return strides;
}

std::vector<CAxis> joined(const std::vector<CAxis>& axes) {
  std::vector<CAxis> all;
  for (const CAxis& axis : axes) {
    if (axis.extent == 1) continue;
    const bool joins =
        !all.empty() &&
        (axis.step == 0 ? all.back().step == 0 : all.back().step == axis.step * axis.extent);
    if (joins) {
      all.back() = {all.back().extent * axis.extent, axis.step};
    } else {
      all.push_back(axis);
    }
  }
  return all;
}

std::string write_axes(CNode& node, const std::vector<CAxis>& axes) {
  node.source.kernel("walk", "");
  std::vector<CWord> words;
  for (size_t i = axes.size(); i-- > 0;) {
    words.push_back(CWord::of(axes[i].extent));
    words.push_back(CWord::of(axes[i].step));
  }
  if (words.empty()) words = c_words_of(1, 0);
  return node.source.table(node.name, "axes", node.source.prefix() + "_axis", words, 2);
}

std::vector<CPairAxis> pair_axes(const Shape& a, const Shape& b, const Shape& y) {
  std::vector<CPairAxis> axes;
  int64_t stride_a = 1;
  int64_t stride_b = 1;
  for (int i = 1; i <= y.rank(); ++i) {
    const int64_t extent_a = i <= a.rank() ? a[-i] : 1;
    const int64_t extent_b = i <= b.rank() ? b[-i] : 1;
    const CPairAxis axis{y[-i], extent_a == 1 ? 0 : stride_a, extent_b == 1 ? 0 : stride_b};
    stride_a *= extent_a;
    stride_b *= extent_b;
    if (axis.extent == 1) continue;
    const bool joins = !axes.empty() && axis.a == axes.back().a * axes.back().extent &&
                       axis.b == axes.back().b * axes.back().extent;
    if (joins) {
      axes.back().extent *= axis.extent;
    } else {
      axes.push_back(axis);
    }
  }
  if (axes.empty()) axes.push_back({});
  return axes;
}

std::string write_axes(CNode& node, const std::vector<CPairAxis>& axes) {
  node.source.kernel("pair_axis", "");
  std::vector<CWord> words;
  for (const CPairAxis& axis : axes) {
    for (int64_t each : {axis.extent, axis.a, axis.b}) words.push_back(CWord::of(each));
  }
  return node.source.table(node.name, "axes", node.source.prefix() + "_pair_axis", words, 3);
}

}  // namespace qtape
