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

}  // namespace qtape
