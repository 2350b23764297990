#include "qtape/integer/training/codes_forward.h"

#include <algorithm>
#include <limits>

#include "qtape/engine/quantizers.h"
#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/products/epilogue.h"
#include "qtape/integer/products/float_epilogue.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/integer/training/held_codes.h"
#include "qtape/ops/op_queries.h"

namespace qtape {
namespace {

/// State of one product and its epilogue. Must stay in place, because kernels point to it.
struct ChainState {
  IntegerValue x;
  IntegerValue accumulators;
  WeightNumbers weights;
  EncodedOperand encoded_x;
  EncodedOperand encoded_w;
  std::vector<float> scales;  // of accumulators, by output
  IntegerOp op;
  IntegerKernel kernel;

  bool has_codes() const {
    const auto usable = [](const EncodedOperand& each) {
      return each.source.status->applied && !each.source.status->nan;
    };
    return usable(encoded_x) && usable(encoded_w);
  }
  /// Loads the numbers of this step.
  void load() {
    const auto* of_x = encoded_x.source.scales<float>();
    x.scales[0] = double{of_x[0]};
    x.zero_point = static_cast<int32_t>(of_x[encoded_x.source.channels]);
    const auto* of_w = encoded_w.source.scales<float>();
    const bool each = encoded_w.source.channels > 1;
    for (size_t c = 0; c < scales.size(); ++c) {
      scales[c] = static_cast<float>(x.scales[0] * double{of_w[each ? c : 0]});
    }
    (void)kernel.load();
  }
};

}  // namespace

Arithmetic products_of_codes() {
  return {[](std::shared_ptr<const Graph> graph, int threads) -> Arithmetic::Maker {
    const auto lowered = std::make_shared<const LoweredGraph>(std::move(graph));
    return [=](bool encodes) {
      return encodes ? std::make_unique<CodesForward>(lowered, threads) : nullptr;
    };
  }};
}

CodesForward::CodesForward(std::shared_ptr<const LoweredGraph> lowered, int threads)
    : lowered_(std::move(lowered)),
      threads_(threads),
      readers_(static_cast<size_t>(graph().size())),
      candidates_(readers_.size()),
      within_(readers_.size()),
      chains_(readers_.size()) {
  for (const NodeId id : ids(graph())) {
    for (NodeId operand : node(id).operands) readers_[at(operand)].push_back(id);
  }
}

CodesForward::~CodesForward() = default;

/// True if the value of `id` can be held as codes, judged by its op alone.
bool CodesForward::may_hold_codes(NodeId id) const {
  if (!has_byte_codes(graph(), lowered_->integers, id)) return false;
  if (is_quantizer(node(id).op)) return true;
  return runs_on_codes(node(id).op) && code_source(node(id).operands[0]).has_value();
}

std::optional<NodeId> CodesForward::code_source(NodeId id) const {
  while (!candidates_[at(id)] && keep_of(node(id).op).view) id = node(id).operands[0];
  if (candidates_[at(id)]) return id;
  return std::nullopt;
}

void CodesForward::find_candidates(std::span<const NodeId> kept) {
  const std::vector<bool> shown = shown_by(graph(), kept);
  for (const NodeId id : ids(graph())) {
    candidates_[at(id)] = !shown[at(id)] && may_hold_codes(id);
  }
}

std::optional<ProductChain> CodesForward::chain_of(NodeId product,
                                                   std::span<const NodeId> kept) const {
  const auto& weights = lowered(product).weights;
  if (!weights || lowered(product).node != product) return std::nullopt;
  if (!code_source(lowered(product).operands[0]) || !code_source(weights->quantizer)) {
    return std::nullopt;
  }
  ProductChain chain{.product = product, .end = product};
  while (readers_[at(chain.end)].size() == 1 &&
         std::ranges::find(kept, chain.end) == kept.end()) {
    const NodeId next = readers_[at(chain.end)][0];
    const Node& reader = node(next);
    const bool limited = chain.low > -std::numeric_limits<double>::infinity() ||
                         chain.high < std::numeric_limits<double>::infinity();
    if (adds_bias(reader.op) && reader.operands[0] == chain.end && chain.bias.index < 0 &&
        !limited) {
      chain.bias = reader.operands[1];
    } else if (const auto limits = limits_of(reader.op);
               limits && !keep_of(reader.op).operand(0) && !limited) {
      chain.low = limits->low;
      chain.high = limits->high;
    } else {
      break;
    }
    chain.end = next;
  }
  return chain;
}

void CodesForward::find_chains(std::span<const NodeId> kept) {
  for (const NodeId id : ids(graph())) {
    const auto chain = chain_of(id, kept);
    if (!chain) continue;
    chains_[at(chain->end)] = chain;
    for (NodeId each = chain->product; each != chain->end; each = readers_[at(each)][0]) {
      within_[at(each)] = true;
    }
  }
}

Encoding CodesForward::encoding(std::span<const NodeId> kept, bool) {
  find_candidates(kept);
  find_chains(kept);
  std::vector<bool> used(candidates_.size());
  Encoding found;
  const auto use = [&](NodeId operand, NodeId reader) {
    NodeId id = *code_source(operand);
    found.uses.push_back({id, reader});
    while (!used[at(id)]) {
      used[at(id)] = true;
      if (!is_quantizer(node(id).op)) id = *code_source(node(id).operands[0]);
    }
  };
  for (const auto& chain : chains_) {
    if (!chain) continue;
    const Node& product = node(chain->product);
    use(product.operands[0], chain->end);
    use(lowered(chain->product).weights->quantizer, chain->end);
    if (chain->bias.index >= 0) found.uses.push_back({chain->bias, chain->end});
    found.readers.push_back(chain->product);
  }
  for (size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    const NodeId id{static_cast<int32_t>(i)};
    found.values.push_back({id, lowered(id).numbers.grid.dtype});
    if (!is_quantizer(node(id).op)) found.readers.push_back(id);
  }
  return found;
}

bool CodesForward::takes_codes(NodeId id) const {
  const auto& ends = chains_[at(id)];
  return within_[at(id)] || (ends && ends->product == id);
}

Kernel CodesForward::around(NodeId id, Kernel kernel, const Binding& binding) {
  if (chains_[at(id)]) return run_chain(*chains_[at(id)], binding);
  if (within_[at(id)]) return {};
  if (!is_quantizer(node(id).op) || binding.codes == nullptr) return kernel;
  return [kernel = std::move(kernel), status = binding.status](const Step& step) {
    status->nan = false;
    status->output = QuantizerOutput::Codes;
    if (kernel) kernel(step);
  };
}

Kernel CodesForward::run_chain(const ProductChain& chain, const Binding& b) const {
  const LoweredOp& product = lowered(chain.product);
  const WeightLayout& layout = product.weights->layout;
  const NodeId x = product.operands[0];
  const Grid& grid = lowered(lowered_->integers[x].quantizer).grid;
  auto state = std::make_shared<ChainState>();
  state->encoded_x = lookup_.encoded(x);
  state->encoded_w = lookup_.encoded(product.weights->quantizer);
  state->x = codes_within(grid, node(x).type.shape);
  const bool fits = bound_of_products(state->x, layout.terms) <= Certificate::s32_limit;
  state->accumulators.type = {fits ? DType::S32 : DType::S64, node(chain.product).type.shape};
  state->accumulators.scales.resize(static_cast<size_t>(layout.outputs), 1.0);
  state->scales.resize(static_cast<size_t>(layout.outputs));
  state->weights.codes = reinterpret_cast<const int8_t*>(state->encoded_w.codes);
  state->weights.rows = layout.rows;
  state->op = emit(graph(), product, product.numbers);
  const IntegerBinding binding{.inputs = {&state->x},
                               .output = &state->accumulators,
                               .operands = {const_cast<std::byte*>(state->encoded_x.codes)},
                               .threads = threads_,
                               .weights = &state->weights,
                               .refreshed = true};
  const float* bias = chain.bias.index < 0
                          ? nullptr
                          : reinterpret_cast<const float*>(lookup_.value(chain.bias));
  Epilogue next = float_epilogue({.n = layout.outputs,
                                  .scales = state->scales.data(),
                                  .bias = bias,
                                  .low = static_cast<float>(chain.low),
                                  .high = static_cast<float>(chain.high),
                                  .y = b.y<float>()});
  std::visit(
      [&]<class X>(const X& op) {
        if constexpr (TakesEpilogue<X>) state->kernel = op.optimized(binding, std::move(next));
      },
      state->op);
  return [state,
          y = std::span(b.y<float>(), static_cast<size_t>(b.output.elements()))](const Step&) {
    if (!state->has_codes()) return fill_without_codes(y);
    state->load();
    state->kernel.run();
  };
}

}  // namespace qtape
