// Layout of exact arithmetic: which nodes own integers, which are held as codes, and which need
// floats.
#include <algorithm>

#include "qtape/core/code_types.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/integer/training/exact_forward.h"
#include "qtape/integer/training/held_codes.h"

namespace qtape {

void ExactForward::find_folded() {
  const auto adds_to = [&](NodeId id, NodeId product) {
    const NodeId bias = form(id).bias;
    // A computed bias must be available before the product.
    return form(id).source == id && bias.index >= 0 && form(id).product == product &&
           (node(bias).operands.empty() || bias < product);
  };
  std::vector<bool> read = kept_;
  for (const NodeId id : ids(graph_)) {
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

void ExactForward::add_sources(NodeId x, std::vector<NodeId>& to) const {
  const IntegerForm& of_x = form(x);
  if (of_x.kind != IntegerKind::Pending) return to.push_back(of_x.source);
  for (NodeId operand : node(of_x.source).operands) add_sources(operand, to);
}

bool ExactForward::is_requantized(NodeId x) const {
  const IntegerForm& of_x = form(x);
  return of_x.is_integer() &&
         !(of_x.kind == IntegerKind::Pending && maps(node(of_x.source).op));
}

std::vector<NodeId> ExactForward::sources_read(NodeId id) const {
  const IntegerForm& own = form(id);
  std::vector<NodeId> found;
  if (own.source != id || own.kind == IntegerKind::Float || own.kind == IntegerKind::Weight ||
      own.kind == IntegerKind::Pending) {
    return found;
  }
  const std::vector<NodeId>& operands = node(id).operands;
  if (is_quantizer(node(id).op)) {
    if (is_requantized(operands[0])) add_sources(operands[0], found);
  } else if (own.product.index >= 0) {
    const std::vector<NodeId>& factors = node(own.product).operands;
    found.push_back(form(factors[0]).source);
    found.push_back(form(factors[*weights_operand(node(own.product).op)]).source);
  } else {
    found.push_back(form(operands[0]).source);
  }
  return found;
}

bool ExactForward::multiplies_codes(NodeId product) const {
  const auto weights = weights_operand(node(product).op);
  if (!weights || form(product).product != product) return false;
  const auto encoded = [&](size_t k) {
    const NodeId source = form(node(product).operands[k]).source;
    return source.index >= 0 && encoded_[at(source)];
  };
  return encoded(0) && encoded(*weights);
}

bool ExactForward::is_read_as_codes(NodeId id,
                                    const std::vector<std::vector<NodeId>>& readers) const {
  return std::ranges::all_of(readers[at(id)], [&](NodeId reader) {
    const Node& each = node(reader);
    const auto slots = std::visit([](const auto& op) { return op.slots(); }, each.op);
    for (size_t k = 0; k < each.operands.size(); ++k) {
      if (each.operands[k] != id || slots[k].scales != Scales::None) continue;
      if (shows_operand(each.op) && is_read_as_codes(reader, readers)) continue;
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
  const std::vector<bool> shown = shown_by(graph_, kept);
  std::vector<std::vector<NodeId>> readers(values_.size());
  for (const NodeId id : ids(graph_)) {
    for (NodeId operand : node(id).operands) readers[at(operand)].push_back(id);
    const bool may =
        is_quantizer(node(id).op) ||
        (runs_on_codes(node(id).op) && encoded_[at(form(node(id).operands[0]).source)]);
    encoded_[at(id)] =
        !shown[at(id)] && owns(id) && has_byte_codes(graph_, analysis_, id) && may;
  }
  // A value cannot be held as codes if one of its readers cannot read codes; repeat until
  // stable.
  for (bool changed = true; changed;) {
    changed = false;
    for (auto i = static_cast<int32_t>(graph_.size()); i-- > 0;) {
      const NodeId id{i};
      const bool rests = !is_quantizer(node(id).op) && encoded_[at(id)] &&
                         !encoded_[at(form(node(id).operands[0]).source)];
      if (!encoded_[at(id)] || (!rests && is_read_as_codes(id, readers))) continue;
      encoded_[at(id)] = false;
      changed = true;
    }
  }
  Encoding found;
  for (const NodeId id : ids(graph_)) {
    if (encoded_[at(id)]) {
      const Grid grid = grid_of(graph_, form(id).quantizer);
      found.values.push_back({id, code_dtype(grid.limits)});
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
  for (const NodeId id : ids(graph_)) {
    for (NodeId source : sources_read(id)) readers[at(source)].push_back(id);
  }
  std::vector<Companion> found;
  for (const NodeId id : ids(graph_)) {
    if (!owns(id) || encoded_[at(id)]) continue;
    const bool accumulators = form(id).kind == IntegerKind::Accumulators;
    const int64_t size = accumulators
                             ? size_of(DType::S64)
                             : size_of(code_dtype(grid_of(graph_, form(id).quantizer).limits));
    found.push_back({id, node(id).type.elements() * size, readers[at(id)], keep_});
  }
  return found;
}

/// True if the float kernel of `id` must run in lean steps, assuming its value is needed.
bool ExactForward::reads_floats(NodeId id) const {
  if (!owns(id)) return true;
  return is_quantizer(node(id).op) && !is_requantized(node(id).operands[0]);
}

void ExactForward::find_float_readers() {
  for (int32_t i = static_cast<int32_t>(graph_.size()) - 1; i >= 0; --i) {
    const NodeId id{i};
    float_needed_[at(id)] = float_needed_[at(id)] || kept_[at(id)];
    if (owns(id) && form(id).bias.index >= 0) float_needed_[at(form(id).bias)] = true;
    const bool entry = owns(id) && reads_floats(id);
    if (!entry && !(float_needed_[at(id)] && reads_floats(id))) continue;
    for (NodeId operand : node(id).operands) float_needed_[at(operand)] = true;
  }
}

void ExactForward::find_computed_biases() {
  for (const NodeId id : ids(graph_)) {
    const NodeId bias = form(id).bias;
    if (bias.index < 0 || node(bias).operands.empty()) continue;
    computed_biases_[bias].resize(static_cast<size_t>(node(bias).type.elements()));
  }
}

}  // namespace qtape
