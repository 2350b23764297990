#include "qtape/engine/plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "qtape/core/aligned.h"
#include "qtape/core/out_of_memory.h"
#include "qtape/engine/arena.h"
#include "qtape/engine/plan_footprints.h"
#include "qtape/engine/plan_hooks.h"
#include "qtape/engine/plan_shards.h"
#include "qtape/ops/families/shard_sums.h"
#include "qtape/ops/op_queries.h"

namespace qtape {
namespace {

/// Assignment of a tensor before offsets are known: a buffer, the memory of a leaf, or none.
struct Home {
  int64_t buffer = -1;
  NodeId leaf;
  bool operator==(const Home&) const = default;
};

// Values of fewer bytes are not worth quantizing again. If a product has few rows, it takes
// hardly longer than the quantization, so only values above the larger limit are.
constexpr int64_t min_made_again = int64_t{1} << 17;
constexpr int64_t always_made_again = int64_t{1} << 20;
constexpr int64_t min_rows_made_again = 256;
constexpr int64_t largest_guard = int64_t{1} << 20;
constexpr int64_t largest_records = int64_t{1} << 60;

class Planner {
 public:
  Planner(const Graph& graph, const PlanOptions& options, const PlanHooks& hooks)
      : graph_(graph),
        options_(options),
        hooks_(hooks),
        count_(graph.size()),
        values_(static_cast<size_t>(count_)),
        gradients_(values_.size()),
        saved_(values_.size()),
        forward_scratch_(values_.size()),
        backward_scratch_(values_.size()),
        companions_(values_.size()),
        slots_(values_.size()),
        keeps_(values_.size()),
        last_use_(values_.size()),
        contributions_(values_.size()),
        asked_(values_.size()),
        takes_codes_(values_.size()),
        shard_values_(values_.size()),
        shard_dy_(values_.size()),
        shard_gradients_(values_.size()) {
    plan_.nodes.resize(values_.size());
  }

  Plan run() {
    read_ops();
    mark_encoded();
    mark_needed();
    mark_constant();
    mark_asked();
    mark_active();
    mark_shards(graph_, options_.slices, plan_.nodes);
    memory_ = memory_of(graph_, options_, plan_.nodes);
    mark_gated();
    find_last_uses();
    place_values();
    place_gradients();
    place_extras();
    place_decoded();
    place_companions();
    assign_offsets();
    return std::move(plan_);
  }

 private:
  const Node& node(size_t i) const { return graph_.nodes()[i]; }
  int64_t backward_time(size_t i) const { return 2 * count_ - 1 - static_cast<int64_t>(i); }
  int64_t end_time() const { return 2 * count_; }

  void check_ids(std::span<const NodeId> ids, std::string_view what) const {
    for (NodeId id : ids) {
      require<PlanError>(id.index >= 0 && id.index < count_,
                         "{} %{} does not exist; the graph has {} nodes", what, id.index,
                         count_);
    }
  }

  void read_ops() {
    require<PlanError>(hooks_.guard_bytes >= 0 && hooks_.guard_bytes <= largest_guard,
                       "guard_bytes must be in 0..{}, got {}", largest_guard,
                       hooks_.guard_bytes);
    check_ids(options_.outputs, "output");
    check_ids(options_.roots, "root");
    check_ids(options_.input_gradients, "input");
    for (size_t i = 0; i < values_.size(); ++i) {
      slots_[i] = slots_of(node(i).op);
      keeps_[i] = keep_of(node(i).op);
      plan_.nodes[i].wanted.assign(node(i).operands.size(), false);
      plan_.nodes[i].accumulate.assign(node(i).operands.size(), false);
    }
  }

  void mark_encoded() {
    for (const EncodedValue& each : options_.encoding.values) {
      plan_.nodes[at(each.node)].encoded = each.dtype;
    }
    for (NodeId id : options_.encoding.readers) takes_codes_[at(id)] = true;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (keeps_[i].view) plan_.nodes[i].encoded = plan_.nodes[at(node(i).operands[0])].encoded;
    }
    for (const auto& lasting : {options_.outputs, options_.roots}) {
      for (NodeId id : lasting) {
        require<PlanError>(!plan_.nodes[at(id)].encoded,
                           "{}: an output or a root cannot be held as codes",
                           graph_.describe(id));
      }
    }
  }

