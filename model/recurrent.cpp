#include "qtape/model/recurrent.h"

#include <fmt/format.h>

#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/quantizer_of.h"
#include "qtape/model/layers.h"

namespace qtape {
namespace {

/// The common part of one step of both layers.
class Cell {
 public:
  Cell(Graph& graph, NodeId x, int64_t gates, const RecurrentOptions& options)
      : graph_(graph), options_(options), width_(gates * options.hidden) {
    const TensorType type = graph[x].type;
    check(options.hidden >= 1, "'{}': hidden must be at least 1, got {}", options.label,
          options.hidden);
    check(type.shape.rank() == 3, "'{}': x must be [n, steps, c], got {}", options.label,
          to_string(type));
    steps_ = type.shape[1];
    const bool ready = preceding_quantizer(graph, x).has_value();
    const NodeId products =
        linear(graph, x,
               {.out = width_,
                .weight_quantizer = options.weight_quantizer,
                .input_quantizer = ready ? std::nullopt : options.activation_quantizer,
                .bias_on_grid = options.bias_on_grid,
                .label = options.label + ".input",
                .weight_initializer = options.weight_initializer});
    of_inputs_ = quantized(products, options.label + ".inputs");
    weight_ = graph.add(Parameter{.dtype = type.dtype,
                                  .shape = {width_, options.hidden},
                                  .initializer = options.weight_initializer},
                        {}, options.label + ".state.weight");
    if (options.weight_quantizer) {
      weight_ = add_quantizer(graph, weight_, *options.weight_quantizer,
                              options.label + ".state.weight");
    }
    bias_ = graph.add(Parameter{.dtype = type.dtype, .shape = {width_}}, {},
                      options.label + ".state.bias");
  }

  int64_t steps() const { return steps_; }

  /// Returns a given state, quantized.
  NodeId start(NodeId state, const char* name) {
    const TensorType& type = graph_[state].type;
    check(type.shape.rank() == 2 && type.shape[1] == options_.hidden,
          "'{}': {} must be [n, {}], got {}", options_.label, name, options_.hidden,
          to_string(type));
    return quantized(state, fmt::format("{}.{}", options_.label, name));
  }
  /// Returns a state of zeros, quantized. It is derived from products of the inputs, which have
  /// the right extents and dtype, by clamping them to 0.
  NodeId zeros(const char* name) {
    check(steps_ >= 1, "'{}': x must have at least one step, got 0", options_.label);
    const NodeId any = graph_.add(StopGradient{}, {gates(of_input(), 0, 1)});
    const NodeId state = graph_.add(Clamp{.low = 0, .high = 0}, {any});
    return quantized(state, fmt::format("{}.{}", options_.label, name));
  }
  void begin(int64_t step) { step_ = step; }

  /// Returns x W + b of this step, for all gates.
  NodeId of_input() {
    const NodeId row =
        graph_.add(Slice{.axis = 1, .begin = step_, .end = step_ + 1}, {of_inputs_});
    return graph_.add(Reshape{.shape = {-1, width_}}, {row});
  }
  /// Returns h U + b, for all gates.
  NodeId of_state(NodeId h) {
    const NodeId product = graph_.add(MatMul{.transpose_b = true}, {h, weight_});
    const NodeId bias =
        options_.bias_on_grid ? add_rounded_bias(graph_, product, bias_) : bias_;
    return quantized(graph_.add(AddBias{}, {product, bias}), name("products"));
  }
  /// Returns gates [first, last) of `all`.
  NodeId gates(NodeId all, int64_t first, int64_t last) {
    return graph_.add(
        Slice{.axis = 1, .begin = first * options_.hidden, .end = last * options_.hidden},
        {all});
  }
  /// Returns the result of an op, quantized.
  NodeId compute(Op op, std::initializer_list<NodeId> operands, const char* what) {
    return quantized(graph_.add(std::move(op), operands), name(what));
  }
  /// Returns the quantized state after this step, which has the label of the step.
  NodeId finish(Op op, std::initializer_list<NodeId> operands) {
    const std::string label = fmt::format("{}.{}", options_.label, step_);
    return quantized(graph_.add(std::move(op), operands, label), label);
  }

