// Tape: a graph bound to memory. Runs forward kernels in order and backward kernels in reverse.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "qtape/core/thread_count.h"
#include "qtape/engine/arithmetic.h"
#include "qtape/engine/graph.h"
#include "qtape/engine/parameters.h"
#include "qtape/engine/plan.h"
#include "qtape/engine/quantization_schedule.h"

namespace qtape {

/// What a tape keeps and computes, and how.
struct TapeOptions {
  /// Values that stay readable after a step; empty: the graph's own outputs.
  std::vector<NodeId> outputs = {};
  /// Where gradients start, usually the loss; empty: the tape has no backward.
  std::vector<NodeId> roots = {};
  /// Inputs of f32, f64, f16 or bf16 whose gradients backward computes, see
  /// Tape::input_gradient.
  std::vector<NodeId> input_gradients = {};
  /// Threads of kernels and of oneDNN, at least 1. Results do not depend on it.
  int threads = default_threads();
  /// Seed of dropout.
  uint64_t seed = 0;
  /// Parameters' gradients add up from step to step until Parameters::zero_gradients. Those of
  /// inputs do not.
  bool accumulate_gradients = false;
  /// Parameters and states keep their values between forward passes, until
  /// Tape::parameters_changed: passes that neither train nor observe compute what reads nothing
  /// else, such as quantized weights, once. For tapes without roots.
  bool constant_parameters = false;
  /// How forward computes between quantized operands: `products_of_codes()` or
  /// `exact(Requantization::SingleRounding)`; empty: in floats.
  Arithmetic arithmetic = {};
  /// What products of gradients are computed in. BF16 needs a processor that multiplies it.
  GradientPrecision gradient_precision = GradientPrecision::F32;
  /// When training steps quantize and observe.
  QuantizationSchedule schedule = {};
};

struct PlanHooks;

/// Nanoseconds that the kernels of one node took.
struct NodeTimes {
  int64_t forward = 0;
  int64_t backward = 0;
};

/// Everything that can fail or allocate happens in the constructor; a step allocates nothing,
/// but for the first one whose quantizers do not all apply where the arithmetic holds values as
/// codes: it needs memory for floats.
/// Several tapes may share one Parameters, which must outlive them and may move. Not for use by
/// two threads at once. Movable, not copyable.
class Tape {
 public:
  /// Plans and binds `graph`, of which it keeps a copy. Throws GraphError for leaves that
  /// `parameters` lacks or holds with another type and for `parameters` that were moved from,
  /// PlanError as `plan` does, ArgumentError for fewer than one thread, a schedule that cannot
  /// be, constant_parameters with roots and a gradient precision that the machine lacks.
  Tape(const Graph& graph, Parameters& parameters, TapeOptions options);
  /// The same as tests of memory ask for it, see engine/plan_hooks.h.
  Tape(const Graph& graph, Parameters& parameters, TapeOptions options, const PlanHooks& hooks);

  /// The memory of an input, for the caller to fill before `forward`.
  /// Throws GraphError when `id` is not an input that this tape uses or T is not its dtype.
  template <Element T>
  std::span<T> input(NodeId id) {
    return {reinterpret_cast<T*>(input_data(id, dtype_of<T>)), elements(id)};
  }
  template <Element T>
  std::span<T> input(std::string_view label) {
    return input<T>(graph_.at(label));
  }

  /// Runs the graph in `mode`, within what the schedule allows. Throws GraphError when a kernel
  /// reported a fault (a label out of range, a Fixed scale never set); parameters and gradients
  /// are intact and the next step may follow. What observers saw of the batch stays seen.
  /// Throws GraphError, having changed nothing, once the parameters are gone.
  void forward(Mode mode);
  /// Parameters or states were written since the last forward: by an optimizer, another tape or
  /// a load. For tapes with constant_parameters; others read them in every pass.
  void parameters_changed() { constants_.valid = false; }
  /// Runs all gradients back from the roots, which must be scalars, with dy = 1. Needs a
  /// forward before it. Throws GraphError.
  void backward();
  /// The same from one root alone, with the upstream gradient `dy` of the root's shape; T is
  /// the root's dtype, float where the root is integer codes.
  template <Element T>
  void backward(NodeId root, std::span<const T> dy) {
    clear_seeds();
    seed_gradient(root, std::as_bytes(dy), dtype_of<T>);
    run_backward();
  }

  /// The gradient of an input named in TapeOptions::input_gradients, in its shape: what the
  /// last backward gave, until the next forward. Quantizers on the way count as their
  /// straight-through estimators say. Throws GraphError for other nodes, for another T than the
  /// input's dtype and while there is none.
  template <Element T>
  std::span<const T> input_gradient(NodeId id) const {
    return {reinterpret_cast<const T*>(input_gradient_data(id, dtype_of<T>)), elements(id)};
  }
  template <Element T>
  std::span<const T> input_gradient(std::string_view label) const {
    return input_gradient<T>(graph_.at(label));
  }

  /// The value of an output, an input or a leaf. Throws GraphError for any other node, whose
  /// memory may have been used again, and for another T than its dtype.
  template <Element T>
  std::span<const T> value(NodeId id) const {
    return {reinterpret_cast<const T*>(value_data(id, dtype_of<T>)), elements(id)};
  }
  template <Element T>
  std::span<const T> value(std::string_view label) const {
    return value<T>(graph_.at(label));
  }
  /// A scalar output of any float dtype but f16 and bf16, as a double.
  double scalar(NodeId id) const;

