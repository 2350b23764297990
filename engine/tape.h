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
#include "qtape/engine/quantization_schedule.h"

namespace qtape {

/// Values that a tape keeps and computes, and settings of the computation.
struct TapeOptions {
  /// Values that remain readable after a step; empty: the outputs of the graph.
  std::vector<NodeId> outputs = {};
  /// Nodes from which gradients start, usually the loss; empty: the tape has no backward.
  std::vector<NodeId> roots = {};
  /// Inputs of f32, f64, f16 or bf16 whose gradients backward computes, see
  /// Tape::input_gradient.
  std::vector<NodeId> input_gradients = {};
  /// Number of threads, at least 1. Results do not depend on it.
  int threads = default_threads();
  /// Seed of dropout.
  uint64_t seed = 0;
  /// Gradients of parameters accumulate over steps until Parameters::zero_gradients. Those of
  /// inputs do not.
  bool accumulate_gradients = false;
  /// Parameters and states do not change between forward passes, until
  /// Tape::parameters_changed. Passes that neither train nor observe then compute values that
  /// depend on nothing else, such as quantized weights, only once. For tapes without roots.
  bool constant_parameters = false;
  /// Arithmetic of forward between quantized operands: `products_of_codes()` or
  /// `exact(Requantization::SingleRounding)`; empty: floats.
  Arithmetic arithmetic = {};
  /// Precision of the products in gradients. BF16 requires a processor with bf16 products.
  GradientPrecision gradient_precision = GradientPrecision::F32;
  /// Steps at which training quantizes and observes.
  QuantizationSchedule schedule = {};
  /// Division of the batch. The graph contains the samples of this process's shards. If the
  /// batch has more than one shard, sums over samples add those of shards in a binary tree, and
  /// parameters, gradients and unbatched values are equal on all ranks.
  Shards shards = {};
};

struct BatchSlices;
struct EncodedOperand;
struct ExactValue;
struct ForwardLookup;
struct Place;
struct Plan;
struct PlanHooks;

/// Time in nanoseconds of the kernels of one node.
struct NodeTimes {
  int64_t forward = 0;
  int64_t backward = 0;
};

/// A graph bound to memory. Everything that can fail or allocate happens in the constructor,
/// and steps allocate nothing, apart from small allocations in oneDNN. One exception: if the
/// arithmetic holds values as codes, the first step in which not all quantizers apply allocates
/// memory for floats.
///
/// Several tapes can share one Parameters, which must outlive them and may be moved. Not for
/// concurrent use by two threads. Movable, not copyable.
class Tape {
 public:
  /// Plans and binds `graph`. Throws GraphError for leaves that `parameters` lacks or
  /// holds with another type, for moved-from `parameters`, and for nodes that `slice_batch`
  /// refuses; PlanError as `plan` does; and ArgumentError for fewer than one thread, an invalid
  /// schedule, constant_parameters with roots, a batch that the shards do not divide, and a
  /// gradient precision that the processor does not support.
  Tape(Graph graph, Parameters& parameters, TapeOptions options);
  /// A tape that only reads `parameters`: forward throws ArgumentError for modes that observe
  /// or normalize by the statistics of a batch. Throws like the constructor above, and
  /// ArgumentError for roots.
  Tape(Graph graph, const Parameters& parameters, TapeOptions options);
  /// Variant with hooks for memory tests, see engine/plan_hooks.h.
  Tape(Graph graph, Parameters& parameters, TapeOptions options, const PlanHooks& hooks);

  Tape(Tape&&) noexcept;
  Tape& operator=(Tape&&) noexcept;
  ~Tape();

  /// Memory of an input, to be filled by the caller before `forward`. Throws GraphError if `id`
  /// is not an input used by this tape or T is not its dtype.
  template <Element T>
  std::span<T> input(NodeId id) {
    return {reinterpret_cast<T*>(input_data(id, dtype_of<T>)), elements(id)};
  }
  template <Element T>
  std::span<T> input(std::string_view label) {
    return input<T>(graph().at(label));
  }

