#include "qtape/model/evaluate.h"

#include <algorithm>

#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/session.h"
#include "qtape/io/sha256.h"
#include "qtape/model/feed.h"

namespace qtape {
namespace {

std::vector<NodeId> answers_of(const Graph& graph) {
  std::vector<NodeId> answers = graph.answers();
  check(!answers.empty(), "the graph names no outputs");
  for (NodeId id : answers) {
    const TensorType& type = graph[id].type;
    check(type.dtype == DType::F32 && type.shape.rank() >= 1,
          "{}: expected f32 [batch, ...] as {}output, got {}", graph.describe(id),
          id == answers[0] ? "first " : "", to_string(type));
  }
  return answers;
}

std::vector<ProgramNodeId> outputs_of(const IntegerProgram& program) {
  check(!program.outputs().empty(), "the program names no outputs");
  const std::vector<ProgramNodeId> outputs(program.outputs().begin(), program.outputs().end());
  for (ProgramNodeId id : outputs) {
    const TensorType& type = program[id].value.type;
    check(type.shape.rank() >= 1 && type.shape[0] == program.batch(),
          "{}: expected [batch, ...] as {}output, got {}", program.describe(id),
          id == outputs[0] ? "first " : "", to_string(type));
  }
  return outputs;
}

/// Adds a Dequantize after an integer output, because accumulators with different scales cannot
/// be compared.
ProgramNodeId add_scores(IntegerProgram& program, std::vector<ProgramNodeId> outputs) {
  if (program[outputs[0]].value.type.dtype == DType::F32) return outputs[0];
  outputs.push_back(program.add(integer::Dequantize{}, {outputs[0]}));
  program.set_outputs(outputs);
  return outputs.back();
}

/// Returns the first `count` samples of an output of a session.
std::span<const std::byte> bytes_of_rows(const IntegerSession& session, ProgramNodeId id,
                                         int64_t count) {
  const TensorType& type = session.program()[id].value.type;
  return session.bytes(id).first(static_cast<size_t>(type.bytes() / type.shape[0] * count));
}

/// Computes scores and hashes of answers.
class Judge {
 public:
  /// `labels` are those of the answers. The first answer, with `width` values per sample, is
  /// scored. Throws ArgumentError like Scorer.
  Judge(const data::Dataset& dataset, const std::optional<MetricChoice>& metric, int64_t width,
        const std::vector<std::string>& labels);

  /// Adds the answers to samples `first` to `first + count`: `scores` are the values of the
  /// first answer, `answers` the bytes of each.
  void add(int64_t first, int64_t count, std::span<const float> scores,
           std::span<const std::span<const std::byte>> answers);
  Evaluation result();

 private:
  struct Hash {
    std::string label;
    Sha256 sha256;
  };

  std::optional<Scorer> scorer_;
  int64_t samples_ = 0;
  Sha256 hash_;
  std::vector<Hash> hashes_;  // one per answer if there are several
};

Judge::Judge(const data::Dataset& dataset, const std::optional<MetricChoice>& metric,
             int64_t width, const std::vector<std::string>& labels) {
  if (metric) scorer_.emplace(*metric, dataset, width);
  if (labels.size() < 2) return;
  for (const std::string& label : labels) hashes_.push_back({label, {}});
}

void Judge::add(int64_t first, int64_t count, std::span<const float> scores,
                std::span<const std::span<const std::byte>> answers) {
  const auto rows = static_cast<size_t>(count);
  for (size_t row = 0; row < rows; ++row) {
    for (std::span<const std::byte> each : answers) {
      const size_t width = each.size() / rows;
      hash_.update(each.subspan(row * width, width));
    }
  }
  for (size_t i = 0; i < hashes_.size(); ++i) hashes_[i].sha256.update(answers[i]);
  samples_ += count;
  if (scorer_) scorer_->add(first, count, scores);
}

Evaluation Judge::result() {
  Evaluation result{.samples = samples_, .outputs_sha256 = hex(hash_.digest())};
  for (Hash& each : hashes_) {
    result.outputs.push_back({each.label, hex(each.sha256.digest())});
  }
  if (!scorer_) return result;
  result.score = scorer_->score();
  if (result.score->metric == MetricKind::Accuracy) result.accuracy = result.score->value;
  return result;
}

}  // namespace

Evaluator::Evaluator(const Graph& graph, const Parameters& parameters, int threads,
                     Arithmetic arithmetic)
    : tape_(graph.with_batch(batch), parameters,
            {.outputs = answers_of(graph),
             .threads = threads,
             .constant_parameters = true,
             .arithmetic = std::move(arithmetic)}),
      answers_(answers_of(graph)) {
  for (NodeId id : answers_) {
    const TensorType& type = tape_.graph()[id].type;
    check(type.shape[0] == batch,
          "{}: expected one row of outputs per sample, got {} for {} samples",
          tape_.graph().describe(id), to_string(type), batch);
  }
}

std::span<const float> Evaluator::rows(NodeId answer, int64_t count) const {
  const int64_t width = tape_.graph()[answer].type.elements() / batch;
  return tape_.value<float>(answer).first(static_cast<size_t>(width * count));
}

Evaluation Evaluator::run(const data::Dataset& dataset, Mode mode,
                          std::optional<MetricKind> wanted) {
  Feed feed(inputs_of(tape_), dataset);
  const Graph& graph = tape_.graph();
  std::vector<std::string> labels;
  for (NodeId id : answers_) labels.push_back(graph.name(id));
  const auto metric = wanted ? choose_metric(graph, answers_[0], dataset, *wanted)
                             : choose_metric(graph, answers_[0], dataset);
  Judge judge(dataset, metric, graph[answers_[0]].type.elements() / batch, labels);
  tape_.parameters_changed();
  feed.for_each_batch([&](int64_t first, int64_t count) {
    tape_.forward(mode);
    std::vector<std::span<const std::byte>> bytes;
    for (NodeId id : answers_) bytes.push_back(std::as_bytes(rows(id, count)));
    judge.add(first, count, rows(answers_[0], count), bytes);
  });
  return judge.result();
}

std::string output_name(const IntegerProgram& program, ProgramNodeId output) {
  const IntegerNode& node = program[output];
  if (!std::holds_alternative<integer::Dequantize>(node.op)) return program.name(output);
  const std::string& integers = program[node.operands[0]].label;
  const bool own =
      !integers.empty() && (node.label.empty() || node.label == integers + ".value");
  return own ? integers : program.name(output);
}

Evaluation evaluate(const IntegerProgram& program, const data::Dataset& dataset, int threads) {
  IntegerProgram scored = program.with_batch(Evaluator::batch);
  const std::vector<ProgramNodeId> outputs = outputs_of(scored);
  const ProgramNodeId scores = add_scores(scored, outputs);
  IntegerSession session(std::move(scored), {.threads = threads});
  std::vector<std::string> labels;
  for (ProgramNodeId id : outputs) labels.push_back(output_name(program, id));
  Feed feed(inputs_of(session), dataset);
  const TensorType& type = session.program()[scores].value.type;
  Judge judge(dataset, choose_metric(program, outputs[0], dataset),
              type.elements() / Evaluator::batch, labels);
  feed.for_each_batch([&](int64_t first, int64_t count) {
    session.run();
    std::vector<std::span<const std::byte>> bytes;
    for (ProgramNodeId id : outputs) bytes.push_back(bytes_of_rows(session, id, count));
    const size_t numbers = static_cast<size_t>(type.elements() / Evaluator::batch * count);
    judge.add(first, count, session.value<float>(scores).first(numbers), bytes);
  });
  return judge.result();
}

}  // namespace qtape