  /// True if the gradient of operand k is formed from those of shards.
  bool by_shards(size_t i, size_t k) const {
    return options_.slices.any() && plan_.nodes[i].by_shards[k];
  }

  /// Quantizers held as codes apply in every step, so they can replace the preceding gate.
  void mark_gated() {
    for (size_t i = 0; i < values_.size(); ++i) {
      NodePlan& own = plan_.nodes[i];
      if (!own.encoded || !own.active || !own.wanted[0]) continue;
      const size_t gate = at(node(i).operands[0]);
      const bool fit = traits_of(node(gate).op).gate && takes_gate(node(i).op);
      own.gated = fit && contributions_[gate] == 1 && hands_gradient_on(gate);
      plan_.nodes[gate].open = own.gated;
      if (own.gated) keeps_[gate].output = false;
    }
  }

  void mark_needed() {
    for (NodeId id : options_.outputs) plan_.nodes[at(id)].needed = true;
    for (NodeId id : options_.roots) plan_.nodes[at(id)].needed = true;
    for (size_t i = values_.size(); i-- > 0;) {
      if (!plan_.nodes[i].needed) continue;
      for (NodeId id : node(i).operands) plan_.nodes[at(id)].needed = true;
    }
  }

  void mark_constant() {
    if (!options_.constant_parameters) return;
    require<PlanError>(options_.roots.empty(),
                       "parameters whose gradients are computed are not constant: a plan with "
                       "constant_parameters has no roots, got {}",
                       options_.roots.size());
    for (size_t i = 0; i < values_.size(); ++i) {
      const auto& operands = node(i).operands;
      plan_.nodes[i].constant =
          is_leaf(i) || (!operands.empty() && std::ranges::all_of(operands, [&](NodeId id) {
            return plan_.nodes[at(id)].constant;
          }));
    }
  }

  bool is_leaf(size_t i) const {
    return is_persistent(node(i).op) || std::holds_alternative<Constant>(node(i).op);
  }

  TensorType gradient(size_t i) const { return gradient_type(node(i).type, keeps_[i]); }

  bool flows(size_t i, size_t k) const {
    const size_t operand = at(node(i).operands[k]);
    const bool taken =
        keeps_[operand].codes ? slots_[i][k].codes : is_float(node(operand).type.dtype);
    return slots_[i][k].differentiable && taken;
  }

  void mark_asked() {
    for (NodeId id : options_.input_gradients) {
      require<PlanError>(std::holds_alternative<Input>(node(at(id)).op),
                         "{}: gradients can be requested only of inputs", graph_.describe(id));
      require<PlanError>(is_float(node(at(id)).type.dtype),
                         "{}: is {}, and only floats have a gradient", graph_.describe(id),
                         node(at(id)).type);
      asked_[at(id)] = true;
    }
  }

  /// By node: true if a gradient flows to a parameter or to an input whose gradient is
  /// requested.
  std::vector<bool> find_trained() const {
    std::vector<bool> trains(values_.size());
    for (size_t i = 0; i < values_.size(); ++i) {
      trains[i] = std::holds_alternative<Parameter>(node(i).op) || asked_[i];
      for (size_t k = 0; k < node(i).operands.size() && is_float(gradient(i).dtype); ++k) {
        if (flows(i, k) && trains[at(node(i).operands[k])]) trains[i] = true;
      }
    }
    return trains;
  }

