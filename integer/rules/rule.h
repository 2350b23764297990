// Contract of IntegerRule, which defines the integer form of an op.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/integer/ops/integer_ops.h"
#include "qtape/integer/rules/integer_form.h"

namespace qtape {

/// An op that maps each element by itself.
template <class X>
concept Pointwise = requires(const X& op, float x) {
  { op.value(x) } -> std::same_as<float>;
};

/// An op that maps two elements at the same position.
template <class X>
concept PointwisePair = requires(float x) {
  { X::value(x, x) } -> std::same_as<float>;
};

/// A pointwise op that only limits its operand.
template <class X>
concept Limiting = Pointwise<X> && requires(const X& op) {
  { op.limits() } -> std::same_as<ValueLimits>;
};

/// Integer form that a rule gives to a node.
struct Verdict {
  enum class Is : uint8_t {
    Float,         ///< no integers
    Codes,         ///< codes of its own, on the grid of operand 0
    Accumulators,  ///< accumulators of its own
    Pending,       ///< integers once a quantizer gives them a grid
    Indices,       ///< s32 indices, which have no grid
    Operand        ///< the integers of operand 0, with the value limited
  };
  Is is = Is::Float;
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  std::string reason = {};  ///< why there are no integers; empty if that is not a fault
  std::string remedy = {};  ///< how to avoid the refusal
  NodeId unquantized = {};  ///< the node whose output needs a quantizer, if that is the only
                            ///< remedy
  NodeId codes = {};        ///< Pending: see IntegerForm::codes
};

inline Verdict refusal(std::string reason, std::string remedy, NodeId unquantized = {}) {
  return {.reason = std::move(reason), .remedy = std::move(remedy), .unquantized = unquantized};
}

/// The operands of a node, as seen by a rule.
class Operands {
 public:
  Operands(const Graph& graph, const std::vector<IntegerForm>& forms,
           const std::vector<bool>& constant, NodeId id)
      : graph_(graph), forms_(forms), constant_(constant), id_(id) {}

  size_t size() const { return graph_[id_].operands.size(); }
  NodeId id(size_t k) const { return graph_[id_].operands[k]; }
  const IntegerForm& form(size_t k) const { return form_of(id(k)); }
  const IntegerForm& form_of(NodeId id) const { return forms_[at(id)]; }
  /// True if the operand depends on no input.
  bool constant(size_t k) const { return is_constant(id(k)); }
  bool is_constant(NodeId id) const { return constant_[at(id)]; }
  /// True if a PRelu with several slopes is among the nodes from the codes to operand k.
  bool maps_by_channel(size_t k) const;
  const Shape& shape(size_t k) const { return graph_[id(k)].type.shape; }
  const TensorType& result() const { return graph_[id_].type; }
  const Graph& graph() const { return graph_; }

  /// True if operand k is codes of one scale without limits, of a constant also.
  bool has_codes(size_t k) const;
  /// Returns the refusal of operand k, which lacks such codes.
  Verdict refuse_codes(size_t k) const;
  /// Returns Pending if each operand has integers that can be brought to a grid that follows.
  Verdict classify_joined() const;

  /// Returns the refusal of operand k, which has no codes although codes are needed.
  Verdict refuse(size_t k) const {
    const std::string text = graph_.describe(id(k));
    if (constant(k)) {
      return refusal(
          fmt::format("{} depends on no input, as this operand must", text),
          "replace it with an op that has an integer form, or end the model before it");
    }
    if (form(k).kind == IntegerKind::Indices) {
      return refusal(fmt::format("{} is an index, which has no grid", text),
                     "use it as an output, or look up an Embedding");
    }
    if (form(k).kind == IntegerKind::Codes) {
      return refusal(fmt::format("{} limits codes but has no grid of its own", text),
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

/// Position of weights in their operand.
struct WeightLayout {
  int64_t outputs = 0;  ///< n
  int64_t terms = 0;    ///< k, of each output
  int axis = 0;         ///< axis of the outputs
  bool rows = true;     ///< true if the weights of an output are consecutive: [n, k]; otherwise
                        ///< [k, n]

  int64_t at(int64_t output, int64_t term) const {
    return rows ? output * terms + term : term * outputs + output;
  }
};

/// Numbers from which a rule builds an integer op, in addition to the op's attributes.
struct Numbers {
  CodeGrid grid = {};             ///< of the codes that the op writes
  QuantizedWeights weights = {};  ///< of ops that multiply by constants
  Shape weights_shape = {};       ///< shape of the weights operand in the graph
  Tensor table = {};              ///< of functions of one code
  Shape x = {};                   ///< of operand 0, for Codes and Accumulators
};

// clang-format off
/// The integer rule of op X. A specialization defines `classify`, and `emit` where stated:
///
///   static Verdict classify(const X&, const Operands&);
///   static IntegerOp emit(const X&, const Numbers&);     for Codes, Accumulators, Pending and
///                                                        Indices of an op
///
/// It also defines each of the following that applies:
///
///   static constexpr bool view = true;         the integers of operand 0 under another shape
///   static constexpr bool keeps_codes = true;  selects codes of operand 0, on its grid
///   static bool rounds(const X&);              Codes: true if it rounds values to the grid
///   static constexpr bool joins = true;        Pending: each operand is brought to the grid
///   static constexpr size_t weights = 1;       index of the weights operand, laid out as
///   static WeightLayout layout(const X&, const Shape&);
///   static constexpr bool adds_bias = true;    adds operand 1 to the accumulators of a product
///   static integer::NormNumbers norm(const X&);  normalizes; operand 1 is gamma, 2 beta
///   static constexpr size_t indices = 1;       index of the operand that holds indices of rows
///                                              of operand 0
// clang-format on
template <class X>
struct IntegerRule {
  static Verdict classify(const X&, const Operands&) {
    return refusal(
        "has no integer form",
        "replace it with an op that has an integer form, or end the model before it");
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
concept AddsBias = IntegerRule<X>::adds_bias;
template <class X>
concept Normalizes = requires(const X& op) {
  IntegerRule<X>::norm(op);
};
template <class X>
concept LooksUp = requires {
  IntegerRule<X>::indices;
};
template <class X>
concept Emits = requires(const X& op, const Numbers& numbers) {
  IntegerRule<X>::emit(op, numbers);
};

}  // namespace qtape
