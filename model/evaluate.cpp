#include "qtape/model/evaluate.h"

#include <algorithm>
#include <cmath>

#include "qtape/core/float_environment.h"
#include "qtape/engine/labels.h"
#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/output_names.h"
#include "qtape/integer/program/session.h"
#include "qtape/io/sha256.h"
#include "qtape/model/feed.h"
#include "qtape/model/ranks.h"

namespace qtape {

using detail::Judged;

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
  int64_t non_finite_ = 0;
  Sha256 hash_;
  std::vector<Each> answers_;
};

Judge::Judge(const data::Dataset& dataset, const std::vector<Judged>& answers) {
  require<ArgumentError>(dataset.size() > 0, "the data have no samples to evaluate");
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
  for (size_t row = 0; row < rows; ++row) {
    non_finite_ += !std::ranges::all_of(scores, [&](std::span<const float> each) {
      const size_t width = each.size() / rows;
      return std::ranges::all_of(each.subspan(row * width, width),
                                 [](float value) { return std::isfinite(value); });
    });
  }
  for (size_t i = 0; i < answers_.size(); ++i) {
    if (answers_.size() > 1) answers_[i].sha256.update(answers[i]);
    if (answers_[i].scorer) answers_[i].scorer->add(first, count, scores[i]);
  }
  samples_ += count;
}

Evaluation Judge::result() {
  Evaluation result{
      .samples = samples_, .outputs_sha256 = hex(hash_.digest()), .non_finite = non_finite_};
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
    gathered_.emplace_back(static_cast<size_t>(width(id) * batch));
  }
}

int64_t Evaluator::width(NodeId answer) const {
  return tape_.graph()[answer].type.elements() / batch;
}

/// Returns the answers of a rank to its batch of `count` samples.
std::vector<std::span<const float>> Evaluator::answers_from(int rank, int64_t count) {
  std::vector<std::span<const float>> answers;
  for (size_t i = 0; i < answers_.size(); ++i) {
    const auto size = static_cast<size_t>(width(answers_[i]) * count);
    const std::span<const float> own = tape_.value<float>(answers_[i]).first(size);
    if (exchange_ == nullptr) {
      answers.push_back(own);
      continue;
    }
    const auto received = std::span(gathered_[i]).first(size);
    std::ranges::fill(bytes_, 0);
    bytes_[static_cast<size_t>(rank)] = static_cast<int64_t>(own.size_bytes());
    exchange_->gather(std::as_bytes(rank == exchange_->rank() ? own : own.first(0)), bytes_,
                      std::as_writable_bytes(received).data());
    answers.push_back(received);
  }
  return answers;
}

void Evaluator::compare(const data::Dataset& dataset) {
  if (exchange_ == nullptr) return;
  const std::string name = "test samples";
  Ranks(exchange_).require_equal(compared_ ? std::vector{count_fact(name, dataset)}
                                           : data_facts(name, dataset));
  compared_ = true;
}

std::vector<detail::Judged> Evaluator::judged(const data::Dataset& dataset,
                                              std::optional<MetricKind> wanted) const {
  const Graph& graph = tape_.graph();
  std::vector<Judged> judged;
  for (const NodeId id : answers_) {
    const bool as_wanted = wanted && id == answers_[0];
    judged.push_back({answer_name(graph, id), width(id),
                      as_wanted ? choose_metric(graph, id, dataset, *wanted)
                                : choose_metric(graph, id, dataset)});
  }
  return judged;
}

void Evaluator::check_data(const data::Dataset& dataset,
                           std::optional<MetricKind> wanted) const {
  require_fit(tape_.graph(), answers_, dataset);
  (void)Judge(dataset, judged(dataset, wanted));
}

Evaluation Evaluator::run(const data::Dataset& dataset, Mode mode,
                          std::optional<MetricKind> wanted) {
  require<ArgumentError>(exchange_ == nullptr || !mode.train,
                         "ranks cannot share an evaluation in a mode that trains");
  compare(dataset);
  const FloatEnvironment floats;
  Feed feed(inputs_of(tape_), dataset);
  Judge judge(dataset, judged(dataset, wanted));
  tape_.parameters_changed();
  const int ranks = exchange_ == nullptr ? 1 : exchange_->ranks();
  const int own = exchange_ == nullptr ? 0 : exchange_->rank();
  for (int64_t round = 0; round < dataset.size(); round += batch * ranks) {
    if (round + own * batch < dataset.size()) {
      feed.fill_from(round + own * batch);
      tape_.forward(mode);
    }
    for (int rank = 0; rank < ranks; ++rank) {
      const int64_t first = round + rank * batch;
      const int64_t count = std::min(batch, dataset.size() - first);
      if (count <= 0) break;
      const std::vector<std::span<const float>> answers = answers_from(rank, count);
      std::vector<std::span<const std::byte>> bytes;
      for (const std::span<const float> each : answers) bytes.push_back(std::as_bytes(each));
      judge.add(first, count, answers, bytes);
      if (on_answers) on_answers(answers);
    }
  }
  return judge.result();
}

Evaluation evaluate(const IntegerProgram& program, const data::Dataset& dataset, int threads) {
  const FloatEnvironment floats;
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
