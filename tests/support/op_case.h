// OpCase: one entry of the table of ops. Every check of tests/ops/op_cases_test.cpp and the
// op's rows in bench/ops.cpp follow from it.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/tests/support/op_run.h"

namespace qtape::test {

/// How an operand is filled. Numbers are rounded to the operand's dtype before anyone sees
/// them.
enum class Fill : uint8_t {
  Uniform,   ///< uniform in [low, high)
  Integers,  ///< whole numbers in [low, high)
  Halves,    ///< multiples of 1/2 in [low, high): ties of roundings and of maxima
  Special    ///< uniform, but half of the elements NaN, infinite, zero, denormal or huge
};

struct Operand {
  Shape shape;
  double low = -1;
  double high = 1;
  Fill fill = Fill::Uniform;
  std::optional<DType> dtype = {};  ///< nothing: that of the run
  bool scales = false;              ///< of the dtype that scales for the run's dtype have
  Values values = {};               ///< these numbers instead, repeated
  Values sources = {};              ///< a slot with scales: the scales that it reads
};

/// The operand holds `values` in the dtype of scales.
Operand scales(const Values& values);
/// The operand holds whole numbers in [low, high) of `dtype`.
Operand integers(DType dtype, const Shape& shape, double low, double high);

/// One way to use an op.
struct OpUse {
  Op op = {};
  std::vector<Operand> operands = {};
  Mode mode = mode::qat;
};

/// A tensor of numbers, each exactly as its dtype holds it.
struct Array {
  TensorType type = {};
  Values values = {};
};
using Arrays = std::span<const Array>;

/// What forward must give, in double; whoever asks rounds it once to the dtype of the result.
/// Written from the op's documentation alone, with no code of ops/ or kernels/.
using ValueOracle = std::function<Array(const OpUse& use, Arrays x)>;
/// What backward must give for dy: a gradient for each operand, empty where it has none.
using GradientOracle =
    std::function<std::vector<Values>(const OpUse& use, Arrays x, const Array& dy)>;

/// Largest error in roundings of the dtype, that is in epsilon max(1, |expected|). 0 where the
/// op promises bits.
struct Tolerance {
  double value = 0;
  /// Against the oracle, or without one of f32 against f64.
  double gradient = 0;
};

/// What becomes of the op in integer programs.
struct IntegerVerdict {
  /// What convert says of the node; empty: it converts, and all levels of arithmetic agree.
  std::string refusal = {};
  /// Adds a net with outputs around the op and returns its node.
  std::function<NodeId(Graph& graph)> net = {};
};
/// The op converts between quantizers of its operands and of its result, which `use` gives: all
/// operands have one shape, with the batch in front.
IntegerVerdict converts(const OpUse& use);
IntegerVerdict converts(std::function<NodeId(Graph& graph)> net);
/// The same net is refused, with `text`.
IntegerVerdict refused(std::string text, const OpUse& use);
IntegerVerdict refused(std::string text, std::function<NodeId(Graph& graph)> net);

/// Operands that infer must refuse, word for word.
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
  /// Uses whose numbers are exact whatever the tolerance.
  std::vector<OpUse> exact = {};
  /// Uses worth several threads, in f32.
  std::vector<OpUse> large = {};
  /// More of those, of realistic size: what bench/ops.cpp runs.
  std::vector<OpUse> bench = {};
  /// Nothing: central differences decide alone.
  GradientOracle gradient = {};
  /// The gradient is a straight-through estimate, of which differences know nothing, in modes
  /// that quantize.
  bool straight_through = false;
  Tolerance tolerance = {};
  /// What operands may be; infer refuses all others.
  std::vector<DType> dtypes = computed;
  std::optional<IntegerVerdict> integer = {};
  std::vector<Refusal> refusals = {};
  /// Uses of one operand whose integers are conformance vectors: of codes of 8 and 16 bits, as
  /// the op's rule emits it. Operands give shapes alone.
  std::vector<OpUse> conformance = {};

  /// The name of the op; nothing where there is no use.
  std::string_view name() const { return uses.empty() ? "" : name_of(uses[0].op); }
};

/// The table: one entry for every op, from the functions below.
std::vector<OpCase> op_cases();

std::vector<OpCase> pointwise_cases();
std::vector<OpCase> broadcast_cases();
std::vector<OpCase> convolution_cases();
std::vector<OpCase> structure_cases();
std::vector<OpCase> reduction_cases();
std::vector<OpCase> window_cases();
std::vector<OpCase> quantizer_cases();
std::vector<OpCase> norm_cases();
std::vector<OpCase> leaf_cases();

/// The operands of a use in a run of `dtype`, filled.
std::vector<Array> make_operands(const OpUse& use, DType dtype);
std::vector<TensorType> types_of(Arrays arrays);
OpRun make_run(const OpUse& use, Arrays operands, RunOptions options = {});

/// Coordinates of the element with number `index`.
std::vector<int64_t> unravel(int64_t index, const Shape& shape);
/// The number of the element at the last coordinates of `at`; an extent of 1 is repeated.
size_t ravel(std::span<const int64_t> at, const Shape& shape);
/// f(x) for each element, in the dtype of x.
Array mapped(const Array& x, const std::function<double(double)>& f);

TensorType f32(std::initializer_list<int64_t> extents);
TensorType f64(std::initializer_list<int64_t> extents);
TensorType s32(std::initializer_list<int64_t> extents);

}  // namespace qtape::test
