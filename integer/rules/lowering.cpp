#include "qtape/integer/rules/lowering.h"

#include "qtape/core/code_types.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/indices.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/kernels/quantize/quantize.h"

namespace qtape {
namespace {

class Lowering {
 public:
  explicit Lowering(const Graph& graph) : graph_(graph) {
    result_.analysis = analyze_integers(graph);
  }

  Lowered run() {
    for (const NodeId id : ids(graph_)) result_.ops.push_back(op_of(id));
    return std::move(result_);
  }

 private:
  const IntegerForm& form(NodeId id) const { return result_.analysis[id]; }
  const Node& node(NodeId id) const { return graph_[id]; }
  const Shape& shape(NodeId id) const { return node(id).type.shape; }

  LoweredOp op_of(NodeId id) const {
    const IntegerForm& own = form(id);
    if (own.source != id) return {};
    switch (own.kind) {
      case IntegerKind::Weight:
        return quantized(id);
      case IntegerKind::Codes:
        return is_quantizer(node(id).op) ? quantizer(id) : selected(id);
      case IntegerKind::Accumulators:
        return own.product.index >= 0 ? product(id) : sum(id);
      case IntegerKind::Indices:
        return indices(id);
      case IntegerKind::Float:
      case IntegerKind::Pending:
        break;
    }
    return {};
  }

  LoweredOp with_grid(LoweredOp::Emitter emitter, NodeId id, NodeId quantizer) const {
    LoweredOp op{.emitter = emitter, .node = id, .quantizer = quantizer};
    op.grid = grid_of(graph_, quantizer);
    op.numbers.grid.dtype = code_dtype(op.grid.limits);
    return op;
  }

  LoweredOp quantized(NodeId id) const {
    LoweredOp op = with_grid(LoweredOp::Emitter::Quantize, id, id);
    op.operands = {result_.analysis.origin(node(id).operands[0])};
    return op;
  }

  LoweredOp quantizer(NodeId id) const {
    const IntegerForm& x = form(node(id).operands[0]);
    return x.is_integer() ? requantized(x, id) : quantized(id);
  }

  /// Returns the op that brings the integers of `x` to the grid of the quantizer.
  LoweredOp requantized(const IntegerForm& x, NodeId quantizer) const {
    const bool pending = x.kind == IntegerKind::Pending;
    if (pending && x.codes.index >= 0) return mapped(x, quantizer);
    LoweredOp op =
        with_grid(pending ? LoweredOp::Emitter::ByRule : LoweredOp::Emitter::Requantize,
                  x.source, quantizer);
    op.low = x.low;
    op.high = x.high;
    op.operands = pending ? node(x.source).operands : std::vector{x.source};
    if (!pending || !joins(node(x.source).op)) return op;
    for (NodeId operand : op.operands) {
      op.pieces.push_back(requantized(form(operand).limited(x.low, x.high), quantizer));
    }
    return op;
  }

  /// Returns the lookup table of a function of codes, which includes the limits of x.
  LoweredOp mapped(const IntegerForm& x, NodeId quantizer) const {
    LoweredOp op = with_grid(LoweredOp::Emitter::Table, x.source, quantizer);
    op.operands = {x.codes};
    return op;
  }

  /// Returns an op that selects codes of its operand.
  LoweredOp selected(NodeId id) const {
    LoweredOp op = with_grid(LoweredOp::Emitter::ByRule, id, form(id).quantizer);
    op.operands = node(id).operands;
    op.numbers.x = shape(op.operands[0]);
    return op;
  }

  /// Returns the sums of an op without constant factors.
  LoweredOp sum(NodeId id) const {
    const std::vector<NodeId>& all = node(id).operands;
    LoweredOp op{.emitter = LoweredOp::Emitter::ByRule,
                 .node = id,
                 .operands = all,
                 .numbers = {.x = shape(all[0])}};
    if (const auto numbers = norm_of(node(id).op)) {
      op.operands.resize(1);
      op.norm = {*numbers, {all.begin() + 1, all.end()}};
    }
    return op;
  }

