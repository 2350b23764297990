#include "qtape/model/passes/score_mask.h"

#include <algorithm>

#include "qtape/engine/constants.h"
#include "qtape/integer/rules/analysis.h"

namespace qtape {

std::vector<int64_t> ScoreMask::counted_places() const {
  std::vector<int64_t> places(counts.size());
  for (int64_t row = 0; row < rows; ++row) {
    const auto begin = counts.begin() + row * columns;
    int64_t last = std::find(begin, begin + columns, true) - begin;
    for (int64_t column = 0; column < columns; ++column) {
      if (begin[column]) last = column;
      places[static_cast<size_t>(row * columns + column)] = row * columns + last;
    }
  }
  return places;
}

Tensor ScoreMask::factors() const {
  const std::vector<float> values(counts.begin(), counts.end());
  return Tensor::of<float>({rows, columns}, values);
}

std::optional<ScoreMask> score_mask(const Graph& graph, const Parameters& parameters,
                                    NodeId sum, int axis) {
  const Node& node = graph[sum];
  const Shape& shape = node.type.shape;
  if (!std::holds_alternative<Add>(node.op) || shape.rank() < 3) return std::nullopt;
  if (node.type.dtype != DType::F32 || resolve_axis(axis, shape) + 1 != shape.rank()) {
    return std::nullopt;
  }
  const auto is_leaf = [&](size_t k) {
    const Op& op = graph[node.operands[k]].op;
    return is_any<Constant, Parameter, State>(op);
  };
  if (is_leaf(0) == is_leaf(1)) return std::nullopt;
  const size_t leaf = is_leaf(0) ? 0 : 1;
  const Shape& of_mask = graph[node.operands[leaf]].type.shape;
  const Shape& of_scores = graph[node.operands[1 - leaf]].type.shape;
  const int64_t columns = shape[-1];
  const int64_t rows = of_mask.rank() > 1 ? of_mask[-2] : 1;
  const bool fits = of_scores == shape && of_mask.rank() > 0 && of_mask[-1] == columns &&
                    of_mask.elements() == rows * columns;
  if (!fits) return std::nullopt;
  const std::vector<float> values = leaf_values(graph, parameters, node.operands[leaf]);
  if (!is_additive_mask(values)) return std::nullopt;
  ScoreMask mask{.scores = 1 - leaf, .rows = shape[-2], .columns = columns};
  for (int64_t row = 0; row < mask.rows; ++row) {
    const auto* first = values.data() + (rows == 1 ? 0 : row * columns);
    std::transform(first, first + columns, std::back_inserter(mask.counts),
                   [](float each) { return each == 0; });
    if (std::find(mask.counts.end() - columns, mask.counts.end(), true) == mask.counts.end()) {
      return std::nullopt;
    }
  }
  return mask;
}

}  // namespace qtape