  /// Runs the graph in `mode`, as modified by the schedule. Throws GraphError if a kernel
  /// reports a fault (such as a label out of range, or a Fixed scale that was never set), on
  /// this rank or another.
  /// Parameters and gradients are then intact and the next step may follow, but observers, and
  /// learned scales that they initialise, keep what they observed in the batch. Throws
  /// GraphError, changing nothing, if the parameters no longer exist.
  void forward(Mode mode);
  /// Declares that parameters or states were written since the last forward: by an optimizer,
  /// another tape or a load. Required only for tapes with constant_parameters; others read them
  /// in every pass.
  void parameters_changed() { constants_.valid = false; }
  /// Computes all gradients from the roots, which must be scalars, with dy = 1. Requires a
  /// preceding forward. Gradients of parameters to which none flows become 0, unless they
  /// accumulate. Throws GraphError.
  void backward();
  /// Computes the gradients from one root with the upstream gradient `dy`, which has the shape
  /// of the root. T is the dtype of the root, or float if the root is integer codes.
  template <Element T>
  void backward(NodeId root, std::span<const T> dy) {
    clear_seeds();
    seed_gradient(root, std::as_bytes(dy), dtype_of<T>);
    run_backward();
  }

  /// Gradient of an input named in TapeOptions::input_gradients, in its shape: that of the last
  /// backward, until the next forward. Quantizers contribute their straight-through estimators.
  /// Throws GraphError for other nodes, if T is not the dtype of the input, and if there is no
  /// gradient yet.
  template <Element T>
  std::span<const T> input_gradient(NodeId id) const {
    return {reinterpret_cast<const T*>(input_gradient_data(id, dtype_of<T>)), elements(id)};
  }
  template <Element T>
  std::span<const T> input_gradient(std::string_view label) const {
    return input_gradient<T>(graph().at(label));
  }

  /// Value of an output, an input or a leaf. Throws GraphError for any other node, whose memory
  /// may have been reused, and if T is not its dtype.
  template <Element T>
  std::span<const T> value(NodeId id) const {
    return {reinterpret_cast<const T*>(value_data(id, dtype_of<T>)), elements(id)};
  }
  template <Element T>
  std::span<const T> value(std::string_view label) const {
    return value<T>(graph().at(label));
  }
  /// Value of a scalar f32 or f64 output, as a double.
  double scalar(NodeId id) const;

  /// Switches and reports of one node. `enabled` and `observing` may be changed between steps.
  NodeStatus& status(NodeId id) { return statuses_[index_of(id)]; }
  const NodeStatus& status(NodeId id) const { return statuses_[index_of(id)]; }
  /// Scales and zero points of a quantizer in the last forward, one per channel. Throws
  /// GraphError for other nodes, before the first forward, after a failed forward, and if the
  /// last forward did not quantize.
  std::vector<QParams<double>> qparams(NodeId id) const;
  /// Integers of a node in the last forward of a tape with exact arithmetic; null for nodes
  /// without integers, for other arithmetic, and without ExactOptions::keep.
  const ExactValue* integers(NodeId id) const;
  /// Number of NaN and infinite elements skipped so far by all observers of this tape.
  int64_t non_finite() const;

  /// Number of forward passes so far in modes that train: the counter of random ops. Restored
  /// on resume.
  int64_t step() const { return static_cast<int64_t>(step_.number); }
  void set_step(int64_t step);

  /// Starts to accumulate the times of nodes, from 0, or stops. Timing costs 50 ns per kernel.
  void set_timing(bool on);
  /// By node: times accumulated since timing was started; empty if it was never started.
  std::span<const NodeTimes> times() const { return times_; }

