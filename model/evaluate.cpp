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

/// Returns the outputs as floats. Adds a Dequantize after each integer output, because
/// accumulators with different scales cannot be compared.
std::vector<ProgramNodeId> add_scores(IntegerProgram& program,
                                      const std::vector<ProgramNodeId>& outputs) {
  std::vector<ProgramNodeId> all = outputs;
  std::vector<ProgramNodeId> scores;
  for (const ProgramNodeId id : outputs) {
    const bool floats = program[id].value.type.dtype == DType::F32;
    scores.push_back(floats ? id : program.add(integer::Dequantize{}, {id}));
    if (!floats) all.push_back(scores.back());
  }
  program.set_outputs(all);
  return scores;
}

/// Returns the first `count` samples of an output of a session.
std::span<const std::byte> bytes_of_rows(const IntegerSession& session, ProgramNodeId id,
                                         int64_t count) {
  const TensorType& type = session.program()[id].value.type;
  return session.bytes(id).first(static_cast<size_t>(type.bytes() / type.shape[0] * count));
}

/// An answer that is scored.
struct Judged {
  std::string label;
  int64_t width = 0;  // values per sample
  std::optional<MetricChoice> metric;
};

/// Computes scores and hashes of answers. The constructor throws ArgumentError like Scorer.
class Judge {
 public:
  Judge(const data::Dataset& dataset, const std::vector<Judged>& answers);

  /// Adds the answers to samples `first` to `first + count`: the values of each and its bytes.
  void add(int64_t first, int64_t count, std::span<const std::span<const float>> scores,
           std::span<const std::span<const std::byte>> answers);
  Evaluation result();

 private:
  struct Each {
    std::string label;
    Sha256 sha256;
    std::optional<Scorer> scorer;
  };

  int64_t samples_ = 0;
  Sha256 hash_;
  std::vector<Each> answers_;
};

Judge::Judge(const data::Dataset& dataset, const std::vector<Judged>& answers) {
  for (const Judged& each : answers) {
    answers_.push_back({each.label, {}, {}});
    if (each.metric) answers_.back().scorer.emplace(*each.metric, dataset, each.width);
  }
}

void Judge::add(int64_t first, int64_t count, std::span<const std::span<const float>> scores,
                std::span<const std::span<const std::byte>> answers) {
  const auto rows = static_cast<size_t>(count);
  for (size_t row = 0; row < rows; ++row) {
    for (std::span<const std::byte> each : answers) {
      const size_t width = each.size() / rows;
      hash_.update(each.subspan(row * width, width));
    }
  }
  for (size_t i = 0; i < answers_.size(); ++i) {
    if (answers_.size() > 1) answers_[i].sha256.update(answers[i]);
    if (answers_[i].scorer) answers_[i].scorer->add(first, count, scores[i]);
  }
  samples_ += count;
}

Evaluation Judge::result() {
  Evaluation result{.samples = samples_, .outputs_sha256 = hex(hash_.digest())};
  for (Each& each : answers_) {
    AnswerHash answer{.label = each.label};
    if (each.scorer) answer.score = each.scorer->score();
    if (result.outputs.empty()) result.score = answer.score;
    answer.sha256 = hex(each.sha256.digest());
    result.outputs.push_back(std::move(answer));
  }
  if (result.outputs.size() == 1) result.outputs.clear();
  if (!result.score) return result;
  if (result.score->metric == MetricKind::Accuracy) result.accuracy = result.score->value;
  return result;
}

}  // namespace

Evaluator::Evaluator(const Graph& graph, const Parameters& parameters, int threads,
                     Arithmetic arithmetic, Exchange* exchange)
    : tape_(graph.with_batch(batch), parameters,
            {.outputs = answers_of(graph),
             .threads = threads,
             .constant_parameters = true,
             .arithmetic = std::move(arithmetic)}),
      answers_(answers_of(graph)),
      exchange_(exchange) {
  for (NodeId id : answers_) {
    const TensorType& type = tape_.graph()[id].type;
    check(type.shape[0] == batch,
          "{}: expected one row of outputs per sample, got {} for {} samples",
          tape_.graph().describe(id), to_string(type), batch);
  }
  if (exchange_ == nullptr) return;
  bytes_.resize(static_cast<size_t>(exchange_->ranks()));
  for (const NodeId id : answers_) {
    gathered_.emplace_back(static_cast<size_t>(width(id) * batch * exchange_->ranks()));
  }
}