  /// Switches and reports of one node: `enabled` and `observing` may be
  /// changed between steps.
  NodeStatus& status(NodeId id) { return statuses_[index_of(id)]; }
  const NodeStatus& status(NodeId id) const { return statuses_[index_of(id)]; }
  /// The scales and zero points that a quantizer node used in the last forward, one per
  /// channel. Throws GraphError for other nodes, before the first forward, after one that
  /// failed, and where the last one did not quantize.
  std::vector<QParams<double>> qparams(NodeId id) const;
  /// The integers of a node in the last forward of a tape with exact arithmetic; null for nodes
  /// without integers of their own and where arithmetic is not exact.
  const ExactValue* integers(NodeId id) const;
  /// NaN and infinite elements that all observers of this tape skipped so far.
  int64_t non_finite() const;

  /// Forward passes in modes that train so far: the counter of random ops. Set on resume.
  int64_t step() const { return static_cast<int64_t>(step_.number); }
  void set_step(int64_t step);

  /// Begins to add up the times of nodes, from 0, or stops. Timing takes 50 ns a kernel.
  void set_timing(bool on);
  /// By node: what was added up since timing began; empty where it never did.
  std::span<const NodeTimes> times() const { return times_; }

  const Graph& graph() const { return graph_; }
  /// Where the values of its usual layout lie.
  const Plan& memory() const { return main().plan; }
  /// What the tape was bound to, where it is now. Throws GraphError once it is gone.
  Parameters& parameters() const { return parameters_.get("tape"); }
  int threads() const { return options_.threads; }
  /// Whether every guard of PlanHooks::guard_bytes still holds its pattern.
  bool guards_intact() const;

 private:
  struct Bound {
    Kernel kernel;
    size_t node = 0;
    bool constant = false;
  };
  /// One way to run the graph: memory, and kernels bound to it.
  struct Layout {
    std::unique_ptr<ForwardArithmetic> arithmetic;  // its values are what kernels point to
    Plan plan;
    AlignedBuffer arena;
    std::vector<Bound> forward;
    std::vector<Bound> backward;
  };
  /// In which mode and with which switches constant nodes were computed.
  struct Constants {
    bool valid = false;
    const Layout* layout = nullptr;
    Mode mode;
    std::vector<bool> enabled;  // by node

    bool hold_in(const Step& step, std::span<const NodeStatus> statuses) const;
    void keep(const Step& step, std::span<const NodeStatus> statuses);
  };
  /// What ran last. A forward that failed counts as nothing.
  enum class Ran : uint8_t { Nothing, Forward, Backward };

  size_t index_of(NodeId id) const;
  /// The type of the gradient of `root`.
  TensorType seed_type(NodeId root) const;
  size_t elements(NodeId id) const { return static_cast<size_t>(graph_[id].type.elements()); }
  /// Nothing is formatted, and so nothing allocated, while `condition` holds.
  template <class... Args>
  void check_node(NodeId id, bool condition, fmt::format_string<Args...> text,
                  Args&&... args) const {
    if (condition) return;
    fail<GraphError>("{}: {}", graph_.describe(id),
                     fmt::format(text, std::forward<Args>(args)...));
  }
  void check_dtype(NodeId id, DType dtype) const;
  std::byte* input_data(NodeId id, DType dtype);
  const std::byte* value_data(NodeId id, DType dtype) const;
  const std::byte* input_gradient_data(NodeId id, DType dtype) const;
  void clear_seeds();
  void seed_gradient(NodeId root, std::span<const std::byte> dy, DType dtype);
  void run_backward();
  void check_leaves() const;
  /// The layout that values are read from before the first step, and inputs always.
  const Layout& main() const { return *layouts_[0]; }
  const Layout& active() const { return *active_; }
  void add_layout(bool encodes);
  /// The layout for a step in `mode`, made where it is missing.
  Layout& layout_for(Mode mode);
  ForwardArithmetic::Lookup lookup(const Layout& layout);
  void run_forward();
  /// Runs the kernel of `bound`; with timing it counts as `time` of its node.
  void run(const Bound& bound, int64_t NodeTimes::*time);
  void bind(Layout& layout);
  void bind_node(Layout& layout, size_t i);
  enum class Pass : uint8_t { Forward, Backward };
  struct Operands;
  Operands operands_of(const Layout& layout, size_t i, Pass pass) const;
  EncodedOperand requantized_operand(const Layout& layout, NodeId id) const;
  EncodedOperand encoded_operand(const Layout& layout, NodeId id) const;
  ScaleSource scale_source(NodeId id) const;
  std::byte* address(const Layout& layout, const Place& place, bool gradient) const;
  std::byte* value_address(const Layout& layout, NodeId id) const;
  void report_faults();
  void paint_guards(const Layout& layout) const;

  Graph graph_;
  ParametersLink parameters_;
  TapeOptions options_;
  int64_t guard_bytes_;
  bool share_memory_;
  AlignedBuffer records_;
  std::vector<NodeStatus> statuses_;
  std::vector<std::unique_ptr<Layout>> layouts_;
  Layout* active_ = nullptr;      // what ran last
  std::vector<NodeId> encoders_;  // quantizers whose values are held as codes
  Constants constants_;
  std::vector<NodeTimes> times_;  // by node
  bool timing_ = false;
  Step step_;
  Ran ran_ = Ran::Nothing;
};

}  // namespace qtape