  /// Marks nodes that lead from something trained to a root; gradients flow through them.
  void mark_active() {
    const std::vector<bool> trains = find_trained();
    for (NodeId id : options_.roots) {
      require<PlanError>(
          !options_.accumulate_gradients || !std::holds_alternative<Parameter>(node(at(id)).op),
          "{}: a parameter cannot be a root if gradients accumulate", graph_.describe(id));
      require<PlanError>(
          trains[at(id)], "{}: no gradient path leads from a parameter{} to this root",
          graph_.describe(id), options_.input_gradients.empty() ? "" : " or a requested input");
      plan_.nodes[at(id)].active = true;
    }
    for (size_t i = values_.size(); i-- > 0;) {
      if (!plan_.nodes[i].active) continue;
      for (size_t k = 0; k < node(i).operands.size(); ++k) {
        const size_t operand = at(node(i).operands[k]);
        if (!flows(i, k) || !trains[operand]) continue;
        plan_.nodes[i].wanted[k] = true;
        plan_.nodes[operand].active = true;
        ++contributions_[operand];
      }
    }
    for (NodeId id : options_.input_gradients) {
      require<PlanError>(plan_.nodes[at(id)].active,
                         "{}: no gradient path leads from this input to a root",
                         graph_.describe(id));
    }
  }

  /// True if backward of node i reads the value of its operand k.
  bool reads_in_backward(size_t i, size_t k) const {
    if (!plan_.nodes[i].active || !keeps_[i].operand(k)) return false;
    if (!keeps_[i].reads_for_others(k)) return true;
    const auto& wanted = plan_.nodes[i].wanted;
    for (size_t other = 0; other < wanted.size(); ++other) {
      if (other != k && wanted[other]) return true;
    }
    return false;
  }

  /// True if backward computes the codes again from the leaf, such as weights, so that they
  /// need not be stored until backward.
  bool is_made_again(size_t i, size_t k) const {
    const size_t operand = at(node(i).operands[k]);
    const auto& own = node(operand);
    if (!plan_.nodes[operand].encoded || !keeps_[i].takes_codes(k) || own.operands.empty() ||
        !is_leaf(at(own.operands[0]))) {
      return false;
    }
    const bool few_rows = min_rows_[operand] < min_rows_made_again;
    return own.type.bytes() > (few_rows ? always_made_again : min_made_again);
  }

  /// By node: the smallest number of rows of a result whose op reads it in backward.
  void find_fewest_rows() {
    min_rows_.assign(values_.size(), std::numeric_limits<int64_t>::max());
    for (size_t i = 0; i < values_.size(); ++i) {
      const Shape& y = node(i).type.shape;
      for (size_t k = 0; k < node(i).operands.size(); ++k) {
        if (y.rank() == 0 || !reads_in_backward(i, k)) continue;
        int64_t& fewest = min_rows_[at(node(i).operands[k])];
        fewest = std::min(fewest, y.elements() / std::max<int64_t>(1, y[-1]));
      }
    }
  }

  void find_last_uses() {
    find_fewest_rows();
    for (size_t i = 0; i < values_.size(); ++i) {
      last_use_[i] = static_cast<int64_t>(i);
      if (std::holds_alternative<Input>(node(i).op)) last_use_[i] = end_time();
      if (!plan_.nodes[i].needed) continue;
      for (size_t k = 0; k < node(i).operands.size(); ++k) {
        plan_.nodes[i].made_again.push_back(false);
        if (slots_[i][k].scales != Scales::None) continue;  // reads only the record
        const size_t operand = at(node(i).operands[k]);
        const bool kept = reads_in_backward(i, k);
        const bool lasts = kept && !is_made_again(i, k);
        use(operand, lasts ? backward_time(i) : static_cast<int64_t>(i));
        plan_.nodes[i].made_again.back() = kept && !lasts;
        if (plan_.nodes[operand].constant && !plan_.nodes[i].constant) use(operand, end_time());
      }
      if (plan_.nodes[i].active && keeps_[i].output) use(i, backward_time(i));
    }
    for (const Encoding::Use& each : options_.encoding.uses) {
      if (!plan_.nodes[at(each.reader)].needed) continue;
      const bool lasts =
          plan_.nodes[at(each.value)].constant && !plan_.nodes[at(each.reader)].constant;
      use(at(each.value), lasts ? end_time() : each.reader.index);
    }
    for (const auto& lasting : {options_.outputs, options_.roots}) {
      for (NodeId id : lasting) {
        plan_.nodes[at(id)].kept = true;
        use(at(id), end_time());
      }
    }
  }

