#include "qtape/model/model.h"

#include <algorithm>

#include "qtape/core/printable.h"
#include "qtape/model/feed.h"

namespace qtape {
namespace {

Graph with_outputs(const Value& answer, const std::optional<Value>& loss) {
  Graph graph = loss ? loss->graph() : answer.graph();
  std::vector<NodeId> outputs = {answer.id()};
  if (loss) outputs.push_back(loss->id());
  graph.set_outputs(std::move(outputs));
  return graph;
}

constexpr int64_t usual_batch = Evaluator::batch;

/// What `run` answers to all samples, `type` being that of one batch.
template <class Run>
Tensor collect(std::vector<FedInput> inputs, const data::Dataset& dataset,
               const TensorType& type, const Run& run) {
  Feed feed(std::move(inputs), dataset);
  const size_t width = static_cast<size_t>(type.elements() / usual_batch);
  std::vector<float> answers;
  answers.reserve(width * static_cast<size_t>(dataset.size()));
  feed.for_each_batch([&](int64_t, int64_t count) {
    const std::span<const float> y = run().first(width * static_cast<size_t>(count));
    answers.insert(answers.end(), y.begin(), y.end());
  });
  return Tensor::of<float>(type.shape.with(0, dataset.size()), answers);
}

}  // namespace

Parameters& detail::values_of(const Model& model) { return *model.parameters_; }

void detail::check_same_type(const ParameterEntry& wanted, const ParameterEntry& found) {
  require<GraphError>(found.type == wanted.type,
                      "'{}' of the saved model is {}, the network needs {}",
                      printable(wanted.name), found.type, wanted.type);
}

std::vector<NodeId> losses(const Graph& graph) {
  std::vector<NodeId> found;
  for (NodeId id : graph.outputs()) {
    const TensorType& type = graph[id].type;
    if (type.elements() != 1 || !is_compute(type.dtype)) continue;
    try {
      (void)plan(graph, {.outputs = {id}, .roots = {id}});
      found.push_back(id);
    } catch (const PlanError&) {  // no gradient leads from it
    }
  }
  return found;
}

Model::Model(const Value& answer, uint64_t seed)
    : Model(with_outputs(answer, std::nullopt), seed) {}

Model::Model(const Value& answer, const Loss& loss, uint64_t seed)
    : Model(answer, loss(answer), seed) {}

Model::Model(const Value& answer, const Value& loss, uint64_t seed)
    : Model(with_outputs(answer, loss), seed) {}

Model::Model(Graph graph, uint64_t seed)
    : Model(SavedModel{graph, Parameters(graph, seed), {}}) {}

Model::Model(Graph graph, const Parameters& values) : Model(std::move(graph)) {
  (void)take_over(values);
}

Model::Model(SavedModel saved)
    : graph_(std::move(saved.graph)),
      parameters_(std::make_unique<Parameters>(std::move(saved.parameters))),
      sections_(std::move(saved.sections)) {
  check(!graph_.outputs().empty(), "the graph names no outputs");
  answer_ = graph_.outputs()[0];
  // With a batch of one answers may be scalars as well.
  for (const NodeId id : losses(graph_)) {
    if (id != answer_ && !loss_) loss_ = id;
  }
}

Model Model::load(const std::string& path) { return Model(load_model(path)); }

void Model::save(const std::string& path) const { save_model(path, graph_, *parameters_); }

int64_t Model::take_over(const Parameters& other) {
  std::vector<const ParameterEntry*> taken;
  for (const ParameterEntry& each : parameters_->entries()) {
    const ParameterEntry* found = other.find(each.name);
    if (found == nullptr) continue;
    detail::check_same_type(each, *found);
    taken.push_back(&each);
  }
  for (const ParameterEntry* each : taken) parameters_->set(each->name, other.get(each->name));
  return static_cast<int64_t>(taken.size());
}

IntegerProgram Model::integers(Requantization requantization) const {
  return convert(graph_, *parameters_,
                 {.requantization = requantization, .outputs = {answer_}});
}

Evaluation evaluate(const Model& model, const data::Dataset& dataset, int threads) {
  return Evaluator(model.graph(), detail::values_of(model), threads).run(dataset);
}

double accuracy(const Model& model, const data::Dataset& dataset, int threads) {
  const Evaluation result = evaluate(model, dataset, threads);
  require<ArgumentError>(result.accuracy.has_value(),
                         "an accuracy needs data with labels and a model that answers "
                         "[batch, classes]");
  return *result.accuracy;
}

Tensor predict(const Model& model, const data::Dataset& dataset, int threads) {
  Tape tape(model.graph().with_batch(usual_batch), detail::values_of(model),
            {.outputs = {model.answer()}, .threads = threads, .constant_parameters = true});
  const TensorType& type = tape.graph()[model.answer()].type;
  check(type.dtype == DType::F32 && type.shape.rank() >= 1 && type.shape[0] == usual_batch,
        "{}: expected one answer of f32 per sample, got {} for {} samples",
        tape.graph().describe(model.answer()), to_string(type), usual_batch);
  return collect(inputs_of(tape), dataset, type, [&] {
    tape.forward(mode::eval);
    return tape.value<float>(model.answer());
  });
}

Tensor predict(const IntegerProgram& program, const data::Dataset& dataset, int threads) {
  IntegerSession session(program.with_batch(usual_batch), {.threads = threads});
  check(!program.outputs().empty(), "the program names no outputs");
  const NodeId output = program.outputs()[0];
  const TensorType type = session.program()[output].value.type;
  check(type.dtype == DType::F32 && type.shape.rank() >= 1 && type.shape[0] == usual_batch,
        "{}: expected one answer of f32 per sample, got {} for {} samples",
        session.program().describe(output), to_string(type), usual_batch);
  return collect(inputs_of(session), dataset, type, [&] {
    session.run();
    return session.value<float>(output);
  });
}

Verifier verify(const Model& model, const data::Dataset& dataset, Requantization requantization,
                int threads) {
  VerifyOptions options;
  options.convert.requantization = requantization;
  options.convert.outputs = {model.answer()};
  options.batch = usual_batch;
  options.threads = threads;
  Verifier verifier(model.graph(), detail::values_of(model), options);
  Feed feed(inputs_of(verifier), dataset);
  feed.for_each_batch([&](int64_t, int64_t count) { verifier.run(count); });
  return verifier;
}

}  // namespace qtape
