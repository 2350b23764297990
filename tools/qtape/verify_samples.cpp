#include "qtape/tools/qtape/verify_samples.h"

#include <fmt/format.h>

#include <algorithm>

#include "qtape/console/terminal.h"
#include "qtape/model/evaluate.h"
#include "qtape/model/feed.h"
#include "qtape/tools/qtape/random_inputs.h"

namespace qtape::tool {
namespace {

constexpr int64_t usual_batch = 250;

void show(std::string_view what, int64_t done, int64_t all) {
  console::redraw(done == all ? "" : fmt::format("{}: {} of {}", what, done, all));
}

void count_right(const Verifier& verifier, const data::Dataset& dataset, int64_t first,
                 int64_t count, size_t classes, Right& right) {
  for (int64_t row = 0; row < count; ++row) {
    int32_t label = 0;
    dataset.read(*dataset.target(), first + row, std::span(&label, 1));
    std::map<Level, int64_t> found;
    for (Level level : verifier.levels()) {
      found[level] = predicted(
          verifier.output(level).subspan(static_cast<size_t>(row) * classes, classes));
      right.samples[level] += found[level] == label ? 1 : 0;
    }
    for (const auto& [level, answer] : found) {
      const auto base = found.find(level == Level::Float ? Level::Exact : Level::Reference);
      if (base == found.end()) continue;
      right.seen_differently[level] += base->second != answer ? 1 : 0;
    }
  }
}

}  // namespace

int64_t verification_batch(const Graph& graph) {
  try {
    (void)graph.with_batch(usual_batch);
    return graph.batch() ? usual_batch : 1;
  } catch (const GraphError&) {
    return graph.batch().value_or(1);
  }
}

size_t Samples::width(size_t input) const {
  return verifier.input(input).size() / static_cast<size_t>(batch);
}

bool Samples::takes(const data::Dataset& dataset, bool asked_for) const {
  try {
    (void)Feed(inputs_of(verifier), dataset);
    return true;
  } catch (const ArgumentError&) {
    if (asked_for) throw;
    return false;
  }
}

std::optional<Right> Samples::run_data(const data::Dataset& dataset) {
  Feed feed(inputs_of(verifier), dataset);
  const Shape& scores = verifier.program()[verifier.program().outputs()[0]].value.type.shape;
  const bool labelled =
      dataset.classes() > 0 && scores.rank() == 2 && dataset.classes() <= scores[1];
  Right right;
  feed.for_each_batch([&](int64_t first, int64_t count) {
    verifier.run(count);
    if (labelled) {
      count_right(verifier, dataset, first, count, static_cast<size_t>(scores[1]), right);
    }
    show("samples", first + count, dataset.size());
  });
  return labelled ? std::optional(right) : std::nullopt;
}

void Samples::run_random(int64_t samples, uint64_t seed) {
  std::vector<InputRange> ranges;
  for (NodeId input : verifier.inputs()) ranges.push_back(range_of(verifier.program(), input));
  for (int64_t first = 0; first < samples; first += batch) {
    const int64_t count = std::min(batch, samples - first);
    for (int64_t row = 0; row < count; ++row) {
      RandomSample sample(seed, first + row);
      for (size_t input = 0; input < ranges.size(); ++input) {
        sample.fill(ranges[input], verifier.input(input).subspan(
                                       static_cast<size_t>(row) * width(input), width(input)));
      }
    }
    verifier.run(count);
    show("random inputs", first + count, samples);
  }
}

}  // namespace qtape::tool
