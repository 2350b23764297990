#include "qtape/model/training/distillation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "qtape/engine/labels.h"
#include "qtape/model/feed.h"
#include "qtape/model/passes/last_softmax.h"
#include "qtape/model/targets.h"

namespace qtape {
namespace {

NodeId add_factor(Graph& graph, NodeId x, double factor) {
  const auto value = static_cast<float>(factor);
  const NodeId constant =
      graph.add(Constant{.value = Tensor::of<float>({}, std::span(&value, 1))}, {});
  return graph.add(Mul{}, {x, constant});
}

int64_t classes_of(const Graph& graph, NodeId answer, const char* who) {
  const TensorType& type = graph[answer].type;
  require<ArgumentError>(type.dtype == DType::F32 && type.shape.rank() == 2,
                         "distillation: the {} returns {}, expected f32 [batch, classes]", who,
                         to_string(type));
  return type.shape[1];
}

/// Returns the scores of an answer divided by the temperature. A single one is the logit of
/// class 1 of two, also of a probability, so that of class 0 is 0.
NodeId cooled(Graph& graph, NodeId answer, double temperature) {
  const NodeId scores = add_factor(graph, before_sigmoid(graph, answer), 1 / temperature);
  if (graph[answer].type.shape[1] > 1) return scores;
  return graph.add(Pad{.begin = {0, 1}, .end = {0, 0}}, {scores});
}

/// True if the loss compares classes or logarithms of probabilities.
bool compares_probabilities(const Graph& graph, NodeId loss) {
  const std::vector<bool> needed = needed_for(graph, std::span(&loss, 1));
  for (const NodeId id : ids(graph)) {
    const Op& op = graph[id].op;
    if (needed[at(id)] && is_any<SoftmaxCrossEntropy, LogSoftmax, Log>(op)) return true;
  }
  return false;
}

}  // namespace

DistilledGraph distilled(const Graph& graph, NodeId answer, NodeId loss,
                         const Distillation& distillation) {
  const auto& [teacher, temperature, share] = distillation;
  require<ArgumentError>(teacher != nullptr, "distillation: there is no teacher");
  for (const auto& [who, answers] :
       {std::pair("student", names_of_answers(graph)),
        std::pair("teacher", names_of_answers(teacher->graph()))}) {
    require<ArgumentError>(answers.size() == 1,
                           "distillation: the {} has {} answers, '{}', expected one", who,
                           answers.size(), fmt::join(answers, "', '"));
  }
  require<ArgumentError>(std::isfinite(temperature) && temperature > 0,
                         "distillation: temperature must be finite and > 0, got {}",
                         temperature);
  require<ArgumentError>(share >= 0 && share <= 1,
                         "distillation: share must be in [0, 1], got {}", share);
  const int64_t classes = classes_of(graph, answer, "student");
  const int64_t known = classes_of(teacher->graph(), teacher->answer(), "teacher");
  require<ArgumentError>(classes == known,
                         "distillation: the student has {} classes, the teacher {}", classes,
                         known);
  require<ArgumentError>(compares_probabilities(graph, loss),
                         "distillation: the loss compares values, expected a cross-entropy: a "
                         "teacher teaches classes");
  DistilledGraph result{.graph = graph, .loss = {}, .probabilities = {}};
  Graph& grown = result.graph;
  const NodeId scores = cooled(grown, answer, temperature);
  const Shape shape = grown[scores].type.shape;
  result.probabilities = grown.add(Input{.shape = shape}, {}, unused_label(grown, "teacher"));
  const NodeId logs = grown.add(LogSoftmax{.axis = -1}, {scores});
  const NodeId mean = grown.add(Mean{}, {grown.add(Mul{}, {result.probabilities, logs})});
  // Mean also averages over classes.
  const double factor = -share * temperature * temperature * static_cast<double>(shape[1]);
  result.loss =
      grown.add(Add{}, {add_factor(grown, loss, 1 - share), add_factor(grown, mean, factor)});
  return result;
}

Teacher::Teacher(const Distillation& distillation, const data::Dataset& dataset, int64_t rows,
                 const Shards& shards, int threads, std::span<float> probabilities)
    : probabilities_(probabilities) {
  Graph graph = distillation.teacher->graph().with_batch(rows);
  output_ =
      graph.add(Softmax{.axis = -1},
                {cooled(graph, distillation.teacher->answer(), distillation.temperature)});
  tape_ = std::make_unique<Tape>(graph, distillation.teacher->parameters(),
                                 TapeOptions{.outputs = {output_},
                                             .threads = threads,
                                             .constant_parameters = true,
                                             .shards = shards});
  feed_ = naming<ArgumentError>(
      "teacher", [&] { return std::make_unique<Feed>(inputs_of(*tape_), dataset); });
}

void Teacher::answer(std::span<const int64_t> samples, int64_t step,
                     data::Augmenter& augmenter) {
  feed_->fill(samples, step, augmenter);
  tape_->forward(mode::eval);
  std::ranges::copy(tape_->value<float>(output_), probabilities_.begin());
}

Teacher::~Teacher() = default;

}  // namespace qtape