  /// Returns the number of indices that input `id` may hold: the rows of the smallest table
  /// that looks up all of them; else, where tables look up parts, the rows of the largest.
  int64_t rows_of(NodeId id) const {
    int64_t whole = std::numeric_limits<int32_t>::max();
    int64_t part = 0;
    for (const Node& each : graph_.nodes()) {
      const auto place = indices_operand(each.op);
      if (!place) continue;
      const IntegerForm& x = form(each.operands[*place]);
      if (x.kind != IntegerKind::Indices || origin_of_indices(graph_, x.source) != id) continue;
      const int64_t rows = shape(each.operands[0])[0];
      if (x.source == id) whole = std::min(whole, rows);
      part = std::max(part, rows);
    }
    return part > 0 ? std::min(whole, part) : whole;
  }

  /// Returns the op that computes or moves indices, or an input of them.
  LoweredOp indices(NodeId id) const {
    const std::vector<NodeId>& all = node(id).operands;
    if (all.empty()) {
      return {.emitter = LoweredOp::Emitter::Input, .node = id, .indices = rows_of(id)};
    }
    return {.emitter = LoweredOp::Emitter::ByRule,
            .node = id,
            .operands = {all[0]},
            .numbers = {.x = shape(all[0])}};
  }

  /// Returns a product, including the bias that node `id` may add to its sums.
  LoweredOp product(NodeId id) const {
    const NodeId product = form(id).product;
    const Node& multiplies = node(product);
    const NodeId factors = multiplies.operands[*weights_operand(multiplies.op)];
    const WeightLayout layout = weight_layout(multiplies.op, shape(factors));
    LoweredOp op{.emitter = LoweredOp::Emitter::ByRule, .node = product};
    op.operands = {multiplies.operands[0]};
    op.weights = {form(factors).source, form(id).bias, layout};
    op.numbers.weights.shape = {layout.outputs, layout.terms};
    op.numbers.weights_shape = shape(factors);
    return op;
  }

  const Graph& graph_;
  Lowered result_;
};

void add_sources(const IntegerAnalysis& analysis, const LoweredOp& op,
                 std::vector<NodeId>& found) {
  if (op.emitter == LoweredOp::Emitter::Quantize) return;
  for (const LoweredOp& piece : op.pieces) add_sources(analysis, piece, found);
  if (!op.pieces.empty()) return;
  for (NodeId operand : op.operands) found.push_back(analysis[operand].source);
}

}  // namespace

CodeGrid LoweredOp::code_grid(const QParams<float>& q) const {
  const CodeLimits limits = kernels::clamped_limits(low, high, q, grid);
  return {numbers.grid.dtype, double{q.scale}, static_cast<int32_t>(q.zero_point), limits.q_min,
          limits.q_max};
}

std::vector<NodeId> Lowered::sources_read(NodeId source) const {
  std::vector<NodeId> found;
  add_sources(analysis, op(source), found);
  return found;
}

Lowered lower(const Graph& graph) { return Lowering(graph).run(); }

integer::NormNumbers numbers_of(const LoweredNorm& norm,
                                std::span<const std::span<const float>> leaves) {
  integer::NormNumbers numbers = norm.numbers;
  if (!leaves.empty()) numbers.gamma = leaves[0];
  if (leaves.size() > 1) numbers.beta = leaves[1];
  return numbers;
}

IntegerOp emit(const Graph& graph, const LoweredOp& op, const Numbers& numbers) {
  switch (op.emitter) {
    case LoweredOp::Emitter::Quantize:
      return integer::Quantize{.grid = numbers.grid,
                               .rounding = op.grid.rounding,
                               .division = op.grid.division,
                               .zero_point = op.grid.zero_point};
    case LoweredOp::Emitter::Requantize:
      return integer::Requantize{.grid = numbers.grid};
    case LoweredOp::Emitter::Table:
      return integer::Lookup{.grid = numbers.grid, .table = numbers.table};
    case LoweredOp::Emitter::ByRule:
      return emit(graph[op.node].op, numbers);
    case LoweredOp::Emitter::Input:
    case LoweredOp::Emitter::None:
      break;
  }
  fail<Error>("{} has no integer op", graph.describe(op.node));
}

}  // namespace qtape
