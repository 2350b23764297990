// The contract between an op and the engine: the op's declarations and the inputs of its
// kernels.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/core/fields.h"
#include "qtape/core/gradient_precision.h"
#include "qtape/core/granularity.h"
#include "qtape/core/grid.h"
#include "qtape/core/types.h"
#include "qtape/ops/core/op_docs.h"
#include "qtape/ops/core/shards.h"

namespace qtape {

/// Independent switches of a step.
struct Mode {
  bool train = false;     ///< dropout is active
  bool observe = false;   ///< observers write their states
  bool quantize = false;  ///< quantizers apply
  /// Batch norms normalize by the statistics of the batch and update the running statistics.
  /// Otherwise they normalize by the running statistics.
  bool batch_statistics = false;
  bool operator==(const Mode&) const = default;
};

/// The usual modes; see docs/concepts/tape-and-modes.md.
namespace mode {
/// Training without quantizers.
inline constexpr Mode float_train{true, false, false, true};
/// Quantization-aware training.
inline constexpr Mode qat{true, true, true, true};
/// Calibration: observers see float values and nothing is quantized.
inline constexpr Mode observe{false, true, false, false};
/// Inference with quantizers.
inline constexpr Mode eval{false, false, true, false};
/// Inference without quantizers.
inline constexpr Mode float_eval{false, false, false, false};
}  // namespace mode

/// Access of a kernel to an operand. A ReadWrite slot accepts only State leaves.
enum class Access : uint8_t { Read, ReadWrite };

/// Number of scales that a slot reads. Such a slot takes the output of a quantizer and reads
/// the scales in use instead of the values.
enum class Scales : uint8_t {
  None,      ///< the slot reads values
  One,       ///< one scale
  OneOrEach  ///< one scale, or one per element of operand 0
};

/// Declaration of one operand.
struct Slot {
  std::string_view name;
  bool differentiable = true;
  Access access = Access::Read;
  bool codes = false;  ///< accepts integer codes and passes a gradient to them, see Keep::codes
  Scales scales = Scales::None;  ///< reads the scales of a quantizer instead of values
  /// ReadWrite slot: earlier nodes may read the state in forward (but not in backward) and see
  /// the value that the previous step left.
  bool after_readers = false;
};

/// Operand types in slot order.
using Inputs = std::span<const TensorType>;

/// Values that backward reads, and buffers that an op can share. The planner frees all others.
struct Keep {
  uint32_t operands = 0;  ///< bit i: backward reads the value of operand i < 32
  /// Bit i: if operand i is held as codes, backward reads the codes instead of its value, see
  /// Binding::encoded.
  uint32_t encoded = 0;
  /// Bit i: the value of operand i is needed only for the gradients of other operands.
  uint32_t for_others = 0;
  bool output = false;             ///< backward reads the output
  bool forward_in_place = false;   ///< the output may overwrite operand 0
  bool backward_in_place = false;  ///< the gradient of operand 0 may overwrite dy
  bool view = false;               ///< the output is operand 0, bit for bit
  /// The output is integer codes whose gradient is f32. The gradient arrives only through slots
  /// with Slot::codes; all other slots treat integers as constants.
  bool codes = false;

