#include "qtape/integer/program/channels_first.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "qtape/core/error.h"
#include "qtape/engine/channel_axis.h"
#include "qtape/engine/rewrite.h"
#include "qtape/integer/program/integer_node.h"

namespace qtape {
namespace {

/// Returns the label of the values of an input or output with the channels last.
std::string label_of_last(const std::string& label) { return label + ".channels_last"; }

/// Copies a program and moves the channels of its inputs and outputs.
class Mover {
 public:
  explicit Mover(const IntegerProgram& from)
      : from_(from),
        to_(from.requantization()),
        outputs_(from.outputs().begin(), from.outputs().end()) {}

  IntegerProgram run() {
    for (const ProgramNodeId id : ids(from_)) {
      if (!is_input(id) || !is_moved(id)) continue;
      require<GraphError>(!from_.find(last_label(id)),
                          "{}: its channels are before the positions already",
                          from_.describe(id));
    }
    const auto copies = rewrite(from_, to_, [this](ProgramNodeId id, const auto& operands) {
      return copied(id, operands);
    });
    std::vector<ProgramNodeId> outputs;
    for (const ProgramNodeId id : from_.outputs()) outputs.push_back(output(id, copies[id]));
    to_.set_outputs(std::move(outputs));
    return std::move(to_);
  }

 private:
  const Shape& shape(ProgramNodeId id) const { return from_[id].value.type.shape; }

  bool is_batched(ProgramNodeId id) const {
    const auto* input = std::get_if<integer::Input>(&from_[id].op);
    if (input != nullptr) return input->batch;
    return from_.batch() && shape(id).rank() > 0 && shape(id)[0] == *from_.batch();
  }
  int first_axis(ProgramNodeId id) const { return is_batched(id) ? 1 : 0; }
  /// True for channels and at least one axis of positions.
  bool is_moved(ProgramNodeId id) const {
    return shape(id).rank() - first_axis(id) >= 2 && has_channel_axis(from_, id);
  }

  bool is_input(ProgramNodeId id) const {
    return std::holds_alternative<integer::Input>(from_[id].op);
  }
  bool is_read_by_quantizers(ProgramNodeId id) const {
    return !outputs_.contains(id) &&
           std::ranges::all_of(from_.nodes(), [id](const IntegerNode& node) {
             return std::ranges::count(node.operands, id) == 0 ||
                    std::holds_alternative<integer::Quantize>(node.op);
           });
  }

  /// Returns `axes` [n, h, w, c] as [n, c, h, w].
  template <class T>
  std::vector<T> first(ProgramNodeId id, std::vector<T> axes) const {
    std::rotate(axes.begin() + first_axis(id), axes.end() - 1, axes.end());
    return axes;
  }
  std::vector<int> axes(ProgramNodeId id) const {
    std::vector<int> all(static_cast<size_t>(shape(id).rank()));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  std::string last_label(ProgramNodeId id) const { return label_of_last(from_[id].label); }
  /// Returns the label of an output with the channels last, also of one without a label.
  std::string unused_last_label(ProgramNodeId id) const {
    if (!from_[id].label.empty()) return last_label(id);
    for (int64_t k = id.index;; ++k) {
      std::string label = label_of_last(fmt::format("output{}", k));
      if (!from_.find(label) && !to_.find(label)) return label;
    }
  }
  /// Adds `copy`, the input or its codes of [n, c, h, w], as [n, h, w, c].
  ProgramNodeId to_last(ProgramNodeId input, ProgramNodeId copy) {
    std::vector<int> last = axes(input);
    const auto begin = last.begin() + first_axis(input);
    std::rotate(begin, begin + 1, last.end());
    const std::string label = last_label(input);
    return to_.add(integer::Transpose{{.permutation = std::move(last)}}, {copy},
                   to_.find(label) ? std::string() : label);
  }

  ProgramNodeId moved_input(ProgramNodeId id) {
    integer::Input input = std::get<integer::Input>(from_[id].op);
    const auto extents = shape(id).extents();
    input.shape = Shape(first(id, std::vector(extents.begin(), extents.end())));
    const ProgramNodeId copy = to_.add(input, {}, from_[id].label);
    return is_read_by_quantizers(id) ? copy : to_last(id, copy);
  }

  ProgramNodeId copied(ProgramNodeId id, std::span<const ProgramNodeId> operands) {
    if (is_input(id) && is_moved(id)) return moved_input(id);
    const IntegerNode& node = from_[id];
    // The moved output takes the label.
    const bool yields = outputs_.contains(id) && is_moved(id);
    const ProgramNodeId copy =
        to_.add(node.op, operands, yields ? unused_last_label(id) : node.label);
    const bool reads_moved = std::holds_alternative<integer::Quantize>(node.op) &&
                             is_input(node.operands[0]) && is_moved(node.operands[0]) &&
                             is_read_by_quantizers(node.operands[0]);
    return reads_moved ? to_last(node.operands[0], copy) : copy;
  }

  ProgramNodeId output(ProgramNodeId id, ProgramNodeId copy) {
    if (!is_moved(id)) return copy;
    require<GraphError>(from_[id].value.scales.size() <= 1,
                        "{}: its accumulators have {} scales, one for each channel, which must "
                        "stay the last axis: output floats instead",
                        from_.describe(id), from_[id].value.scales.size());
    const auto [at, added] = moved_.try_emplace(id);
    if (added) {
      at->second = to_.add(integer::Transpose{{.permutation = first(id, axes(id))}}, {copy},
                           is_input(id) ? std::string() : from_[id].label);
    }
    return at->second;
  }

  const IntegerProgram& from_;
  IntegerProgram to_;
  std::set<ProgramNodeId> outputs_;
  std::map<ProgramNodeId, ProgramNodeId> moved_;  // outputs with channels first
};

}  // namespace

IntegerProgram channels_first(const IntegerProgram& program) { return Mover(program).run(); }

bool has_channels_first(const IntegerProgram& program, ProgramNodeId id) {
  const IntegerNode& node = program[id];
  if (!node.label.empty()) return program.find(label_of_last(node.label)).has_value();
  return std::holds_alternative<integer::Transpose>(node.op) &&
         program[node.operands[0]].label.ends_with(label_of_last({}));
}

}  // namespace qtape
