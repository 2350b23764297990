// Layout of exact arithmetic: which nodes own integers, which are held as codes, and which need
// floats.
#include <algorithm>

#include "qtape/core/code_types.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/integer/training/exact_forward.h"
#include "qtape/integer/training/held_codes.h"
#include "qtape/ops/op_queries.h"

namespace qtape {

void ExactForward::find_folded() {
  const auto adds_to = [&](NodeId id, NodeId product) {
    const NodeId bias = form(id).bias;
    // A computed bias must be available before the product.
    return form(id).source == id && bias.index >= 0 && form(id).product == product &&
           (node(bias).operands.empty() || bias < product);
  };
  std::vector<bool> read = kept_;
  for (const NodeId id : ids(graph())) {
    for (NodeId operand : node(id).operands) {
      const bool folds = adds_to(id, operand);
      folded_[at(operand)] = folded_[at(operand)] || folds;
      if (!folds) read[at(operand)] = true;
    }
  }
  for (size_t i = 0; i < folded_.size(); ++i) folded_[i] = folded_[i] && !read[i] && !keep_;
}

bool ExactForward::owns(NodeId id) const {
  const IntegerKind kind = form(id).kind;
  return form(id).source == id && !folded_[at(id)] &&
         (kind == IntegerKind::Codes || kind == IntegerKind::Accumulators ||
          kind == IntegerKind::Weight);
}

bool ExactForward::reads_values(NodeId source) const {
  const LoweredOp& op = lowered(source);
  return op.emitter == LoweredOp::Emitter::Quantize || op.emitter == LoweredOp::Emitter::Table;
}

std::vector<NodeId> ExactForward::sources_read(NodeId id) const {
  if (lowered(id).emitter == LoweredOp::Emitter::None || reads_values(id)) return {};
  std::vector<NodeId> found = lowered_->integers.sources_read(id);
  if (lowered(id).weights) found.push_back(lowered(id).weights->quantizer);
  return found;
}

bool ExactForward::multiplies_codes(NodeId product) const {
  if (product.index < 0 || form(product).product != product) return false;
  const LoweredOp& op = lowered(product);
  const NodeId x = form(op.operands[0]).source;
  return encoded_[at(x)] && encoded_[at(op.weights->quantizer)];
}

bool ExactForward::is_read_as_codes(NodeId id,
                                    const std::vector<std::vector<NodeId>>& readers) const {
  return std::ranges::all_of(readers[at(id)], [&](NodeId reader) {
    const Node& each = node(reader);
    const std::vector<Slot> slots = slots_of(each.op);
    for (size_t k = 0; k < each.operands.size(); ++k) {
      if (each.operands[k] != id || slots[k].scales != Scales::None) continue;
      if (keep_of(each.op).view && is_read_as_codes(reader, readers)) continue;
      if (!encoded_[at(reader)] && !multiplies_codes(reader)) return false;
      if (is_quantizer(each.op)) return false;
    }
    return true;
  });
}

Encoding ExactForward::encoding(std::span<const NodeId> kept, bool backward) {
  for (NodeId id : kept) kept_[at(id)] = true;
  find_folded();
  // Without gradients, a NaN in one row must not affect other rows.
  if (!encodes_ || !backward) return {};
  const std::vector<bool> shown = shown_by(graph(), kept);
  std::vector<std::vector<NodeId>> readers(values_.size());
  for (const NodeId id : ids(graph())) {
    for (NodeId operand : node(id).operands) readers[at(operand)].push_back(id);
    const bool may =
        is_quantizer(node(id).op) ||
        (runs_on_codes(node(id).op) && encoded_[at(form(node(id).operands[0]).source)]);
    encoded_[at(id)] =
        !shown[at(id)] && owns(id) && has_byte_codes(graph(), lowered_->integers, id) && may;
  }
  // A value cannot be held as codes if one of its readers cannot read codes; repeat until
  // stable.
  for (bool changed = true; changed;) {
    changed = false;
    for (auto i = static_cast<int32_t>(graph().size()); i-- > 0;) {
      const NodeId id{i};
      const bool rests = !is_quantizer(node(id).op) && encoded_[at(id)] &&
                         !encoded_[at(form(node(id).operands[0]).source)];
      if (!encoded_[at(id)] || (!rests && is_read_as_codes(id, readers))) continue;
      encoded_[at(id)] = false;
      changed = true;
    }
  }
  Encoding found;
  for (const NodeId id : ids(graph())) {
    if (encoded_[at(id)]) {
      found.values.push_back({id, lowered(id).numbers.grid.dtype});
    }
    takes_codes_[at(id)] =
        multiplies_codes(id) || (encoded_[at(id)] && !is_quantizer(node(id).op));
    if (takes_codes_[at(id)]) found.readers.push_back(id);
    for (NodeId source : sources_read(id)) {
      if (encoded_[at(source)]) found.uses.push_back({source, id});
    }
  }
  return found;
}

std::vector<Companion> ExactForward::companions(std::span<const NodeId>) {
  std::vector<std::vector<NodeId>> readers(values_.size());
  for (const NodeId id : ids(graph())) {
    for (NodeId source : sources_read(id)) readers[at(source)].push_back(id);
  }
  std::vector<Companion> found;
  for (const NodeId id : ids(graph())) {
    if (!owns(id) || encoded_[at(id)]) continue;
    const bool accumulators = form(id).kind == IntegerKind::Accumulators;
    const int64_t size =
        accumulators ? size_of(DType::S64) : size_of(lowered(id).numbers.grid.dtype);
    found.push_back({id, node(id).type.elements() * size, readers[at(id)], keep_});
  }
  return found;
}

/// True if the float kernel of `id` must run in lean steps, assuming its value is needed.
bool ExactForward::reads_floats(NodeId id) const {
  if (!owns(id)) return true;
  return is_quantizer(node(id).op) && reads_values(id);
}

void ExactForward::find_float_readers() {
  for (int32_t i = static_cast<int32_t>(graph().size()) - 1; i >= 0; --i) {
    const NodeId id{i};
    float_needed_[at(id)] = float_needed_[at(id)] || kept_[at(id)];
    if (owns(id) && form(id).bias.index >= 0) float_needed_[at(form(id).bias)] = true;
    for (NodeId operand : node(id).operands) {
      const bool index = form(operand).kind == IntegerKind::Indices;
      if (owns(id) && index) float_needed_[at(operand)] = true;
    }
    const bool entry = owns(id) && reads_floats(id);
    if (!entry && !(float_needed_[at(id)] && reads_floats(id))) continue;
    for (NodeId operand : node(id).operands) float_needed_[at(operand)] = true;
  }
}

void ExactForward::find_computed_biases() {
  for (const NodeId id : ids(graph())) {
    const NodeId bias = form(id).bias;
    if (bias.index < 0 || node(bias).operands.empty()) continue;
    computed_biases_[bias].resize(static_cast<size_t>(node(bias).type.elements()));
  }
}

}  // namespace qtape