  /// True if backward reads the value of operand `i`.
  bool operand(size_t i) const { return i < 32 && ((operands >> i) & 1u) != 0; }
  bool reads_for_others(size_t i) const { return i < 32 && ((for_others >> i) & 1u) != 0; }
  bool takes_codes(size_t i) const { return i < 32 && ((encoded >> i) & 1u) != 0; }
};

/// Type of the gradient of an output: that of the output, or f32 for codes. If it is not a
/// float type, there is no gradient.
inline TensorType gradient_type(const TensorType& output, const Keep& keep) {
  return keep.codes ? TensorType{DType::F32, output.shape} : output;
}

/// Bytes of memory that an op needs besides its operands and its output.
struct Footprint {
  int64_t saved = 0;           ///< written by forward, read by backward
  int64_t scratch = 0;         ///< available within one kernel
  int64_t thread_scratch = 0;  ///< backward: additional scratch per thread, after `scratch`
  int64_t record = 0;          ///< kept until the next forward, for tools to read
};

/// A run-time error inside a kernel. Kernels never throw: they record the first fault of the
/// step, and the tape throws after the pass.
struct Fault {
  const char* text = nullptr;  ///< fmt text with {index} and {value}, or nullptr
  int64_t index = 0;
  double value = 0;
};

/// Formats the fault with its numbers; empty if there is no fault.
std::string to_string(const Fault& fault);

/// Output of a quantizer besides its record.
enum class QuantizerOutput : uint8_t {
  Values,  ///< values, and codes if a buffer for them is bound
  Codes,   ///< only codes
  Nothing
};

/// Run-time status of one node: switches set by the user, and results reported by its kernels.
struct NodeStatus {
  bool enabled = true;  ///< quantizers: quantize in modes that quantize
  /// Quantizers: observe in modes that observe. Batch norms: use batch statistics in modes that
  /// do.
  bool observing = true;
  /// True if the last forward changed the values (quantized or dropped). Batch norms: if it
  /// used batch statistics.
  bool applied = false;
  QuantizerOutput output = QuantizerOutput::Values;  ///< set by exact arithmetic
  bool nan = false;        ///< quantizers that write codes: x contains a NaN, which has no code
  int64_t non_finite = 0;  ///< NaN and infinite elements skipped by observers so far
  Fault fault;
};

/// Scales of the last forward of a quantizer, for a slot that reads them.
struct ScaleSource {
  const std::byte* record = nullptr;  ///< record of the quantizer, which starts with its scales
  int64_t channels = 0;               ///< number of scales
  DType dtype = DType::F32;           ///< dtype of the scales, f32 or f64
  const NodeStatus* status = nullptr;  ///< the scales are in use if `applied` is set

  template <class T>
  const T* scales() const {
    return reinterpret_cast<const T*>(record);
  }
};

/// An f32 operand held as 8-bit codes of a quantizer: its elements are (code - zero point)
/// scale, bit for bit.
struct EncodedOperand {
  /// Null if the codes are no longer stored, or if the operand is held as values.
  const std::byte* codes = nullptr;
  /// If the codes are no longer stored: the input from which they are recomputed.
  const float* unquantized = nullptr;
  Grid grid;
  DType dtype = DType::U8;
  ScaleSource source;
  ChannelMap channels;  ///< maps elements to scales

