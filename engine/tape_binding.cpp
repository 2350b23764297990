// Binding of a tape: the addresses of values and gradients, and one kernel for each node and
// pass.
#include <algorithm>
#include <tuple>

#include "qtape/engine/batch_slices.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/tape.h"
#include "qtape/engine/tape_layout.h"
#include "qtape/engine/tape_shards.h"
#include "qtape/ops/families/decode.h"
#include "qtape/ops/families/sequence.h"
#include "qtape/ops/op_queries.h"

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
  const std::vector<Slot> slots = slots_of(node.op);
  const Keep keep = keep_of(node.op);
  const bool on_codes = traits_of(node.op).on_codes;
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

/// Binds the kernels of one node.
class Tape::NodeBinder {
 public:
  NodeBinder(Tape& tape, Layout& layout, size_t node)
      : tape_(tape),
        layout_(layout),
        id_{static_cast<int32_t>(node)},
        node_(tape.graph()[id_]),
        place_(layout.plan.nodes[node]),
        arithmetic_(layout.arithmetic.get()),
        on_codes_(place_.encoded && !is_quantizer(node_.op)),
        shards_(tape, layout, node) {
    for (size_t k = 0; k < node_.operands.size(); ++k) {
      const NodePlan& operand = layout.plan.nodes[tape.index_of(node_.operands[k])];
      gradients_.push_back(
          {place_.wanted[k] ? tape.address(layout, operand.gradient, true) : nullptr,
           place_.accumulate[k]});
    }
    const bool batched =
        tape.slices_->any() && tape.slices_->batched[node] && !tape.slices_->own_scales[node];
    binding_ = {.output = node_.type,
                .result = tape.value_address(layout, id_),
                .dy = tape.address(layout, place_.gradient, true),
                .gradients = gradients_,
                .saved = tape.address(layout, place_.saved, false),
                .record = tape.records_.data() + place_.record,
                .codes = arithmetic_ != nullptr ? arithmetic_->codes(id_) : nullptr,
                .gated = place_.gated,
                .gradient_precision = tape.options_.gradient_precision,
                .status = &tape.statuses_[node],
                .shards = batched ? &tape.slices_->shards : nullptr,
                .stream = node,
                .threads = tape.options_.threads};
    if (on_codes_) binding_.output.dtype = *place_.encoded;
    if (place_.encoded && !on_codes_) {
      binding_.codes = binding_.result;
      binding_.result = nullptr;
    }
  }

  /// Empty if nothing is to be done.
  Kernel forward() {
    set_operands(Pass::Forward);
    binding_.scratch = tape_.address(layout_, place_.forward_scratch, false);
    const bool takes_codes = arithmetic_ != nullptr && arithmetic_->takes_codes(id_);
    Kernel kernel;
    if (!takes_codes || on_codes_) {
      kernel = place_.forward_slices ? shards_.forward(binding_)
                                     : forward_kernel(node_.op, binding_);
    }
    kernel = sequence(std::move(operands_.decode), std::move(kernel));
    if (arithmetic_ == nullptr) return kernel;
    tape_.check_node(id_, !place_.reduces || !reads_quantized(),
                     "sums of codes over the batch cannot be divided into shards");
    return arithmetic_->around(id_, std::move(kernel), binding_);
  }

  /// Requires `forward`. Empty if nothing is to be done.
  Kernel backward() {
    if (!place_.active || place_.open) return {};
    set_operands(Pass::Backward);
    if (keep_of(node_.op).view) binding_.output = node_.type;
    binding_.encoded = operands_.encoded;
    binding_.scratch = tape_.address(layout_, place_.backward_scratch, false);
    Kernel kernel = place_.backward_slices ? shards_.backward(binding_)
                                           : backward_kernel(node_.op, binding_);
    if (!kernel) return {};
    return sequence(std::move(operands_.decode), std::move(kernel));
  }

 private:
  /// True if operand 0 is the output of a quantizer, or a view of it.
  bool reads_quantized() const {
    NodeId id = node_.operands[0];
    while (keep_of(tape_.graph()[id].op).view) id = tape_.graph()[id].operands[0];
    return is_quantizer(tape_.graph()[id].op);
  }

  void set_operands(Pass pass) {
    operands_ = tape_.operands_of(layout_, tape_.index_of(id_), pass);
    binding_.inputs = operands_.types;
    binding_.operands = operands_.values;
    binding_.sources = operands_.sources;
  }

  Tape& tape_;
  Layout& layout_;
  NodeId id_;
  const Node& node_;
  const NodePlan& place_;
  ForwardArithmetic* arithmetic_;
  bool on_codes_;  // the op computes codes from codes
  ShardBinder shards_;
  std::vector<Gradient> gradients_;
  Operands operands_;
  Binding binding_;
};

void Tape::bind_node(Layout& layout, size_t i) {
  NodeBinder binder(*this, layout, i);
  if (Kernel kernel = binder.forward()) {
    layout.forward.push_back({std::move(kernel), i, layout.plan.nodes[i].constant});
  }
  if (Kernel kernel = binder.backward()) layout.backward.push_back({std::move(kernel), i});
}

}  // namespace qtape
