#include "qtape/integer/program/program_plan.h"

#include <algorithm>

#include "qtape/engine/arena.h"
#include "qtape/integer/products/epilogue.h"

namespace qtape {
namespace {

class Planner {
 public:
  Planner(const IntegerProgram& program, KeptValues kept, const TargetMemory* target = nullptr)
      : program_(program),
        kept_(kept),
        target_(target),
        readers_(static_cast<size_t>(program.size())),
        last_(readers_.size()),
        buffer_(readers_.size()),
        scratch_(readers_.size()),
        joined_to_(readers_.size()) {
    plan_.values.resize(readers_.size());
  }

  ProgramPlan run() {
    for (const IntegerNode& node : program_.nodes()) {
      for (ProgramNodeId operand : node.operands) ++readers_[at(operand)];
    }
    for (const ProgramNodeId id : ids(program_)) value(id).kept = is_kept(id);
    for (ProgramNodeId id : program_.outputs()) {
      value(id).kept = true;
      ++readers_[at(id)];
    }
    join_products();
    for (const ProgramNodeId id : ids(program_)) {
      for (ProgramNodeId operand : program_[id].operands) {
        last_[at(operand)] = std::max(last_[at(operand)], time_of(id));
      }
    }
    for (const ProgramNodeId id : ids(program_)) place(id);
    plan_.arena_bytes = target_ == nullptr
                            ? assign_arena_offsets(plan_.buffers, true, 0)
                            : assign_arena_offsets(plan_.buffers, true, 0, target_->alignment);
    if (plan_.buffers.empty()) plan_.arena_bytes = 0;
    for (size_t i = 0; i < buffer_.size(); ++i) {
      if (buffer_[i]) plan_.values[i].offset = plan_.buffers[*buffer_[i]].offset;
      if (scratch_[i]) plan_.values[i].scratch = plan_.buffers[*scratch_[i]].offset;
    }
    return std::move(plan_);
  }

 private:
  ProgramPlan::Value& value(ProgramNodeId id) { return plan_.values[at(id)]; }
  bool is_kept(ProgramNodeId id) const {
    return kept_ != KeptValues::Outputs ||
           std::holds_alternative<integer::Input>(program_[id].op);
  }

  /// Passes products that only one node reads to its epilogue.
  void join_products() {
    if (kept_ == KeptValues::All) return;
    for (const ProgramNodeId id : ids(program_)) {
      const IntegerNode& node = program_[id];
      if (!has_epilogue(node.op)) continue;
      const ProgramNodeId x = node.operands[0];
      if (readers_[at(x)] > 1 || !takes_epilogue(program_[x].op)) continue;
      value(x) = {.next = id};
      joined_to_[at(id)] = x;
    }
  }

  /// Returns the time at which a node runs.
  int64_t time_of(ProgramNodeId id) const {
    return joined_to_[at(id)] ? joined_to_[at(id)]->index : id.index;
  }

  /// True if the value lies outside of the arena: in memory of the caller, or with constants.
  bool is_outside(ProgramNodeId id) const {
    const IntegerNode& node = program_[id];
    if (target_ == nullptr) return false;
    if (std::holds_alternative<integer::Constant>(node.op)) return true;
    if (std::holds_alternative<integer::Input>(node.op)) return true;
    if (node.value.type.dtype != DType::F32) return false;
    return std::ranges::count(program_.outputs(), id) > 0;
  }

  void place_scratch(ProgramNodeId id) {
    const IntegerNode& node = program_[id];
    if (target_ == nullptr || node.operands.empty()) return;
    const auto next = value(id).next;
    const int64_t bytes = target_->scratch(node, next ? grid_of(program_[*next].op) : nullptr);
    if (bytes == 0) return;
    scratch_[at(id)] = plan_.buffers.size();
    plan_.buffers.push_back({.bytes = bytes, .begin = time_of(id), .end = time_of(id)});
  }

  void place(ProgramNodeId id) {
    const IntegerNode& node = program_[id];
    place_scratch(id);
    if (value(id).next || is_outside(id)) return;
    const bool constant = std::holds_alternative<integer::Constant>(node.op);
    const int64_t end = value(id).kept || constant ? program_.size() : last_[at(id)];
    const int64_t bytes = node.value.type.bytes();
    const bool first = constant || std::holds_alternative<integer::Input>(node.op);
    const int64_t begin = first ? 0 : time_of(id);
    if (shares_place(node, begin)) {
      buffer_[at(id)] = buffer_[at(node.operands[0])];
      Lifetime& buffer = plan_.buffers[*buffer_[at(id)]];
      buffer.end = std::max({buffer.end, begin, end});
      return;
    }
    buffer_[at(id)] = plan_.buffers.size();
    plan_.buffers.push_back({.bytes = bytes, .begin = begin, .end = std::max(begin, end)});
  }

  /// True if the node, which runs at `time`, can share the memory of its operand 0.
  bool shares_place(const IntegerNode& node, int64_t time) const {
    const Placement placement = placement_of(node.op);
    if (placement == Placement::Own || !buffer_[at(node.operands[0])]) return false;
    if (placement == Placement::View) return true;
    const IntegerValue& x = program_[node.operands[0]].value;
    const Lifetime& buffer = plan_.buffers[*buffer_[at(node.operands[0])]];
    return x.type.bytes() == node.value.type.bytes() &&
           x.type.elements() == node.value.type.elements() && buffer.end <= time;
  }

  const IntegerProgram& program_;
  KeptValues kept_;
  const TargetMemory* target_;                           // null: a session
  std::vector<int> readers_;                             // by node; an output is read once more
  std::vector<int64_t> last_;                            // by node: when it is read last
  std::vector<std::optional<size_t>> buffer_;            // by node
  std::vector<std::optional<size_t>> scratch_;           // by node
  std::vector<std::optional<ProgramNodeId>> joined_to_;  // by node: the node whose products it
                                                         // receives
  ProgramPlan plan_;
};

}  // namespace

ProgramPlan plan_program(const IntegerProgram& program, KeptValues kept) {
  return Planner(program, kept).run();
}

ProgramPlan plan_program(const IntegerProgram& program, const TargetMemory& target) {
  return Planner(program, KeptValues::Outputs, &target).run();
}

}  // namespace qtape