  bool is_encoded() const { return codes != nullptr || unquantized != nullptr; }
};

/// Values that differ between steps.
struct Step {
  Mode mode;
  uint64_t seed = 0;  ///< seed of the tape
  /// Number of training steps before this forward: the counter of random ops. Already
  /// incremented when backward runs.
  uint64_t number = 0;
  /// Training steps in which running averages weigh all steps equally instead of decaying.
  uint64_t warm_up = 0;
};

/// Result of an op's `forward` and `backward`: runs one step without allocating or throwing.
using Kernel = std::function<void(const Step&)>;

/// Destination of a gradient of type gradient_type. `data` is null if the gradient is not
/// needed.
struct Gradient {
  std::byte* data = nullptr;
  bool accumulate = false;  ///< add to the existing value instead of overwriting it
};

/// Memory and context to which an op's kernels are bound. All buffers are 64-byte aligned.
struct Binding {
  Inputs inputs;      ///< operand types
  TensorType output;  ///< output type
  /// Operand values. In backward only the kept ones, and never those of slots with scales.
  std::span<std::byte* const> operands;
  std::span<const ScaleSource> sources;  ///< by operand: scales read by slots with scales
  /// By operand, in backward: operands selected by Keep::encoded. May be empty.
  std::span<const EncodedOperand> encoded = {};
  std::byte* result = nullptr;  ///< output value; in backward only if kept
  std::byte* dy = nullptr;      ///< backward: gradient of the output, of type gradient_type
  std::span<const Gradient> gradients;  ///< backward: destination of each operand's gradient
  std::byte* saved = nullptr;           ///< Footprint::saved bytes
  /// Footprint::scratch bytes. In backward, Footprint::thread_scratch bytes per thread follow,
  /// starting at the next multiple of 64 bytes. For BF16 gradients at least `bf16_scratch`
  /// bytes.
  std::byte* scratch = nullptr;
  std::byte* record = nullptr;  ///< Footprint::record bytes
  /// Quantizers of f32: destination of the codes (see code_dtype), or null. If `result` is null
  /// too, only codes are written.
  std::byte* codes = nullptr;
  /// Quantizers with TakesGate: blocks the gradient where x <= 0, on behalf of a preceding Gate
  /// that has no backward of its own.
  bool gated = false;
  /// In backward of ops with Bf16Gradients.
  GradientPrecision gradient_precision = GradientPrecision::F32;
  NodeStatus* status = nullptr;
  /// If sums over the batch are formed by shards and the output has its samples along axis 0:
  /// the shards. The samples are those of this process or, in a kernel that runs once for each
  /// shard, those of one shard. Otherwise null.
  const Shards* shards = nullptr;
  int64_t first_sample = 0;  ///< index in the batch of the first sample, for messages
  uint64_t stream = 0;       ///< distinguishes the random numbers of different nodes
  int threads = 1;

