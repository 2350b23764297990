// OpCase: one entry of the table of ops. All checks of tests/ops/op_cases_test.cpp and the rows
// of bench/ops.cpp are derived from it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/tests/support/op_run.h"

namespace qtape::test {

/// Contents of an operand. Numbers are rounded to the operand's dtype before use.
enum class Fill : uint8_t {
  Uniform,   ///< uniform in [low, high)
  Integers,  ///< integers in [low, high)
  Halves,    ///< multiples of 1/2 in [low, high): ties of rounding and of maxima
  Special    ///< uniform, with half of the elements NaN, infinite, zero, denormal or huge
};

struct Operand {
  Shape shape;
  double low = -1;
  double high = 1;
  Fill fill = Fill::Uniform;
  std::optional<DType> dtype = {};  ///< empty: dtype of the run
  bool scales = false;              ///< true: dtype of the scales for the run's dtype
  Values values = {};               ///< repeated values instead of random ones
  Values sources = {};              ///< for a slot with scales: the scales that it reads
};

/// Returns an operand that holds `values` in the dtype of scales.
Operand scales(const Values& values);
/// Returns an operand that holds integers in [low, high) of `dtype`.
Operand integers(DType dtype, const Shape& shape, double low, double high);

/// One use of an op.
struct OpUse {
  Op op = {};
  std::vector<Operand> operands = {};
  Mode mode = mode::qat;
};

/// A tensor of numbers, each exactly as stored in its dtype.
struct Array {
  TensorType type = {};
  Values values = {};
};
using Arrays = std::span<const Array>;

/// Returns the expected result of forward, in double; the caller rounds it once to the dtype of
/// the result. Must be written from the op's documentation alone, without code of ops/ or
/// kernels/.
using ValueOracle = std::function<Array(const OpUse& use, Arrays x)>;
/// Returns the expected results of backward for dy: a gradient for each operand, empty if it
/// has none.
using GradientOracle =
    std::function<std::vector<Values>(const OpUse& use, Arrays x, const Array& dy)>;

/// Largest error in roundings of the dtype, that is in epsilon max(1, |expected|). 0 if the op
/// guarantees exact bits.
struct Tolerance {
  double value = 0;
  /// Relative to the oracle, or without an oracle of f32 relative to f64.
  double gradient = 0;
};

/// Expected conversion of the op to integer programs.
struct IntegerVerdict {
  /// Expected error of convert for the node; empty: it converts, and all levels of arithmetic
  /// agree.
  std::string refusal = {};
  /// Adds a net with outputs around the op and returns its node.
  std::function<NodeId(Graph& graph)> net = {};
};
/// The op converts between quantizers of its operands and of its result. The operands of `use`
/// must all have the same shape, with the batch first.
IntegerVerdict converts(const OpUse& use);
IntegerVerdict converts(std::function<NodeId(Graph& graph)> net);
/// The net of `converts` is refused with `text`.
IntegerVerdict refused(std::string text, const OpUse& use);
IntegerVerdict refused(std::string text, std::function<NodeId(Graph& graph)> net);

/// Quantizers of nets with 8-bit codes: symmetric, and unsigned with a zero point.
inline const FakeQuantize ema{.scale_mode = EMA{}};
inline const FakeQuantize affine_ema{.range = CodeRange::Unsigned,
                                     .scheme = Scheme::Affine,
                                     .scale_mode = EMA{.track = Track::Range}};
/// Each op between quantizers of `ema`, of `affine_ema` and of 16 bits, and of its result; if
/// `summed`, also before a Sum, which reads its codes.
IntegerVerdict converts_on_grids(const Shape& shape, const std::vector<Op>& ops,
                                 bool summed = false);

inline const std::string no_integers =
    "has no integer form: replace it with an op that has an integer form, or end the model "
    "before it";

/// Operands that infer must refuse, with the exact message.
struct Refusal {
  Op op;
  std::vector<TensorType> operands;
  std::string text;
};

inline const std::vector<DType> computed = {DType::F64, DType::F32};
inline const std::vector<DType> floats = {DType::F64, DType::F32, DType::F16, DType::BF16};
inline const std::vector<DType> all_dtypes = {DType::F64,  DType::F32, DType::F16,
                                              DType::BF16, DType::S32, DType::S16,
                                              DType::U16,  DType::S8,  DType::U8};

struct OpCase {
  ValueOracle value = {};
  std::vector<OpUse> uses = {};
  /// Uses with exact results regardless of the tolerance.
  std::vector<OpUse> exact = {};
  /// Uses large enough for several threads, in f32.
  std::vector<OpUse> large = {};
  /// More large uses, of realistic size, for bench/ops.cpp.
  std::vector<OpUse> bench = {};
  /// Empty: only central differences are checked.
  GradientOracle gradient = {};
  /// The gradient is a straight-through estimate in modes that quantize, which cannot be
  /// checked by differences.
  bool straight_through = false;
  Tolerance tolerance = {};
  /// Dtypes of operands; infer refuses all others.
  std::vector<DType> dtypes = computed;
  std::optional<IntegerVerdict> integer = {};
  std::vector<Refusal> refusals = {};
  /// Uses with one operand that become conformance vectors: codes of 8 and 16 bits, with the
  /// integer op that the op's rule emits. Operands only give shapes.
  std::vector<OpUse> conformance = {};

