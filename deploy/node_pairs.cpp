#include "qtape/deploy/node_pairs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "qtape/core/printable.h"
#include "qtape/engine/labels.h"
#include "qtape/integer/program/integer_node.h"

namespace qtape {
namespace {

/// Returns `'x' f32[1, 4] and 'y' f32[1, 2]`, or `none`.
std::string types_text(const IntegerProgram& program, std::span<const ProgramNodeId> nodes) {
  std::vector<std::string> all;
  for (const ProgramNodeId id : nodes) {
    all.push_back(
        fmt::format("'{}' {}", printable(program.name(id)), to_string(program[id].value.type)));
  }
  return all.empty() ? "none" : fmt::format("{}", fmt::join(all, " and "));
}

class NodePairing {
 public:
  NodePairing(const IntegerProgram& a, const IntegerProgram& b, const std::string& name_a,
              const std::string& name_b)
      : a_(a), b_(b), name_a_(name_a), name_b_(name_b), to_b_(a), to_a_(b) {}

  NodePairs run() {
    pair_inputs();
    pair_outputs();
    for (const ProgramNodeId id : ids(a_)) {
      if (const auto other = same_value(id)) pair(id, *other);
    }
    pair_by_position();
    return result();
  }

 private:
  bool free(ProgramNodeId a, ProgramNodeId b) const {
    return to_b_[a].index < 0 && to_a_[b].index < 0;
  }
  void pair(ProgramNodeId a, ProgramNodeId b) {
    to_b_[a] = b;
    to_a_[b] = a;
  }
  /// Returns the node of the second program with the label of a node of the first.
  std::optional<ProgramNodeId> labelled(ProgramNodeId a) const {
    return a_[a].label.empty() ? std::nullopt : b_.find(a_[a].label);
  }

  /// Returns the free node of the second program with the label of a node of the first, codes
  /// for codes. A model that is made from a program calls the codes of a layer, whose sums have
  /// its label, `.quantized`.
  std::optional<ProgramNodeId> same_value(ProgramNodeId a) const {
    const std::string& label = a_[a].label;
    if (label.empty()) return std::nullopt;
    const std::string value = value_label(label);
    for (const std::string& each : {label, value.empty() ? label + ".quantized" : value}) {
      const auto found = b_.find(each);
      const bool fits =
          found && free(a, *found) && a_[a].value.is_codes() == b_[*found].value.is_codes();
      if (fits) return found;
    }
    return std::nullopt;
  }

  void pair_inputs() {
    const std::vector<ProgramNodeId> of_a = input_ids(a_);
    const std::vector<ProgramNodeId> of_b = input_ids(b_);
    require_same("inputs", of_a, of_b, of_a.size() == of_b.size());
    const auto named = [&](ProgramNodeId id) {
      const auto other = labelled(id);
      return other && std::ranges::count(of_b, *other) > 0;
    };
    const bool by_label = std::ranges::all_of(of_a, named);
    for (size_t i = 0; i < of_a.size(); ++i) {
      const ProgramNodeId other = by_label ? *labelled(of_a[i]) : of_b[i];
      require_same("inputs", of_a, of_b, a_[of_a[i]].value.type == b_[other].value.type);
      pair(of_a[i], other);
    }
  }

  void pair_outputs() {
    const auto of_a = a_.outputs();
    const auto of_b = b_.outputs();
    require_same("outputs", of_a, of_b, of_a.size() == of_b.size());
    const std::optional<std::vector<ProgramNodeId>> named = outputs_by_label();
    for (size_t i = 0; i < of_a.size(); ++i) {
      ProgramNodeId one = of_a[i];
      ProgramNodeId other = named ? (*named)[i] : of_b[i];
      if (is_float_value(a_, one) != is_float_value(b_, other)) {
        one = before_dequantize(a_, one);
        other = before_dequantize(b_, other);
      }
      require_same("outputs", of_a, of_b,
                   a_[one].value.type.shape == b_[other].value.type.shape &&
                       is_float_value(a_, one) == is_float_value(b_, other));
      require<ArgumentError>(
          free(one, other) || to_b_[one] == other,
          "outputs {} of {} and {} are computed by one node in one of them "
          "and by several in the other: name them in the files or write them "
          "once",
          i, name_a_, name_b_);
      if (free(one, other)) pair(one, other);
    }
  }
  /// Returns the output of b with the label of each output of a, if all have one of these.
  std::optional<std::vector<ProgramNodeId>> outputs_by_label() const {
    const auto of_b = b_.outputs();
    std::vector<ProgramNodeId> found;
    for (const ProgramNodeId id : a_.outputs()) {
      const std::string& label = a_[id].label;
      const auto other = label.empty() ? std::nullopt : b_.find(label);
      if (!other || std::ranges::count(of_b, *other) == 0 ||
          std::ranges::count(found, *other) > 0)
        return std::nullopt;
      found.push_back(*other);
    }
    return found;
  }
  static bool is_float_value(const IntegerProgram& program, ProgramNodeId id) {
    return program[id].value.type.dtype == DType::F32;
  }
  static ProgramNodeId before_dequantize(const IntegerProgram& program, ProgramNodeId id) {
    const IntegerNode& node = program[id];
    return std::holds_alternative<integer::Dequantize>(node.op) ? node.operands[0] : id;
  }

  void require_same(std::string_view noun, std::span<const ProgramNodeId> of_a,
                    std::span<const ProgramNodeId> of_b, bool same) const {
    require<ArgumentError>(same, "{} differ at a batch of {}: {} has {}, {} has {}", noun,
                           a_.batch().value_or(1), name_a_, types_text(a_, of_a), name_b_,
                           types_text(b_, of_b));
  }

  void pair_by_position() {
    std::map<std::string, std::vector<ProgramNodeId>> remaining;
    for (const ProgramNodeId id : ids(b_)) {
      if (to_a_[id].index < 0) remaining[kind(b_, id)].push_back(id);
    }
    std::map<std::string, size_t> taken;
    for (const ProgramNodeId id : ids(a_)) {
      if (to_b_[id].index >= 0) continue;
      const std::string key = kind(a_, id);
      const auto& candidates = remaining[key];
      size_t& next = taken[key];
      if (next < candidates.size()) pair(id, candidates[next++]);
    }
  }
  /// Returns the op and the shape of a node.
  static std::string kind(const IntegerProgram& program, ProgramNodeId id) {
    return fmt::format("{} {}", name_of(program[id].op),
                       to_string(program[id].value.type.shape));
  }

  NodePairs result() const {
    NodePairs found;
    for (const ProgramNodeId id : ids(a_)) {
      if (to_b_[id].index < 0) {
        found.only_a.push_back(id);
      } else {
        const bool input = std::holds_alternative<integer::Input>(a_[id].op);
        (input ? found.inputs : found.others).push_back({id, to_b_[id]});
      }
    }
    for (const ProgramNodeId id : ids(b_)) {
      if (to_a_[id].index < 0) found.only_b.push_back(id);
    }
    return found;
  }

  const IntegerProgram& a_;
  const IntegerProgram& b_;
  const std::string& name_a_;
  const std::string& name_b_;
  NodeMap<ProgramNodeId, IntegerProgram> to_b_;
  NodeMap<ProgramNodeId, IntegerProgram> to_a_;
};

}  // namespace

NodePairs pair_nodes(const IntegerProgram& a, const IntegerProgram& b,
                     const std::string& name_a, const std::string& name_b) {
  return NodePairing(a, b, name_a, name_b).run();
}

}  // namespace qtape
