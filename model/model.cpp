#include "qtape/model/model.h"

#include <algorithm>

#include "qtape/core/float_environment.h"
#include "qtape/core/printable.h"
#include "qtape/engine/labels.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/output_names.h"
#include "qtape/model/building.h"
#include "qtape/model/feed.h"
#include "qtape/model/passes/last_softmax.h"

namespace qtape {
namespace {

Graph with_outputs(const std::vector<Value>& answers, const std::optional<Value>& loss) {
  check(!answers.empty(), "a model needs an answer");
  const auto same_network = [&](const Value& each) {
    return detail::Building::of(each) == detail::Building::of(answers[0]);
  };
  check(std::ranges::all_of(answers, same_network) && (!loss || same_network(*loss)),
        "the answers and the loss belong to different networks");
  Graph graph = answers[0].graph();
  std::vector<NodeId> outputs;
  for (const Value& each : answers) outputs.push_back(each.id());
  std::vector<NodeId> losses;
  if (loss) losses.push_back(loss->id());
  outputs.insert(outputs.end(), losses.begin(), losses.end());
  graph.set_outputs(std::move(outputs), losses);
  return graph;
}

Value loss_of(const Value& answer, const Loss& loss) {
  require<ArgumentError>(loss != nullptr, "expected a loss, got an empty function");
  return loss(answer);
}

constexpr int64_t default_batch = Evaluator::batch;

/// An answer, independent of how batches are run.
struct Answer {
  std::string name;
  TensorType type;                                   // of one batch
  std::function<std::span<const std::byte>()> read;  // after a run
};

/// Returns all answers to all samples.
NamedTensors collect(std::vector<FedInput> inputs, const data::Dataset& dataset,
                     const std::vector<Answer>& answers, const std::function<void()>& run) {
  for (const Answer& each : answers) {
    require<ArgumentError>(std::ranges::count(answers, each.name, &Answer::name) == 1,
                           "two answers are called '{}'", printable(each.name));
  }
  const FloatEnvironment floats;
  Feed feed(std::move(inputs), dataset);
  NamedTensors all;
  for (const Answer& each : answers) {
    NamedTensor& to = all.emplace_back();
    to.name = each.name;
    to.tensor.type = {each.type.dtype, each.type.shape.with(0, dataset.size())};
    to.tensor.data.reserve(static_cast<size_t>(to.tensor.type.bytes()));
  }
  feed.for_each_batch([&](int64_t, int64_t count) {
    run();
    for (size_t i = 0; i < answers.size(); ++i) {
      const int64_t bytes = answers[i].type.bytes() / default_batch * count;
      const auto y = answers[i].read().first(static_cast<size_t>(bytes));
      all[i].tensor.data.insert(all[i].tensor.data.end(), y.begin(), y.end());
    }
  });
  return all;
}

/// Throws unless there is one answer per sample.
template <class Nodes>
void check_answer(const Nodes& nodes, IdIn<Nodes> id, const TensorType& type, bool floats) {
  check((type.dtype == DType::F32 || !floats) && type.shape.rank() >= 1 &&
            type.shape[0] == default_batch,
        "{}: expected one answer{} per sample, got {} for {} samples", nodes.describe(id),
        floats ? " of f32" : "", to_string(type), default_batch);
}

NamedTensors predict_some(const Model& model, const std::vector<NodeId>& outputs,
                          const data::Dataset& dataset, int threads) {
  Tape tape(model.graph().with_batch(default_batch), model.parameters(),
            {.outputs = outputs, .threads = threads, .constant_parameters = true});
  std::vector<Answer> answers;
  for (NodeId id : outputs) {
    const TensorType& type = tape.graph()[id].type;
    check_answer(tape.graph(), id, type, true);
    answers.push_back({answer_name(tape.graph(), id), type,
                       [&tape, id] { return std::as_bytes(tape.value<float>(id)); }});
  }
  return collect(inputs_of(tape), dataset, answers, [&] { tape.forward(mode::eval); });
}

NamedTensors predict_some(const IntegerProgram& program, std::span<const ProgramNodeId> outputs,
                          bool floats, const data::Dataset& dataset, int threads) {
  IntegerSession session(program.with_batch(default_batch), {.threads = threads});
  std::vector<Answer> answers;
  for (ProgramNodeId id : outputs) {
    const TensorType& type = session.program()[id].value.type;
    check_answer(session.program(), id, type, floats);
    answers.push_back(
        {output_name(program, id), type, [&session, id] { return session.bytes(id); }});
  }
  return collect(inputs_of(session), dataset, answers, [&] { session.run(); });
}

}  // namespace

void detail::check_same_type(const ParameterEntry& wanted, const ParameterEntry& found) {
  require<GraphError>(found.type == wanted.type,
                      "'{}' of the saved model is {}, the network needs {}",
                      printable(wanted.name), found.type, wanted.type);
}

Model::Model(const Value& answer, uint64_t seed)
    : Model(with_outputs({answer}, std::nullopt), seed) {}

Model::Model(const Value& answer, const Loss& loss, uint64_t seed)
    : Model(answer, loss_of(answer, loss), seed) {}

Model::Model(const Value& answer, const Value& loss, uint64_t seed)
    : Model(with_outputs({answer}, loss), seed) {}

Model::Model(const std::vector<Value>& answers, uint64_t seed)
    : Model(with_outputs(answers, std::nullopt), seed) {}

Model::Model(const std::vector<Value>& answers, const Value& loss, uint64_t seed)
    : Model(with_outputs(answers, loss), seed) {}

Model::Model(Graph graph, uint64_t seed)
    : Model(SavedModel{graph, Parameters(graph, seed), {}}) {}

Model::Model(Graph graph, const Parameters& values) : Model(std::move(graph)) {
  (void)take_over(values);
}

Model::Model(SavedModel saved)
    : parts_("model",
             std::make_unique<Parts>(Parts{std::move(saved.graph), std::move(saved.parameters),
                                           std::move(saved.sections)})) {
  check(!graph().outputs().empty(), "the graph names no outputs");
  parts_->outputs = graph().answers();
  check(!outputs().empty(), "all outputs of the graph are losses: it has no answer");
  const std::vector<NodeId> losses = graph().losses();
  if (!losses.empty()) parts_->loss = losses[0];
}

Model Model::load(const std::string& path) { return Model(load_model(path)); }

void Model::save(const std::string& path) const { save_model(path, graph(), parameters()); }

int64_t Model::take_over(const Parameters& other) {
  std::vector<const ParameterEntry*> taken;
  for (const ParameterEntry& each : parameters().entries()) {
    const ParameterEntry* found = other.find(each.name);
    if (found == nullptr) continue;
    detail::check_same_type(each, *found);
    taken.push_back(&each);
  }
  for (const ParameterEntry* each : taken) parameters().set(each->name, other.get(each->name));
  return static_cast<int64_t>(taken.size());
}

IntegerProgram Model::integers(Requantization requantization) const {
  return convert(without_last_softmaxes(graph()), parameters(),
                 {.requantization = requantization});
}

Evaluation evaluate(const Model& model, const data::Dataset& dataset, int threads) {
  return Evaluator(model.graph(), model.parameters(), threads).run(dataset);
}

double accuracy(const Model& model, const data::Dataset& dataset, int threads) {
  const Evaluation result = evaluate(model, dataset, threads);
  require<ArgumentError>(result.accuracy.has_value(),
                         "an accuracy needs data with labels and a model that answers "
                         "[batch, classes]");
  return *result.accuracy;
}

double score(const Model& model, const data::Dataset& dataset, MetricKind metric, int threads) {
  Evaluator evaluator(model.graph(), model.parameters(), threads);
  return evaluator.run(dataset, mode::eval, metric).score->value;
}

Tensor predict(const Model& model, const data::Dataset& dataset, int threads) {
  return std::move(predict_some(model, {model.answer()}, dataset, threads)[0].tensor);
}

NamedTensors predict_all(const Model& model, const data::Dataset& dataset, int threads) {
  return predict_some(model, model.outputs(), dataset, threads);
}

Tensor predict(const IntegerProgram& program, const data::Dataset& dataset, int threads) {
  check(!program.outputs().empty(), "the program names no outputs");
  return std::move(
      predict_some(program, program.outputs().first(1), true, dataset, threads)[0].tensor);
}

NamedTensors predict_all(const IntegerProgram& program, const data::Dataset& dataset,
                         int threads) {
  check(!program.outputs().empty(), "the program names no outputs");
  return predict_some(program, program.outputs(), false, dataset, threads);
}

Verifier verify(const Model& model, const data::Dataset& dataset, Requantization requantization,
                int threads) {
  require<ArgumentError>(dataset.size() > 0, "the data have no samples to verify");
  const FloatEnvironment floats;
  VerifyOptions options;
  options.convert.requantization = requantization;
  options.batch = std::min(default_batch, dataset.size());
  options.threads = threads;
  Verifier verifier(without_last_softmaxes(model.graph()), model.parameters(), options);
  Feed feed(inputs_of(verifier), dataset);
  feed.for_each_batch([&](int64_t, int64_t count) { verifier.run(count); });
  return verifier;
}

}  // namespace qtape