  /// Returns the name of the op; empty if there is no use.
  std::string_view name() const { return uses.empty() ? "" : name_of(uses[0].op); }
};

/// Adds refusals of the same operands, each with an op and its text.
void refuse(OpCase& c, const std::vector<TensorType>& operands,
            const std::vector<std::pair<Op, std::string>>& rows);
/// Adds refusals by the same op, each with operands and their text.
void refuse(OpCase& c, const Op& op,
            const std::vector<std::pair<std::vector<TensorType>, std::string>>& rows);

/// Adds uses of ops with operands of these shapes.
template <class X>
void add_shapes(OpCase& c, const std::vector<std::pair<X, Shape>>& table, double low = 0,
                double high = 100) {
  for (const auto& [op, shape] : table) c.uses.push_back({op, {{shape, low, high}}});
}
/// The gradient of an op that keeps its only operand that has one: dy.
std::vector<Values> passes(const OpUse& use, Arrays x, const Array& dy);

/// Returns the table with one entry for every op, from the functions below.
std::vector<OpCase> op_cases();

std::vector<OpCase> pointwise_cases();
std::vector<OpCase> broadcast_cases();
std::vector<OpCase> convolution_cases();
std::vector<OpCase> structure_cases();
std::vector<OpCase> move_cases();
std::vector<OpCase> reduction_cases();
std::vector<OpCase> window_cases();
std::vector<OpCase> quantizer_cases();
std::vector<OpCase> norm_cases();
std::vector<OpCase> leaf_cases();

/// Returns the filled operands of a use in a run of `dtype`.
std::vector<Array> make_operands(const OpUse& use, DType dtype);
std::vector<TensorType> types_of(Arrays arrays);
OpRun make_run(const OpUse& use, Arrays operands, RunOptions options = {});

/// Returns the coordinates of element `index`.
std::vector<int64_t> unravel(int64_t index, const Shape& shape);
/// Returns the index of the element at the last coordinates of `at`; an extent of 1 is
/// repeated.
size_t ravel(std::span<const int64_t> at, const Shape& shape);
/// The same without broadcasting.
size_t exact_index(std::span<const int64_t> at, const Shape& shape);
/// Returns f(x) for each element, in the dtype of x.
Array mapped(const Array& x, const std::function<double(double)>& f);

/// Positions of the windows along one axis.
struct WindowAxis {
  int64_t in = 1, kernel = 1, stride = 1, dilation = 1, begin = 0, out = 1;
};
/// Returns the positions by the documentation; `begin` and `end` pad if that is not Same.
WindowAxis window_axis(int64_t in, int64_t kernel, int64_t stride, int64_t dilation,
                       Padding padding, int64_t begin, int64_t end);

TensorType f32(std::initializer_list<int64_t> extents);
TensorType f64(std::initializer_list<int64_t> extents);
TensorType s32(std::initializer_list<int64_t> extents);

}  // namespace qtape::test