  /// Bytes of the value of node i in the form in which it is held.
  int64_t bytes(size_t i) const {
    const TensorType& type = node(i).type;
    const auto& codes = plan_.nodes[i].encoded;
    return codes ? type.elements() * size_of(*codes) : type.bytes();
  }

  void use(size_t i, int64_t time) { last_use_[i] = std::max(last_use_[i], time); }

  int64_t new_buffer(int64_t bytes, int64_t begin, int64_t end) {
    plan_.buffers.push_back({0, bytes, begin, end});
    return static_cast<int64_t>(plan_.buffers.size()) - 1;
  }

  Lifetime& buffer(int64_t index) { return plan_.buffers[static_cast<size_t>(index)]; }

  /// Arena buffer of operand 0, if the output of node i may share it.
  std::optional<int64_t> shared_value(size_t i) {
    if (!hooks_.share_memory || node(i).operands.empty()) return std::nullopt;
    if (plan_.nodes[i].reduces) return std::nullopt;
    const size_t operand = at(node(i).operands[0]);
    const int64_t index = values_[operand].buffer;
    if (index < 0 || bytes(operand) != bytes(i) ||
        plan_.nodes[operand].encoded != plan_.nodes[i].encoded) {
      return std::nullopt;
    }
    if (keeps_[i].view) return index;
    const bool dead = buffer(index).end <= static_cast<int64_t>(i);
    const bool once = std::ranges::count(node(i).operands, node(i).operands[0]) == 1;
    if (keeps_[i].forward_in_place && dead && once) return index;
    return std::nullopt;
  }

  void place_values() {
    for (size_t i = 0; i < values_.size(); ++i) {
      if (!plan_.nodes[i].needed) continue;
      const Op& op = node(i).op;
      if (is_leaf(i)) {
        values_[i].leaf = NodeId{static_cast<int32_t>(i)};
        continue;
      }
      if (const auto shared = shared_value(i)) {
        values_[i].buffer = *shared;
        buffer(*shared).end = std::max(buffer(*shared).end, last_use_[i]);
      } else {
        values_[i].buffer = new_buffer(bytes(i), static_cast<int64_t>(i), last_use_[i]);
      }
      // Inputs and lasting constants are written before the step starts.
      const bool lasting = plan_.nodes[i].constant && last_use_[i] == end_time();
      if (std::holds_alternative<Input>(op) || lasting) buffer(values_[i].buffer).begin = 0;
    }
  }

  /// True if the gradient of operand 0 of node i takes over the buffer of the gradient of i,
  /// because only i contributes to it.
  bool hands_gradient_on(size_t i) const {
    if (!hooks_.share_memory || !keeps_[i].backward_in_place) return false;
    if (node(i).operands.empty() || !plan_.nodes[i].wanted[0]) return false;
    if (plan_.nodes[i].reduces || by_shards(i, 0)) return false;
    const NodeId operand = node(i).operands[0];
    const bool accumulates =
        options_.accumulate_gradients && std::holds_alternative<Parameter>(graph_[operand].op);
    return contributions_[at(operand)] == 1 && !accumulates &&
           std::ranges::find(options_.roots, operand) == options_.roots.end() &&
           gradient(at(operand)).bytes() == gradient(i).bytes();
  }

  /// Assigns memory to the gradient of node i, first written at `begin`: the memory of a
  /// parameter if the gradient is passed on to it unchanged, otherwise the arena.
  Home new_gradient(size_t i, int64_t begin) {
    size_t last = i;
    while (hands_gradient_on(last)) last = at(node(last).operands[0]);
    if (std::holds_alternative<Parameter>(node(last).op)) {
      return {-1, NodeId{static_cast<int32_t>(last)}};
    }
    return {new_buffer(gradient(i).bytes(), begin, backward_time(i)), NodeId{}};
  }

