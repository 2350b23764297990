#include "qtape/model/passes/score_mask.h"

#include "qtape/model/passes/score_path.h"

namespace qtape {

std::vector<int64_t> ScoreMask::counted_places() const {
  std::vector<int64_t> places(counts.size());
  for_each_row([&](int64_t begin, int64_t step, int64_t n) {
    int64_t last = begin;
    while (!counts[static_cast<size_t>(last)]) last += step;
    for (int64_t place = begin; place < begin + n * step; place += step) {
      if (counts[static_cast<size_t>(place)]) last = place;
      places[static_cast<size_t>(place)] = last;
    }
  });
  return places;
}

Tensor ScoreMask::factors() const {
  const std::vector<float> values(counts.begin(), counts.end());
  return Tensor::of<float>(Shape(extents), values);
}

Tensor ScoreMask::counted_biases() const {
  std::vector<float> values;
  for (const int64_t place : counted_places()) {
    values.push_back(biases[static_cast<size_t>(place)]);
  }
  return Tensor::of<float>(Shape(extents), values);
}

std::optional<ScoreMask> score_mask(const Graph& graph, const Parameters& parameters,
                                    NodeId softmax) {
  ScoreMask mask;
  if (!ScorePath(graph, parameters, softmax).finish(mask).empty()) return std::nullopt;
  return mask;
}

}  // namespace qtape
