#include "qtape/model/evaluate.h"

#include <algorithm>

#include "qtape/integer/integer_binding.h"
#include "qtape/integer/session.h"
#include "qtape/model/feed.h"

namespace qtape {
namespace {

NodeId output_of(const Graph& graph) {
  check(!graph.outputs().empty(), "the graph names no outputs");
  const NodeId output = graph.outputs()[0];
  const TensorType& type = graph[output].type;
  check(type.dtype == DType::F32 && type.shape.rank() >= 1,
        "{}: expected f32 [batch, ...] as first output, got {}", graph.describe(output),
        to_string(type));
  return output;
}

NodeId output_of(const IntegerProgram& program) {
  check(!program.outputs().empty(), "the program names no outputs");
  const NodeId output = program.outputs()[0];
  const TensorType& type = program[output].value.type;
  check(type.shape.rank() >= 1 && type.shape[0] == program.batch(),
        "{}: expected [batch, ...] as first output, got {}", program.describe(output),
        to_string(type));
  return output;
}

/// Adds what makes floats of an integer output: accumulators of different scales cannot be
/// compared.
NodeId add_scores(IntegerProgram& program, NodeId output) {
  if (program[output].value.type.dtype == DType::F32) return output;
  const NodeId scores = program.add(integer::Dequantize{}, {output});
  program.set_outputs({output, scores});
  return scores;
}

/// The first `count` samples of an output of a session.
template <class T>
std::span<const T> rows(const IntegerSession& session, NodeId id, int64_t count) {
  const TensorType& type = session.program()[id].value.type;
  return session.value<T>(id).first(
      static_cast<size_t>(type.elements() / type.shape[0] * count));
}

}  // namespace

int64_t predicted(std::span<const float> scores) {
  if (scores.size() == 1) return scores[0] > 0 ? 1 : 0;
  return std::ranges::max_element(scores) - scores.begin();
}

Judge::Judge(const data::Dataset& dataset, const TensorType& answers) : dataset_(dataset) {
  if (dataset.classes() == 0 || answers.shape.rank() != 2) return;
  classes_ = answers.shape[1];
  const int64_t most = std::max<int64_t>(2, classes_);
  require<ArgumentError>(dataset.classes() <= most, "the data has {} classes, the model {}",
                         dataset.classes(), classes_);
  labels_ = dataset.target();
}

void Judge::add(int64_t first, int64_t count, std::span<const float> scores,
                std::span<const std::byte> bytes) {
  hash_.update(bytes);
  samples_ += count;
  if (!labels_) return;
  const auto classes = static_cast<size_t>(classes_);
  for (int64_t row = 0; row < count; ++row) {
    int32_t label = 0;
    dataset_.read(*labels_, first + row, std::span(&label, 1));
    const auto answer = scores.subspan(static_cast<size_t>(row) * classes, classes);
    right_ += predicted(answer) == label ? 1 : 0;
  }
}

Evaluation Judge::result() {
  Evaluation result{.samples = samples_, .outputs_sha256 = hex(hash_.digest())};
  if (labels_) {
    result.accuracy = 100.0 * static_cast<double>(right_) /
                      static_cast<double>(std::max<int64_t>(1, samples_));
  }
  return result;
}

Evaluator::Evaluator(const Graph& graph, Parameters& parameters, int threads,
                     Arithmetic arithmetic)
    : tape_(graph.with_batch(batch), parameters,
            {.outputs = {output_of(graph)},
             .threads = threads,
             .constant_parameters = true,
             .arithmetic = std::move(arithmetic)}),
      output_(output_of(graph)) {
  const TensorType& type = tape_.graph()[output_].type;
  check(type.shape[0] == batch,
        "{}: expected one row of outputs per sample, got {} for {} samples",
        tape_.graph().describe(output_), to_string(type), batch);
}

Evaluation Evaluator::run(const data::Dataset& dataset, Mode mode) {
  Feed feed(inputs_of(tape_), dataset);
  const TensorType& type = tape_.graph()[output_].type;
  Judge judge(dataset, type);
  tape_.parameters_changed();
  feed.for_each_batch([&](int64_t first, int64_t count) {
    tape_.forward(mode);
    const auto y =
        tape_.value<float>(output_).first(static_cast<size_t>(type.elements() / batch * count));
    judge.add(first, count, y, std::as_bytes(y));
  });
  return judge.result();
}

Evaluation evaluate(const IntegerProgram& program, const data::Dataset& dataset, int threads) {
  IntegerProgram scored = program.with_batch(Evaluator::batch);
  const NodeId output = output_of(scored);
  const NodeId scores = add_scores(scored, output);
  IntegerSession session(std::move(scored), {.threads = threads});
  const TensorType type = session.program()[output].value.type;
  Feed feed(inputs_of(session), dataset);
  Judge judge(dataset, type);
  feed.for_each_batch([&](int64_t first, int64_t count) {
    session.run();
    const auto add = [&]<class T>() {
      judge.add(first, count, rows<float>(session, scores, count),
                std::as_bytes(rows<T>(session, output, count)));
    };
    if (type.dtype == DType::F32) {
      add.template operator()<float>();
    } else {
      dispatch_integers(type.dtype, add);
    }
  });
  return judge.result();
}

}  // namespace qtape