  void place_gradients() {
    std::vector<bool> written(values_.size());
    for (NodeId id : options_.roots) {
      if (written[at(id)]) continue;
      gradients_[at(id)] = new_gradient(at(id), count_);
      written[at(id)] = true;
    }
    for (size_t i = values_.size(); i-- > 0;) {
      if (!plan_.nodes[i].active) continue;
      for (size_t k = 0; k < node(i).operands.size(); ++k) {
        if (by_shards(i, k) && !place_shards(i, k)) continue;
        if (plan_.nodes[i].wanted[k]) place_gradient(i, k, written);
      }
    }
    for (NodeId id : options_.input_gradients) {
      buffer(gradients_[at(id)].buffer).end = end_time();
    }
  }

  /// Assigns memory to the gradients of the shards; true if node i is the last one to write it.
  bool place_shards(size_t i, size_t k) {
    const size_t operand = at(node(i).operands[k]);
    Home& home = shard_gradients_[operand];
    const int64_t bytes = ShardSums::bytes(options_.slices.shards, gradient(operand));
    if (home.buffer < 0) home.buffer = new_buffer(bytes, backward_time(i), backward_time(i));
    buffer(home.buffer).end = backward_time(i);
    return plan_.nodes[i].sums_shards[k];
  }

  void place_gradient(size_t i, size_t k, std::vector<bool>& written) {
    const size_t operand = at(node(i).operands[k]);
    const bool parameter = std::holds_alternative<Parameter>(node(operand).op);
    plan_.nodes[i].accumulate[k] =
        written[operand] || (parameter && options_.accumulate_gradients);
    if (written[operand]) return;
    written[operand] = true;
    if (k == 0 && hands_gradient_on(i)) {
      gradients_[operand] = gradients_[i];
      if (gradients_[i].buffer >= 0) {
        Lifetime& shared = buffer(gradients_[i].buffer);
        shared.end = std::max(shared.end, backward_time(operand));
      }
    } else {
      gradients_[operand] = new_gradient(operand, backward_time(i));
    }
  }

  void place_extras() {
    for (size_t i = 0; i < values_.size(); ++i) {
      if (!plan_.nodes[i].needed) continue;
      const bool active = plan_.nodes[i].active;
      const auto now = static_cast<int64_t>(i);
      const Footprint& f = memory_[i].forward;
      if (f.saved > 0) {
        saved_[i].buffer = new_buffer(f.saved, now, active ? backward_time(i) : now);
      }
      if (f.scratch > 0) forward_scratch_[i].buffer = new_buffer(f.scratch, now, now);
      if (memory_[i].backward_scratch > 0 && active) {
        backward_scratch_[i].buffer =
            new_buffer(memory_[i].backward_scratch, backward_time(i), backward_time(i));
      }
      if (f.record > largest_records - plan_.record_bytes) {
        fail<Error>("cannot allocate {} bytes for the scales of {}", f.record,
                    graph_.describe(NodeId{static_cast<int32_t>(i)}));
      }
      if (plan_.nodes[i].reduces) {
        shard_values_[i].buffer =
            new_buffer(ShardSums::bytes(options_.slices.shards, node(i).type), now, now);
        if (active) {
          shard_dy_[i].buffer =
              new_buffer(gradient(i).bytes(), backward_time(i), backward_time(i));
        }
      }
      plan_.nodes[i].record = plan_.record_bytes;
      plan_.record_bytes += aligned_size(f.record);
    }
  }

  /// Places the decoded values of operands held as codes, for nodes that read values.
  void place_decoded() {
    decoded_forward_.resize(values_.size());
    decoded_backward_.resize(values_.size());
    for (size_t i = 0; i < values_.size(); ++i) {
      if (!plan_.nodes[i].needed || keeps_[i].view) continue;
      const size_t count = node(i).operands.size();
      decoded_forward_[i].resize(count);
      decoded_backward_[i].resize(count);
      for (size_t k = 0; k < count; ++k) {
        const size_t operand = at(node(i).operands[k]);
        if (!plan_.nodes[operand].encoded || slots_[i][k].scales != Scales::None) continue;
        const int64_t bytes = node(operand).type.bytes();
        const auto now = static_cast<int64_t>(i);
        if (!takes_codes_[i]) decoded_forward_[i][k].buffer = new_buffer(bytes, now, now);
        if (reads_in_backward(i, k) && !keeps_[i].takes_codes(k)) {
          decoded_backward_[i][k].buffer =
              new_buffer(bytes, backward_time(i), backward_time(i));
        }
      }
    }
  }