 private:
  std::string name(const char* what) const {
    return fmt::format("{}.{}.{}", options_.label, step_, what);
  }
  NodeId quantized(NodeId id, const std::string& label) {
    if (!options_.activation_quantizer) return id;
    return add_quantizer(graph_, id, *options_.activation_quantizer, label);
  }

  Graph& graph_;
  const RecurrentOptions& options_;
  int64_t width_;
  int64_t steps_ = 0;
  int64_t step_ = 0;
  NodeId of_inputs_;
  NodeId weight_;
  NodeId bias_;
};

std::vector<NodeId> run_gru(Cell& cell, NodeId h) {
  std::vector<NodeId> states;
  for (int64_t step = 0; step < cell.steps(); ++step) {
    cell.begin(step);
    const NodeId of_x = cell.of_input();
    const NodeId of_h = cell.of_state(h);
    const NodeId sums =
        cell.compute(Add{}, {cell.gates(of_x, 0, 2), cell.gates(of_h, 0, 2)}, "sums");
    const NodeId both = cell.compute(Sigmoid{}, {sums}, "gates");
    const NodeId reset = cell.gates(both, 0, 1);
    const NodeId update = cell.gates(both, 1, 2);
    const NodeId kept = cell.compute(Mul{}, {reset, cell.gates(of_h, 2, 3)}, "reset");
    const NodeId sum = cell.compute(Add{}, {cell.gates(of_x, 2, 3), kept}, "sum");
    const NodeId made = cell.compute(Tanh{}, {sum}, "new");
    const NodeId apart = cell.compute(Sub{}, {h, made}, "difference");
    const NodeId part = cell.compute(Mul{}, {update, apart}, "update");
    h = cell.finish(Add{}, {made, part});
    states.push_back(h);
  }
  return states;
}

std::vector<LstmState> run_lstm(Cell& cell, LstmState now) {
  std::vector<LstmState> states;
  for (int64_t step = 0; step < cell.steps(); ++step) {
    cell.begin(step);
    const NodeId sums = cell.compute(Add{}, {cell.of_input(), cell.of_state(now.h)}, "sums");
    const NodeId before = cell.compute(Sigmoid{}, {cell.gates(sums, 0, 2)}, "gates");
    const NodeId made = cell.compute(Tanh{}, {cell.gates(sums, 2, 3)}, "new");
    const NodeId output = cell.compute(Sigmoid{}, {cell.gates(sums, 3, 4)}, "output");
    const NodeId kept = cell.compute(Mul{}, {cell.gates(before, 1, 2), now.c}, "kept");
    const NodeId added = cell.compute(Mul{}, {cell.gates(before, 0, 1), made}, "added");
    now.c = cell.compute(Add{}, {kept, added}, "cell");
    now.h = cell.finish(Mul{}, {output, cell.compute(Tanh{}, {now.c}, "limited")});
    states.push_back(now);
  }
  return states;
}

}  // namespace

std::vector<NodeId> gru(Graph& graph, NodeId x, NodeId h, const RecurrentOptions& options) {
  return graph.all_or_nothing([&] {
    Cell cell(graph, x, 3, options);
    return run_gru(cell, cell.start(h, "state"));
  });
}

std::vector<NodeId> gru(Graph& graph, NodeId x, const RecurrentOptions& options) {
  return graph.all_or_nothing([&] {
    Cell cell(graph, x, 3, options);
    return run_gru(cell, cell.zeros("state"));
  });
}

std::vector<LstmState> lstm(Graph& graph, NodeId x, const LstmState& state,
                            const RecurrentOptions& options) {
  return graph.all_or_nothing([&] {
    Cell cell(graph, x, 4, options);
    const NodeId h = cell.start(state.h, "state");
    return run_lstm(cell, {h, cell.start(state.c, "cell")});
  });
}

std::vector<LstmState> lstm(Graph& graph, NodeId x, const RecurrentOptions& options) {
  return graph.all_or_nothing([&] {
    Cell cell(graph, x, 4, options);
    const NodeId h = cell.zeros("state");
    return run_lstm(cell, {h, cell.zeros("cell")});
  });
}

}  // namespace qtape