  template <class T>
  T* operand(int i) const {
    return reinterpret_cast<T*>(operands[static_cast<size_t>(i)]);
  }
  template <class T>
  T* y() const {
    return reinterpret_cast<T*>(result);
  }
  template <class T>
  T* dy_as() const {
    return reinterpret_cast<T*>(dy);
  }
  template <class T>
  T* dx(int i) const {
    return reinterpret_cast<T*>(gradients[static_cast<size_t>(i)].data);
  }
  /// The shards, or a single one.
  Shards division() const { return shards == nullptr ? Shards{} : *shards; }
  bool wanted(int i) const { return gradients[static_cast<size_t>(i)].data != nullptr; }
  bool accumulate(int i) const { return gradients[static_cast<size_t>(i)].accumulate; }
  /// Operand i if backward reads it as codes, else null.
  const EncodedOperand* encoded_operand(int i) const {
    const auto at = static_cast<size_t>(i);
    return at < encoded.size() && encoded[at].is_encoded() ? &encoded[at] : nullptr;
  }
};

/// Sign of the values of an op, declared as `static constexpr Sign sign`.
enum class Sign : uint8_t {
  Any,           ///< no declaration
  Kept,          ///< non-negative if all operands are
  NeverNegative  ///< always non-negative
};
/// Sign declared by an op.
template <class X>
constexpr Sign sign_of() {
  if constexpr (requires { X::sign; }) {
    return X::sign;
  } else {
    return Sign::Any;
  }
}

/// An op with one operand whose gradient is dy where y > 0 and 0 elsewhere, and which depends
/// on nothing else. Declared as `static constexpr bool gate = true`.
template <class X>
concept Gate = X::gate;

/// A quantizer that can mask gradients for a preceding Gate if `takes_gate()` is true.
template <class X>
concept TakesGate = requires(const X& op) {
  { op.takes_gate() } -> std::same_as<bool>;
};

/// Operands that kernels read as codes have the dtype of the codes in Binding::inputs and in
/// the arguments of footprint and bf16_scratch: those of OnCodes ops, and in backward those
/// selected by Keep::encoded.
///
/// An op whose kernels can compute on codes of operand 0 instead of values, and then produce
/// codes of the same quantizer, if `on_codes()` is true. Binding::output then has the dtype of
/// the codes, and gradients are f32.
template <class X>
concept OnCodes = requires(const X& op) {
  { op.on_codes() } -> std::same_as<bool>;
};

/// An op whose backward can multiply operands rounded to bf16. `bf16_scratch` returns the bytes
/// of scratch required for that.
template <class X>
concept Bf16Gradients = requires(const X& op, Inputs inputs) {
  { op.bf16_scratch(inputs) } -> std::same_as<int64_t>;
};

/// Value of an op over a batch, formed from its values for the shards.
enum class BatchReduction : uint8_t {
  None,  ///< undefined: the op cannot be divided into shards if it reduces the batch
  Sum,
  Mean
};
/// Declared by ops as `static constexpr BatchReduction batch_reduction`.
template <class X>
constexpr BatchReduction batch_reduction_of() {
  if constexpr (requires { X::batch_reduction; }) return X::batch_reduction;
  return BatchReduction::None;
}

/// Kernels that form sums or ranges over all samples of the batch themselves, by
/// Binding::shards: they run once for all shards of the process. All other kernels may run once
/// for each shard.
enum class WholeBatch : uint8_t {
  Never,
  Forward,
  Always  ///< forward and backward; the gradients of operands are those of the whole batch
};
/// Declared by ops as `static constexpr WholeBatch whole_batch`.
template <class X>
constexpr WholeBatch whole_batch_of() {
  if constexpr (requires { X::whole_batch; }) return X::whole_batch;
  return WholeBatch::Never;
}

/// True if index i along axis 0 of the output depends on other indices along axis 0 of operands
/// with the same extent, declared by ops as `bool mixes_samples(Inputs) const`.
template <class X>
bool mixes_samples(const X& op, Inputs inputs) {
  if constexpr (requires { op.mixes_samples(inputs); }) {
    return op.mixes_samples(inputs);
  } else {
    return false;
  }
}

/// Conditions on which the bits of an op's results do not depend, given equal operands,
/// attributes and seed. The default holds for every op that does not declare a `guarantee`.
struct Guarantee {
  bool runs = true;              ///< equal bits from run to run
  bool threads = true;           ///< equal bits at any number of threads
  bool instruction_sets = true;  ///< equal bits on any processor; NaN may be any NaN
  bool operator==(const Guarantee&) const = default;
};
/// Guarantee of the op X.
template <class X>
constexpr Guarantee guarantee_of() {
  if constexpr (requires { X::guarantee; }) return X::guarantee;
  return {};
}

/// The contract. Only `infer` validates attributes, shapes and dtypes: it throws GraphError
/// with the cause, and the graph adds the place. If an attribute determines the number of
/// operands, `slots` validates it in the same way.
template <class X>
concept Compute = std::equality_comparable<X> && std::default_initializable<X> &&
    Described<X> && requires(const X& op, Inputs inputs, const Binding& binding) {
  { X::name } -> std::convertible_to<std::string_view>;
  { X::docs } -> std::same_as<const OpDocs&>;
  { op.slots() } -> std::same_as<std::vector<Slot>>;
  { op.infer(inputs) } -> std::same_as<TensorType>;
  { op.keep() } -> std::same_as<Keep>;
  { op.footprint(inputs) } -> std::same_as<Footprint>;
  { op.forward(binding) } -> std::same_as<Kernel>;
  { op.backward(binding) } -> std::same_as<Kernel>;
};

/// Throws GraphError unless `type` is f32 or f64.
inline void check_compute(const TensorType& type) {
  check(is_compute(type.dtype), "expected f32 or f64, got {}", to_string_view(type.dtype));
}

/// Throws GraphError unless both operands have the same dtype, f32 or f64.
inline void check_same_compute(const TensorType& a, const TensorType& b) {
  check_compute(a);
  check(a.dtype == b.dtype, "dtypes differ: {} and {}", to_string_view(a.dtype),
        to_string_view(b.dtype));
}

}  // namespace qtape