  void place_companions() {
    for (const Companion& companion : options_.companions) {
      if (!plan_.nodes[at(companion.node)].needed) continue;
      const bool constant = plan_.nodes[at(companion.node)].constant;
      const int64_t begin = constant ? 0 : companion.node.index;
      int64_t end = companion.kept || constant ? end_time() : begin;
      for (NodeId reader : companion.readers) {
        if (plan_.nodes[at(reader)].needed) end = std::max<int64_t>(end, reader.index);
      }
      companions_[at(companion.node)].buffer = new_buffer(companion.bytes, begin, end);
    }
  }

  Place place(const Home& home) {
    if (home.buffer >= 0) return {Place::Kind::Arena, buffer(home.buffer).offset, NodeId{}};
    if (home.leaf.index >= 0) return {Place::Kind::Leaf, 0, home.leaf};
    return {};
  }

  void assign_offsets() {
    plan_.arena_bytes =
        assign_arena_offsets(plan_.buffers, hooks_.share_memory, hooks_.guard_bytes);
    for (size_t i = 0; i < values_.size(); ++i) {
      plan_.nodes[i].value = place(values_[i]);
      plan_.nodes[i].gradient = place(gradients_[i]);
      plan_.nodes[i].saved = place(saved_[i]);
      plan_.nodes[i].forward_scratch = place(forward_scratch_[i]);
      plan_.nodes[i].backward_scratch = place(backward_scratch_[i]);
      plan_.nodes[i].companion = place(companions_[i]);
      plan_.nodes[i].shard_values = place(shard_values_[i]);
      plan_.nodes[i].shard_dy = place(shard_dy_[i]);
      for (NodeId id : node(i).operands) {
        plan_.nodes[i].shard_gradients.push_back(place(shard_gradients_[at(id)]));
      }
      for (const Home& home : decoded_forward_[i]) {
        plan_.nodes[i].forward_values.push_back(place(home));
      }
      for (const Home& home : decoded_backward_[i]) {
        plan_.nodes[i].backward_values.push_back(place(home));
      }
    }
  }

  const Graph& graph_;
  const PlanOptions& options_;
  const PlanHooks& hooks_;
  int64_t count_;
  Plan plan_;
  std::vector<Home> values_, gradients_, saved_, forward_scratch_, backward_scratch_,
      companions_;
  std::vector<std::vector<Slot>> slots_;
  std::vector<Keep> keeps_;
  std::vector<NodeMemory> memory_;
  std::vector<int64_t> last_use_;
  std::vector<int64_t> min_rows_;
  std::vector<int> contributions_;
  std::vector<bool> asked_;        // inputs whose gradient is requested
  std::vector<bool> takes_codes_;  // in forward
  std::vector<Home> shard_values_, shard_dy_, shard_gradients_;
  std::vector<std::vector<Home>> decoded_forward_, decoded_backward_;  // by node and operand
};

}  // namespace

int64_t largest_live_set(std::span<const Lifetime> buffers) {
  std::map<int64_t, int64_t> changes;  // by time
  for (const Lifetime& each : buffers) {
    changes[each.begin] += aligned_size(each.bytes);
    changes[each.end + 1] -= aligned_size(each.bytes);
  }
  int64_t live = 0;
  int64_t largest = 0;
  for (const auto& [time, change] : changes) {
    live += change;
    largest = std::max(largest, live);
  }
  return largest;
}

Plan plan(const Graph& graph, const PlanOptions& options) {
  return plan(graph, options, PlanHooks{});
}

Plan plan(const Graph& graph, const PlanOptions& options, const PlanHooks& hooks) {
  return during("planning", {}, [&] { return Planner(graph, options, hooks).run(); });
}

}  // namespace qtape