  const Graph& graph() const;
  /// Plan of the memory of the main layout.
  const Plan& memory() const;
  /// The parameters of this tape at their current location. Throws GraphError if they no longer
  /// exist.
  Parameters& parameters() const { return parameters_.get("tape"); }
  int threads() const { return options_.threads; }
  /// True if every guard of PlanHooks::guard_bytes still holds its pattern. Buffers that share
  /// memory overwrite guards, so PlanHooks::share_memory must be false.
  bool guards_intact() const;

 private:
  struct Bound;
  struct Layout;
  class RankFaults;

  Tape(Graph graph, const ParametersLink& parameters, TapeOptions options,
       const PlanHooks& hooks);
  /// Mode and switches with which constant nodes were computed.
  struct Constants {
    bool valid = false;
    const Layout* layout = nullptr;
    Mode mode;
    std::vector<bool> enabled;  // by node

    bool hold_in(const Step& step, std::span<const NodeStatus> statuses) const;
    void keep(const Step& step, std::span<const NodeStatus> statuses);
  };
  /// Pass that ran last. A failed forward counts as Nothing.
  enum class Ran : uint8_t { Nothing, Forward, Backward };

  size_t index_of(NodeId id) const;
  /// Type of the gradient of `root`.
  TensorType seed_type(NodeId root) const;
  size_t elements(NodeId id) const { return static_cast<size_t>(graph()[id].type.elements()); }
  /// Formats, and thus allocates, nothing if `condition` holds.
  template <class... Args>
  void check_node(NodeId id, bool condition, fmt::format_string<Args...> text,
                  Args&&... args) const {
    if (condition) return;
    fail<GraphError>("{}: {}", graph().describe(id),
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
  void find_unreached();
  /// Layout from which values are read before the first step, and inputs always.
  const Layout& main() const { return *layouts_[0]; }
  const Layout& active() const { return *active_; }
  void add_layout(bool encodes);
  /// Layout for a step in `mode`, created if it does not exist.
  Layout& layout_for(Mode mode);
  ForwardLookup lookup(const Layout& layout);
  void run_forward();
  /// Runs the kernel of `bound`; with timing, adds its time to `time` of its node.
  void run(const Bound& bound, int64_t NodeTimes::*time);
  void bind(Layout& layout);
  void bind_node(Layout& layout, size_t i);
  enum class Pass : uint8_t { Forward, Backward };
  struct Operands;
  class NodeBinder;
  class ShardBinder;
  Operands operands_of(const Layout& layout, size_t i, Pass pass) const;
  EncodedOperand requantized_operand(const Layout& layout, NodeId id) const;
  EncodedOperand encoded_operand(const Layout& layout, NodeId id) const;
  ScaleSource scale_source(NodeId id) const;
  std::byte* address(const Layout& layout, const Place& place, bool gradient) const;
  std::byte* value_address(const Layout& layout, NodeId id) const;
  void report_faults();
  /// Throws the error of the fault of any rank. `node` has the fault `own`.
  void report_faults_of_ranks(const Fault& own, size_t node);
  void paint_guards(const Layout& layout) const;

  std::shared_ptr<const Graph> graph_;  // null if moved from; arithmetics refer to it
  ParametersLink parameters_;
  TapeOptions options_;
  std::shared_ptr<const BatchSlices> slices_;
  std::unique_ptr<RankFaults> rank_faults_;  // null for a single rank
  int64_t guard_bytes_;
  bool share_memory_;
  bool reads_only_ = false;  // parameters and states
  AlignedBuffer records_;
  std::vector<NodeStatus> statuses_;
  Arithmetic::Maker arithmetic_;
  std::vector<std::unique_ptr<Layout>> layouts_;
  Layout* active_ = nullptr;      // layout that ran last
  std::vector<NodeId> encoders_;  // quantizers whose values are held as codes
  /// Entries of the parameters to which no gradient of this tape flows.
  std::vector<size_t> unreached_;
  Constants constants_;
  std::vector<NodeTimes> times_;  // by node
  bool timing_ = false;
  Step step_;
  Ran ran_ = Ran::Nothing;
};

}  // namespace qtape
