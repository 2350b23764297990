// What an op is in integers, said once: the contract of IntegerRule.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/integer/integer_form.h"
#include "qtape/integer/integer_ops.h"

namespace qtape {

/// An op that maps each element by itself.
template <class X>
concept Pointwise = requires(const X& op, float x) {
  { op.value(x) } -> std::same_as<float>;
};

/// One that limits it, and does nothing else.
template <class X>
concept Limiting = Pointwise<X> && requires(const X& op) {
  { op.limits() } -> std::same_as<ValueLimits>;
};

/// What a rule says of a node.
struct Verdict {
  enum class Is : uint8_t {
    Float,         ///< no integers
    Codes,         ///< codes of its own, on the grid of operand 0
    Accumulators,  ///< accumulators of its own
    Pending,       ///< integers once a quantizer gives them a grid
    Operand        ///< the integers of operand 0, the value being limited
  };
  Is is = Is::Float;
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  std::string reason = {};  ///< why there are no integers; empty where that is no fault
  std::string remedy = {};  ///< what to do about it
  NodeId unquantized = {};  ///< the node whose output a quantizer has to follow, if that is all
};

inline Verdict refusal(std::string reason, std::string remedy, NodeId unquantized = {}) {
  return {.reason = std::move(reason), .remedy = std::move(remedy), .unquantized = unquantized};
}

/// The operands of a node, as a rule asks for them.
class Operands {
 public:
  Operands(const Graph& graph, const std::vector<IntegerForm>& forms,
           const std::vector<bool>& constant, NodeId id)
      : graph_(graph), forms_(forms), constant_(constant), id_(id) {}

  size_t size() const { return graph_[id_].operands.size(); }
  NodeId id(size_t k) const { return graph_[id_].operands[k]; }
  const IntegerForm& form(size_t k) const { return form_of(id(k)); }
  const IntegerForm& form_of(NodeId id) const { return forms_[static_cast<size_t>(id.index)]; }
  /// Whether it depends on no input.
  bool constant(size_t k) const { return is_constant(id(k)); }
  bool is_constant(NodeId id) const { return constant_[static_cast<size_t>(id.index)]; }
  const Shape& shape(size_t k) const { return graph_[id(k)].type.shape; }
  const TensorType& result() const { return graph_[id_].type; }
  const Graph& graph() const { return graph_; }

  /// Whether node `id` is a function of one code.
  bool maps(NodeId id) const;

  /// Operand k is no codes where codes are needed.
  Verdict refuse(size_t k) const {
    const std::string text = graph_.describe(id(k));
    if (constant(k)) {
      return refusal(
          fmt::format("{} depends on no input; only products and AddBias take what does not",
                      text),
          "replace it by what has integers, or take an output before it");
    }
    if (form(k).kind == IntegerKind::Codes) {
      return refusal(fmt::format("{} limits codes without a grid of its own", text),
                     "quantize its output", id(k));
    }
    return refuse_unquantized(k);
  }
  Verdict refuse_unquantized(size_t k) const {
    return refusal(fmt::format("{} is not quantized", graph_.describe(id(k))),
                   "quantize its output", id(k));
  }

 private:
  const Graph& graph_;
  const std::vector<IntegerForm>& forms_;
  const std::vector<bool>& constant_;
  NodeId id_;
};

/// Where weights lie in their operand.
struct WeightLayout {
  int64_t outputs = 0;  ///< n
  int64_t terms = 0;    ///< k, of each output
  int axis = 0;         ///< of the outputs
  bool rows = true;  ///< whether the weights of an output are consecutive: [n, k], else [k, n]

  int64_t at(int64_t output, int64_t term) const {
    return rows ? output * terms + term : term * outputs + output;
  }
};

/// What a rule makes an integer op of, beside the op's attributes.
struct Numbers {
  CodeGrid grid = {};             ///< of the codes that are written
  QuantizedWeights weights = {};  ///< of ops that multiply by constants
  Shape weights_shape = {};       ///< of the operand that these are in the graph
  Tensor table = {};              ///< of functions of one code
  Shape x = {};                   ///< of operand 0, for Codes and Accumulators
};

// clang-format off
/// The rule of op X. A specialisation says `classify` and what follows from it:
///
///   static Verdict classify(const X&, const Operands&);
///   static IntegerOp emit(const X&, const Numbers&);     of Codes, Accumulators, Pending
///
/// and, where it holds,
///
///   static constexpr bool view = true;         the integers of operand 0 under another shape
///   static constexpr bool keeps_codes = true;  some codes of operand 0, on its grid
///   static bool rounds(const X&);              Codes: whether other values are rounded to it
///   static constexpr bool joins = true;        Pending: each operand gets the grid first
///   static constexpr size_t weights = 1;       the operand that is constant weights, laid out as
///   static WeightLayout layout(const X&, const Shape&);
///   static constexpr bool maps = true;         Pending: a function of the codes of operand 0
///   static constexpr bool adds_bias = true;    adds operand 1 to the accumulators of a product
// clang-format on
template <class X>
struct IntegerRule {
  static Verdict classify(const X&, const Operands&) {
    return refusal("has no integer form",
                   "replace it by what has integers, or take an output before it");
  }
};

template <class X>
concept IsView = IntegerRule<X>::view;
template <class X>
concept KeepsCodes = IntegerRule<X>::keeps_codes;
template <class X>
concept Rounds = requires(const X& op) {
  IntegerRule<X>::rounds(op);
};
template <class X>
concept Joins = IntegerRule<X>::joins;
template <class X>
concept Multiplies = requires {
  IntegerRule<X>::weights;
};
template <class X>
concept Maps = IntegerRule<X>::maps;
template <class X>
concept AddsBias = IntegerRule<X>::adds_bias;
template <class X>
concept Emits = requires(const X& op, const Numbers& numbers) {
  IntegerRule<X>::emit(op, numbers);
};

}  // namespace qtape
