// The contract between an op and the engine: what an op declares, and what its kernels receive.
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

namespace qtape {

/// Independent switches of a step.
struct Mode {
  bool train = false;     ///< dropout is active
  bool observe = false;   ///< observers write their states
  bool quantize = false;  ///< quantizers apply
  /// Batch norms normalize by the statistics of the batch and move their running ones, else
  /// they use the running ones.
  bool batch_statistics = false;
  bool operator==(const Mode&) const = default;
};

/// The usual modes; docs/architecture.md has them as a table.
namespace mode {
/// Training without quantizers.
inline constexpr Mode float_train{true, false, false, true};
/// Quantization-aware training.
inline constexpr Mode qat{true, true, true, true};
/// Calibration: observers see floats, nothing is quantized.
inline constexpr Mode observe{false, true, false, false};
/// Inference with quantizers.
inline constexpr Mode eval{false, false, true, false};
/// Inference without quantizers.
inline constexpr Mode float_eval{false, false, false, false};
}  // namespace mode

/// How a kernel touches an operand: only a State leaf may be given to a ReadWrite slot.
enum class Access : uint8_t { Read, ReadWrite };

/// Whether a slot takes the output of a quantizer to read, instead of its values, the scales in
/// use; and how many of them there may be.
enum class Scales : uint8_t {
  None,      ///< the slot reads values
  One,       ///< one scale
  OneOrEach  ///< one scale, or one for each element of operand 0
};

/// Declaration of one operand.
struct Slot {
  std::string_view name;
  bool differentiable = true;
  Access access = Access::Read;
  bool codes = false;  ///< takes integer codes and gives them a gradient, see Keep::codes
  Scales scales = Scales::None;  ///< takes a quantizer's output and reads only its scales
  /// Of a ReadWrite slot: earlier nodes may read the state too, but not in backward. They see
  /// what the step before left.
  bool after_readers = false;
};

/// Operand types in slot order.
using Inputs = std::span<const TensorType>;

/// What backward reads and which buffers an op can share. The planner frees what is not kept.
struct Keep {
  uint32_t operands = 0;  ///< bit i: backward reads the value of operand i < 32
  /// Bit i: where operand i is held as codes, backward takes these instead of its value, see
  /// Binding::encoded.
  uint32_t encoded = 0;
  /// Bit i: the value of operand i is read for the gradients of other operands alone.
  uint32_t for_others = 0;
  bool output = false;             ///< backward reads the output
  bool forward_in_place = false;   ///< the output may overwrite operand 0
  bool backward_in_place = false;  ///< the gradient of operand 0 may overwrite dy
  bool view = false;               ///< the output is operand 0, bit for bit
  /// The output is integer codes whose gradient is f32. It comes through slots with
  /// Slot::codes only; to all others integers are constant.
  bool codes = false;