int64_t Evaluator::width(NodeId answer) const {
  return tape_.graph()[answer].type.elements() / batch;
}

/// Returns the answers to samples `first` to `first + count`, of which each rank runs a batch.
std::vector<std::span<const float>> Evaluator::answers_to(int64_t first, int64_t count,
                                                          Feed& feed, Mode mode) {
  const int64_t own = exchange_ == nullptr ? 0 : exchange_->rank();
  const auto rows = [&](int64_t rank) {
    return std::clamp(count - rank * batch, int64_t{0}, batch);
  };
  if (rows(own) > 0) {
    feed.fill_from(first + own * batch);
    tape_.forward(mode);
  }
  std::vector<std::span<const float>> answers;
  for (size_t i = 0; i < answers_.size(); ++i) {
    const int64_t values = width(answers_[i]);
    const auto computed =
        tape_.value<float>(answers_[i]).first(static_cast<size_t>(values * rows(own)));
    if (exchange_ == nullptr) {
      answers.push_back(computed);
      continue;
    }
    for (size_t rank = 0; rank < bytes_.size(); ++rank) {
      bytes_[rank] = rows(static_cast<int64_t>(rank)) * values * int64_t{sizeof(float)};
    }
    auto& all = gathered_[i];
    exchange_->gather(std::as_bytes(computed), bytes_,
                      reinterpret_cast<std::byte*>(all.data()));
    answers.push_back(std::span(all).first(static_cast<size_t>(count * values)));
  }
  return answers;
}

Evaluation Evaluator::run(const data::Dataset& dataset, Mode mode,
                          std::optional<MetricKind> wanted) {
  Feed feed(inputs_of(tape_), dataset);
  const Graph& graph = tape_.graph();
  std::vector<Judged> judged;
  for (const NodeId id : answers_) {
    const bool as_wanted = wanted && id == answers_[0];
    judged.push_back({graph.name(id), width(id),
                      as_wanted ? choose_metric(graph, id, dataset, *wanted)
                                : choose_metric(graph, id, dataset)});
  }
  Judge judge(dataset, judged);
  tape_.parameters_changed();
  const int64_t step = batch * (exchange_ == nullptr ? 1 : exchange_->ranks());
  for (int64_t first = 0; first < dataset.size(); first += step) {
    const int64_t count = std::min(step, dataset.size() - first);
    const std::vector<std::span<const float>> answers = answers_to(first, count, feed, mode);
    std::vector<std::span<const std::byte>> bytes;
    for (const std::span<const float> each : answers) bytes.push_back(std::as_bytes(each));
    judge.add(first, count, answers, bytes);
  }
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
  const std::vector<ProgramNodeId> scores = add_scores(scored, outputs);
  IntegerSession session(std::move(scored), {.threads = threads});
  std::vector<Judged> judged;
  for (const ProgramNodeId id : outputs) {
    judged.push_back({output_name(program, id),
                      session.program()[id].value.type.elements() / Evaluator::batch,
                      choose_metric(program, id, dataset)});
  }
  Feed feed(inputs_of(session), dataset);
  Judge judge(dataset, judged);
  feed.for_each_batch([&](int64_t first, int64_t count) {
    session.run();
    std::vector<std::span<const float>> values;
    std::vector<std::span<const std::byte>> bytes;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const auto numbers = static_cast<size_t>(judged[i].width * count);
      values.push_back(session.value<float>(scores[i]).first(numbers));
      bytes.push_back(bytes_of_rows(session, outputs[i], count));
    }
    judge.add(first, count, values, bytes);
  });
  return judge.result();
}

}  // namespace qtape
