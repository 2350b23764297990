#include "qtape/model/norms.h"

#include <algorithm>

#include "qtape/core/error.h"
#include "qtape/core/float_environment.h"
#include "qtape/engine/rewrite.h"
#include "qtape/model/feed.h"
#include "qtape/model/weight_codes.h"

namespace qtape {

namespace {

bool is_norm(const Node& node) { return is_any<BatchNorm, BatchNormCorrection>(node.op); }

/// Returns the graph with norms whose running statistics become those of the last batch.
Graph with_statistics_of_batches(const Graph& graph) {
  Graph result;
  (void)rewrite(graph, result, [&](NodeId id, std::span<const NodeId> operands) {
    Op op = graph[id].op;
    if (auto* norm = std::get_if<BatchNorm>(&op)) norm->momentum = 1;
    if (auto* norm = std::get_if<BatchNormCorrection>(&op)) norm->momentum = 1;
    return result.add(std::move(op), operands, graph[id].label);
  });
  return result;
}

/// The running statistics of all norms, which are averaged over batches. Each batch starts from
/// those of the model, so that weights are rounded as they were in training.
class RunningStatistics {
 public:
  RunningStatistics(const Graph& graph, Parameters& parameters) : parameters_(parameters) {
    for (const Node& node : graph.nodes()) {
      if (!is_norm(node)) continue;
      for (const NodeId x : node.operands) {
        if (!std::holds_alternative<State>(graph[x].op)) continue;
        const std::string& name = graph[x].label;
        const auto elements = static_cast<size_t>(graph[x].type.elements());
        values_.push_back({name, parameters.get(name), std::vector<double>(elements)});
      }
    }
  }

  void restore() {
    for (const Value& each : values_) parameters_.set(each.name, each.start);
  }
  void add() {
    visit([]<class T>(Value& value, std::span<T> of_batch) {
      for (size_t i = 0; i < of_batch.size(); ++i) value.sum[i] += double{of_batch[i]};
    });
  }
  void set_means(int64_t batches) {
    visit([&]<class T>(Value& value, std::span<T> result) {
      for (size_t i = 0; i < result.size(); ++i) {
        result[i] = static_cast<T>(value.sum[i] / static_cast<double>(batches));
      }
    });
  }

 private:
  struct Value {
    std::string name;
    Tensor start;
    std::vector<double> sum;
  };

  template <class Body>
  void visit(const Body& body) {
    for (Value& each : values_) {
      const ParameterEntry& entry = parameters_.at(each.name);
      dispatch_compute(entry.type.dtype, [&]<class T>() { body(each, entry.values<T>()); });
    }
  }

  Parameters& parameters_;
  std::vector<Value> values_;
};

}  // namespace

bool has_norms(const Graph& graph) { return std::ranges::any_of(graph.nodes(), is_norm); }

int64_t reestimate_norms(Model& model, const data::Dataset& dataset, int64_t batches,
                         int64_t batch, uint64_t seed, int threads) {
  const FloatEnvironment floats;
  const auto norms = std::ranges::count_if(model.graph().nodes(), is_norm);
  require<ArgumentError>(batches >= 0 && batch >= 1,
                         "expected batches of at least one sample, got {} of {}", batches,
                         batch);
  data::EpochOrder order(dataset.size(), batch, seed);
  if (norms == 0) return 0;
  Tape tape(with_statistics_of_batches(model.graph()).with_batch(batch), model.parameters(),
            {.outputs = model.outputs(), .threads = threads});
  Feed feed(inputs_of(tape), dataset);
  RunningStatistics statistics(model.graph(), model.parameters());
  WeightCodes codes(model.graph());
  codes.remember(model.parameters());
  try {
    for (int64_t step = 0; step < batches; ++step) {
      feed.fill(order.at(step));
      tape.forward({.quantize = true, .batch_statistics = true});
      statistics.add();
      statistics.restore();
    }
  } catch (...) {
    statistics.restore();
    throw;
  }
  if (batches > 0) statistics.set_means(batches);
  codes.keep(model.parameters(), false);
  return norms;
}

}  // namespace qtape