  /// Whether backward reads the value of operand `i`.
  bool operand(size_t i) const { return i < 32 && ((operands >> i) & 1u) != 0; }
  bool reads_for_others(size_t i) const { return i < 32 && ((for_others >> i) & 1u) != 0; }
  bool takes_codes(size_t i) const { return i < 32 && ((encoded >> i) & 1u) != 0; }
};

/// The type of an output's gradient: the output's own, and f32 for codes. Where it is no float
/// there is no gradient.
inline TensorType gradient_type(const TensorType& output, const Keep& keep) {
  return keep.codes ? TensorType{DType::F32, output.shape} : output;
}

/// Bytes that an op needs beside its operands and its output.
struct Footprint {
  int64_t saved = 0;           ///< written by forward, read by backward
  int64_t scratch = 0;         ///< free for use within one kernel
  int64_t thread_scratch = 0;  ///< the same in backward, for each thread, after the others
  int64_t record = 0;          ///< stays until the next forward, for tools to read
};

/// What can go wrong inside a kernel. A kernel never throws: it records the first fault of the
/// step, and the tape throws after the pass.
struct Fault {
  const char* text = nullptr;  ///< fmt text with {index} and {value}, or nullptr
  int64_t index = 0;
  double value = 0;
};

/// The text with its numbers; empty where there is no fault.
std::string to_string(const Fault& fault);

/// What a quantizer writes beside its record.
enum class QuantizerOutput : uint8_t {
  Values,  ///< values, and codes where there is a place for them
  Codes,   ///< codes alone
  Nothing
};

/// Run-time record of one node: the user's switches and what its kernels report.
struct NodeStatus {
  bool enabled = true;  ///< quantizers: apply in modes that quantize
  /// Quantizers: observe in modes that observe. Batch norms: take the statistics of the batch
  /// in modes that do.
  bool observing = true;
  /// The last forward changed values: quantized, dropped. Batch norms: by the statistics of the
  /// batch.
  bool applied = false;
  QuantizerOutput output = QuantizerOutput::Values;  ///< set by exact arithmetic
  bool nan = false;        ///< quantizers with a place for codes: a NaN among x has no code
  int64_t non_finite = 0;  ///< NaN and infinite elements that observers skipped so far
  Fault fault;
};

/// The scales of a quantizer's last forward, for a slot that reads them.
struct ScaleSource {
  const std::byte* record = nullptr;   ///< the quantizer's record; begins with its scales
  int64_t channels = 0;                ///< how many there are
  DType dtype = DType::F32;            ///< of the scales, f32 or f64
  const NodeStatus* status = nullptr;  ///< the scales are in use where it has `applied`

  template <class T>
  const T* scales() const {
    return reinterpret_cast<const T*>(record);
  }
};

/// An f32 operand that is held as 8-bit codes of a quantizer: its elements are (code - zero
/// point) scale, bit for bit.
struct EncodedOperand {
  const std::byte* codes = nullptr;    ///< null: they are gone, or it is held as values
  const float* unquantized = nullptr;  ///< where codes are gone: what gives them again
  Grid grid;
  DType dtype = DType::U8;
  ScaleSource source;
  ChannelMap channels;  ///< from elements to scales

