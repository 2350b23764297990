#include "qtape/tools/qtape/verify_samples.h"

#include <fmt/format.h>

#include <algorithm>

#include "qtape/integer/program/integer_node.h"
#include "qtape/model/evaluate.h"
#include "qtape/model/feed.h"
#include "qtape/programs/console/terminal.h"
#include "qtape/tools/qtape/random_inputs.h"

namespace qtape::tool {
namespace {

/// Returns the first output at one level, of the last run.
std::span<const float> answers(const Verifier& verifier, Level level, int64_t count,
                               size_t width) {
  return verifier.output(level).first(static_cast<size_t>(count) * width);
}

/// True if both answers have the same class at each of `places` places.
bool same_classes(std::span<const float> a, std::span<const float> b, size_t places,
                  const MetricChoice& choice) {
  const size_t scores = a.size() / places;
  for (size_t at = 0; at < a.size(); at += scores) {
    const int64_t of_a = predicted(a.subspan(at, scores), choice);
    if (of_a != predicted(b.subspan(at, scores), choice)) return false;
  }
  return true;
}

/// Counts samples with a predicted class that differs between levels.
void compare_classes(const Verifier& verifier, int64_t count, size_t width, size_t places,
                     const MetricChoice& choice, LevelScores& to) {
  for (const Level level : verifier.levels()) {
    const Level base = level == Level::Float ? Level::Exact : Level::Reference;
    if (std::ranges::count(verifier.levels(), base) == 0) continue;
    int64_t& different = to.seen_differently[level];
    const auto a = answers(verifier, level, count, width);
    const auto b = answers(verifier, base, count, width);
    for (size_t row = 0; row < static_cast<size_t>(count); ++row) {
      const size_t at = row * width;
      different +=
          same_classes(a.subspan(at, width), b.subspan(at, width), places, choice) ? 0 : 1;
    }
  }
}

template <class T>
int64_t batch_of(const T& nodes, int64_t samples) {
  const int64_t batch = std::clamp<int64_t>(samples, 1, largest_batch);
  try {
    (void)nodes.with_batch(batch);
    return nodes.batch() ? batch : 1;
  } catch (const GraphError&) {
    return nodes.batch().value_or(1);
  }
}

}  // namespace

void show_progress(std::string_view what, int64_t done, int64_t all) {
  console::redraw(done == all ? "" : fmt::format("{}: {} of {}", what, done, all));
}

int64_t verification_batch(const Graph& graph, int64_t samples) {
  return batch_of(graph, samples);
}
int64_t verification_batch(const IntegerProgram& program, int64_t samples) {
  return batch_of(program, samples);
}

std::optional<MetricChoice> Samples::metric_for(const data::Dataset& dataset) const {
  const IntegerProgram& program = verifier.program();
  const ProgramNodeId output = program.outputs()[0];
  const auto& [dtype, shape] = program[output].value.type;
  if (dtype != DType::F32 || shape.rank() == 0 || shape[0] != batch) return std::nullopt;
  const auto choice = graph == nullptr ? choose_metric(program, output, dataset)
                                       : choose_metric(*graph, graph->answers()[0], dataset);
  const bool classes = choice && choice->kind == MetricKind::Accuracy;
  const int64_t width = shape.elements() / batch / (classes ? places_of(*choice, dataset) : 1);
  if (classes && dataset.classes() > choice->classes(width)) return std::nullopt;
  return choice;
}

std::optional<LevelScores> Samples::run_data(const data::Dataset& dataset) {
  Feed feed(inputs_of(verifier), dataset);
  const auto choice = metric_for(dataset);
  const IntegerProgram& program = verifier.program();
  const int64_t width = program[program.outputs()[0]].value.type.elements() / batch;
  std::map<Level, Scorer> scorers;
  for (const Level level : verifier.levels()) {
    if (choice) scorers.emplace(level, Scorer(*choice, dataset, width));
  }
  LevelScores found;
  feed.for_each_batch([&](int64_t first, int64_t count) {
    verifier.run(count);
    for (auto& [level, scorer] : scorers) {
      scorer.add(first, count, answers(verifier, level, count, static_cast<size_t>(width)));
    }
    if (choice && choice->kind == MetricKind::Accuracy) {
      const auto places = static_cast<size_t>(places_of(*choice, dataset));
      compare_classes(verifier, count, static_cast<size_t>(width), places, *choice, found);
    }
    show_progress("samples", first + count, dataset.size());
  });
  if (!choice) return std::nullopt;
  found.metric = choice->kind;
  for (const auto& [level, scorer] : scorers) found.scores[level] = scorer.score().value;
  return found;
}

void Samples::run_random(int64_t samples, uint64_t seed) {
  std::vector<InputRange> ranges;
  for (ProgramNodeId input : verifier.inputs())
    ranges.push_back(range_of(verifier.program(), input));
  const auto memory = [&]<class T>(size_t k) { return verifier.input<T>(k); };
  for (int64_t first = 0; first < samples; first += batch) {
    const int64_t count = std::min(batch, samples - first);
    fill_random(ranges, {seed, first, count, batch}, memory);
    verifier.run(count);
    show_progress("random inputs", first + count, samples);
  }
}

}  // namespace qtape::tool
