// Binding of a tape: the addresses of values and gradients, and one kernel for each node and
// pass.
#include <algorithm>
#include <tuple>

#include "qtape/engine/quantizers.h"
#include "qtape/engine/tape.h"
#include "qtape/engine/tape_layout.h"
#include "qtape/ops/families/decode.h"
#include "qtape/ops/families/sequence.h"

namespace qtape {

std::byte* Tape::address(const Layout& layout, const Place& place, bool gradient) const {
  if (place.kind == Place::Kind::Arena) return layout.arena.data() + place.offset;
  if (place.kind == Place::Kind::None) return nullptr;
  const Node& leaf = graph()[place.leaf];
  if (const auto* constant = std::get_if<Constant>(&leaf.op)) {
    return const_cast<std::byte*>(constant->value.data.data());
  }
  const ParameterEntry& entry = parameters().at(leaf.label);
  return gradient ? entry.gradient : entry.value;
}

/// Inputs have one position, independent of the layout.
std::byte* Tape::value_address(const Layout& layout, NodeId id) const {
  const bool input = std::holds_alternative<Input>(graph()[id].op);
  const Layout& where = input ? main() : layout;
  return address(where, where.plan.nodes[index_of(id)].value, false);
}

ForwardLookup Tape::lookup(const Layout& layout) {
  return {.value = [this, &layout](NodeId id) { return value_address(layout, id); },
          .companion =
              [this, &layout](NodeId id) {
                return address(layout, layout.plan.nodes[index_of(id)].companion, false);
              },
          .scales = [this](NodeId id) { return scale_source(id); },
          .status = [this](NodeId id) { return &statuses_[index_of(id)]; },
          .encoded = [this, &layout](NodeId id) { return encoded_operand(layout, id); },
          .backward = !options_.roots.empty()};
}

void Tape::bind(Layout& layout) {
  if (layout.arithmetic) layout.arithmetic->bind(lookup(layout));
  for (size_t i = 0; i < layout.plan.nodes.size(); ++i) {
    if (layout.plan.nodes[i].needed) bind_node(layout, i);
  }
  std::ranges::reverse(layout.backward);
}

ScaleSource Tape::scale_source(NodeId id) const {
  const size_t i = index_of(id);
  return {.record = records_.data() + main().plan.nodes[i].record,
          .channels = channel_map(graph(), id).channels,
          .dtype = scale_dtype(graph()[graph()[id].operands[0]].type.dtype),
          .status = &statuses_[i]};
}

EncodedOperand Tape::encoded_operand(const Layout& layout, NodeId id) const {
  EncodedOperand operand{.codes = value_address(layout, id),
                         .dtype = *layout.plan.nodes[index_of(id)].encoded};
  while (!is_quantizer(graph()[id].op)) id = graph()[id].operands[0];
  operand.source = scale_source(id);
  operand.channels = channel_map(graph(), id);
  operand.grid = grid_of(graph(), id);
  return operand;
}

/// Variant for codes that are computed again from the leaf that the quantizer reads.
EncodedOperand Tape::requantized_operand(const Layout& layout, NodeId id) const {
  EncodedOperand operand = encoded_operand(layout, id);
  operand.codes = nullptr;
  operand.unquantized =
      reinterpret_cast<const float*>(value_address(layout, graph()[id].operands[0]));
  return operand;
}

/// Operands to which the kernels of a node are bound.
struct Tape::Operands {
  std::vector<TensorType> types;
  std::vector<std::byte*> values;
  std::vector<ScaleSource> sources;
  std::vector<EncodedOperand> encoded;
  Kernel decode;  // runs before the kernel of the node
};

/// Operands held as codes are passed as codes if the pass reads codes, as values if the plan
/// has memory for them, and otherwise not at all.
Tape::Operands Tape::operands_of(const Layout& layout, size_t i, Pass pass) const {
  const Node& node = graph().nodes()[i];
  const NodePlan& plan = layout.plan.nodes[i];
  const auto [slots, keep, on_codes] = std::visit(
      []<class X>(const X& op) { return std::tuple(op.slots(), op.keep(), OnCodes<X>); },
      node.op);
  const auto& places = pass == Pass::Forward ? plan.forward_values : plan.backward_values;
  Operands found;
  for (size_t k = 0; k < node.operands.size(); ++k) {
    const NodeId id = node.operands[k];
    const auto& codes = layout.plan.nodes[index_of(id)].encoded;
    const bool scales = slots[k].scales != Scales::None;
    found.types.push_back(graph()[id].type);
    found.sources.push_back(scales ? scale_source(id) : ScaleSource{});
    found.values.push_back(scales ? nullptr : value_address(layout, id));
    found.encoded.push_back({});
    if (!codes || scales) continue;
    const bool same_codes = k == 0 && plan.encoded && (on_codes || keep.view);
    const bool takes_codes = same_codes || (pass == Pass::Backward && keep.takes_codes(k));
    if (takes_codes) {
      const bool again = pass == Pass::Backward && plan.made_again[k];
      found.encoded[k] = again ? requantized_operand(layout, id) : encoded_operand(layout, id);
      if (pass == Pass::Forward || !keep.view) found.types[k].dtype = *codes;
    } else if (k < places.size() && places[k].kind == Place::Kind::Arena) {
      found.values[k] = address(layout, places[k], false);
      found.decode =
          sequence(std::move(found.decode),
                   bind_decode(encoded_operand(layout, id), graph()[id].type.elements(),
                               reinterpret_cast<float*>(found.values[k]), options_.threads));
    } else {
      found.values[k] = nullptr;
    }
  }
  return found;
}

void Tape::bind_node(Layout& layout, size_t i) {
  const NodeId id{static_cast<int32_t>(i)};
  const Node& node = graph()[id];
  const NodePlan& place = layout.plan.nodes[i];
  ForwardArithmetic* arithmetic = layout.arithmetic.get();
  const bool encoded = place.encoded.has_value();
  const bool on_codes = encoded && !is_quantizer(node.op);
  const bool is_view = std::visit([](const auto& op) { return op.keep().view; }, node.op);
  const bool takes_codes = arithmetic != nullptr && arithmetic->takes_codes(id);
  std::vector<Gradient> gradients;
  for (size_t k = 0; k < node.operands.size(); ++k) {
    const NodePlan& operand = layout.plan.nodes[index_of(node.operands[k])];
    gradients.push_back({place.wanted[k] ? address(layout, operand.gradient, true) : nullptr,
                         place.accumulate[k]});
  }
  Operands operands = operands_of(layout, i, Pass::Forward);
  Binding binding{.inputs = operands.types,
                  .output = node.type,
                  .operands = operands.values,
                  .sources = operands.sources,
                  .result = value_address(layout, id),
                  .dy = address(layout, place.gradient, true),
                  .gradients = gradients,
                  .saved = address(layout, place.saved, false),
                  .scratch = address(layout, place.forward_scratch, false),
                  .record = records_.data() + place.record,
                  .codes = arithmetic != nullptr ? arithmetic->codes(id) : nullptr,
                  .gated = place.gated,
                  .gradient_precision = options_.gradient_precision,
                  .status = &statuses_[i],
                  .stream = i,
                  .threads = options_.threads};
  if (on_codes) binding.output.dtype = *place.encoded;
  if (encoded && !on_codes) {
    binding.codes = binding.result;
    binding.result = nullptr;
  }
  Kernel forward;
  if (!takes_codes || on_codes) {
    forward = std::visit([&](const auto& op) { return op.forward(binding); }, node.op);
  }
  forward = sequence(std::move(operands.decode), std::move(forward));
  if (arithmetic != nullptr) forward = arithmetic->around(id, std::move(forward), binding);
  if (forward) layout.forward.push_back({std::move(forward), i, place.constant});
  if (!place.active || place.open) return;
  operands = operands_of(layout, i, Pass::Backward);
  if (is_view) binding.output = node.type;
  binding.inputs = operands.types;
  binding.operands = operands.values;
  binding.sources = operands.sources;
  binding.encoded = operands.encoded;
  binding.scratch = address(layout, place.backward_scratch, false);
  Kernel backward = std::visit([&](const auto& op) { return op.backward(binding); }, node.op);
  if (!backward) return;
  layout.backward.push_back({sequence(std::move(operands.decode), std::move(backward)), i});
}

}  // namespace qtape