  bool is_encoded() const { return codes != nullptr || unquantized != nullptr; }
};

/// What differs from step to step.
struct Step {
  Mode mode;
  uint64_t seed = 0;  ///< seed of the tape
  /// Training steps so far: the counter of random ops. Forward's: it has moved on in backward.
  uint64_t number = 0;
  /// Training steps in which running averages weigh all steps evenly instead of decaying.
  uint64_t warm_up = 0;
};

/// What an op's `forward` and `backward` return: runs one step, without allocating or throwing.
using Kernel = std::function<void(const Step&)>;

/// Where a gradient, of type gradient_type, goes. `data` is null when nobody wants it.
struct Gradient {
  std::byte* data = nullptr;
  bool accumulate = false;  ///< add to what is there instead of overwriting it
};

/// Memory and context that an op's kernels are bound to. All buffers are 64-byte aligned.
struct Binding {
  Inputs inputs;      ///< operand types
  TensorType output;  ///< output type
  /// Operand values; in backward only the kept ones, and never those of slots with scales.
  std::span<std::byte* const> operands;
  std::span<const ScaleSource> sources;  ///< by operand: what slots with scales read
  /// By operand, in backward: the operands of Keep::encoded. May be empty.
  std::span<const EncodedOperand> encoded = {};
  std::byte* result = nullptr;          ///< output value; in backward only when kept
  std::byte* dy = nullptr;              ///< backward: gradient of the output, gradient_type
  std::span<const Gradient> gradients;  ///< backward: where each operand's gradient goes
  std::byte* saved = nullptr;           ///< Footprint::saved bytes
  /// Footprint::scratch bytes; in backward, from the next multiple of 64 bytes on,
  /// Footprint::thread_scratch bytes for each thread, and never less than what the op says as
  /// Bf16Gradients where that applies.
  std::byte* scratch = nullptr;
  std::byte* record = nullptr;  ///< Footprint::record bytes
  /// Quantizers of f32: where codes go, or null; see code_dtype. Where `result` is null, too,
  /// codes are all that is written.
  std::byte* codes = nullptr;
  /// Quantizers that take gates: no gradient passes where x <= 0, for an op before it that is a
  /// Gate and has no backward of its own.
  bool gated = false;
  /// For ops that are Bf16Gradients, in backward.
  GradientPrecision gradient_precision = GradientPrecision::F32;
  NodeStatus* status = nullptr;
  uint64_t stream = 0;  ///< distinguishes the random numbers of nodes
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
  bool wanted(int i) const { return gradients[static_cast<size_t>(i)].data != nullptr; }
  bool accumulate(int i) const { return gradients[static_cast<size_t>(i)].accumulate; }
  /// Operand i where it is held as codes and backward takes these, else null.
  const EncodedOperand* encoded_operand(int i) const {
    const auto at = static_cast<size_t>(i);
    return at < encoded.size() && encoded[at].is_encoded() ? &encoded[at] : nullptr;
  }
};

/// What an op says of the sign of its values, `static constexpr Sign sign`.
enum class Sign : uint8_t {
  Any,           ///< where it says nothing
  Kept,          ///< none is below 0 where none of the operands is
  NeverNegative  ///< none is below 0
};
/// That of an op.
template <class X>
constexpr Sign sign_of() {
  if constexpr (requires { X::sign; }) {
    return X::sign;
  } else {
    return Sign::Any;
  }
}

/// An op of one operand whose gradient is dy where y > 0, else 0, and of nothing else:
/// `static constexpr bool gate = true`.
template <class X>
concept Gate = X::gate;

/// A quantizer that can leave out gradients for a Gate before it: `takes_gate()` says whether.
template <class X>
concept TakesGate = requires(const X& op) {
  { op.takes_gate() } -> std::same_as<bool>;
};

/// Operands that kernels take as codes have the dtype of codes in Binding::inputs and in what
/// footprint and bf16_scratch are asked with: those of OnCodes, and in backward those of
/// Keep::encoded.
///
/// An op whose kernels may be bound to codes of operand 0 instead of values, to give codes of
/// the same quantizer: `on_codes()` says whether. Binding::output has the dtype of codes then,
/// and gradients are f32.
template <class X>
concept OnCodes = requires(const X& op) {
  { op.on_codes() } -> std::same_as<bool>;
};

/// An op whose backward multiplies operands rounded to bf16 on request. `bf16_scratch` gives
/// the bytes of scratch that it needs for that.
template <class X>
concept Bf16Gradients = requires(const X& op, Inputs inputs) {
  { op.bf16_scratch(inputs) } -> std::same_as<int64_t>;
};

/// What the bits of an op's results never depend on, given equal operands, attributes and seed.
/// The default is the promise of every op that does not state another as `guarantee`.
struct Guarantee {
  bool runs = true;              ///< the same bits from run to run
  bool threads = true;           ///< the same bits at any number of threads
  bool instruction_sets = true;  ///< the same bits on any processor
  bool operator==(const Guarantee&) const = default;
};
/// What the op X guarantees.
template <class X>
constexpr Guarantee guarantee_of() {
  if constexpr (requires { X::guarantee; }) return X::guarantee;
  return {};
}

/// The contract. `infer` is the only place that validates attributes, shapes and dtypes; it
/// throws GraphError with what is wrong, and the graph adds where. Where an attribute gives the
/// number of operands, `slots` refuses it in the same way.
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

/// Throws unless `type` is f32 or f64.
inline void check_compute(const TensorType& type) {
  check(is_compute(type.dtype), "expected f32 or f64, got {}", to_string_view(type.dtype));
}

/// Throws unless both operands have one dtype, f32 or f64.
inline void check_same_compute(const TensorType& a, const TensorType& b) {
  check_compute(a);
  check(a.dtype == b.dtype, "dtypes differ: {} and {}", to_string_view(a.dtype),
        to_string_view(b.dtype));
}

}  // namespace qtape
