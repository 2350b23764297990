#include "qtape/deploy/multipliers.h"

#include <fmt/format.h>

#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/kernels/quantize/requantize.h"

namespace qtape {

using namespace kernels;

std::string number_text(double value) {
  const auto narrow = static_cast<float>(value);
  return double{narrow} == value ? fmt::format("{}", narrow) : fmt::format("{}", value);
}

namespace {

/// Returns m 2^(exponent - bits) as `m >> shift`.
std::string shifted_text(int32_t mantissa, int32_t exponent, int32_t bits) {
  if (mantissa == 0) return "0";
  const int32_t right = bits - exponent;
  return right >= 0 ? fmt::format("{} >> {}", mantissa, right)
                    : fmt::format("{} << {}", mantissa, -right);
}

std::string text_of(const Multiplier& m, Requantization requantization,
                    Accumulator accumulator) {
  if (requantization == Requantization::FloatMultiply) return fmt::format("{}", m.ratio);
  if (requantization == Requantization::OnnxQdq) {
    return fmt::format("{} / {}", m.accumulator_scale, m.output_scale);
  }
  if (accumulator == Accumulator::S64) {
    return shifted_text(reduced_mantissa(m), m.exponent, 15);
  }
  return shifted_text(m.mantissa, m.exponent, 31);
}

std::vector<NodeMultiplier> parts_of_sum(const AddMultiplier& m,
                                         Requantization requantization) {
  const auto fixed = [&](const Multiplier& part) {
    return std::vector{text_of(part, requantization, Accumulator::S32)};
  };
  const auto quotient = [&](float scale) {
    return std::vector{fmt::format("{} / {}", scale, m.output_scale)};
  };
  constexpr std::string_view first = "multiplier of operand 0";
  constexpr std::string_view second = "multiplier of operand 1";
  if (requantization == Requantization::FloatMultiply) {
    return {{first, {fmt::format("{}", m.a_ratio)}}, {second, {fmt::format("{}", m.b_ratio)}}};
  }
  if (requantization == Requantization::OnnxQdq) {
    return {{first, quotient(m.a_scale)}, {second, quotient(m.b_scale)}};
  }
  return {
      {first, fixed(m.a)}, {second, fixed(m.b)}, {"multiplier of the sum", fixed(m.output)}};
}

/// Returns the multipliers of the ops that depend on the requantization.
class Multipliers {
 public:
  explicit Multipliers(NodeIn node) : node_(node) {}

  std::vector<NodeMultiplier> operator()(const integer::Requantize& op) const {
    const IntegerValue& x = operand(0);
    NodeMultiplier found{"multiplier", {}};
    for (size_t c = 0; c < x.scales.size(); ++c) {
      found.channels.push_back(
          text_of(integer::multiplier_to(op.grid.scale, x, c, requantization()),
                  requantization(), x.accumulator));
    }
    return {found};
  }
  std::vector<NodeMultiplier> operator()(const integer::Mul& op) const {
    const double scale = operand(0).scales[0] * operand(1).scales[0];
    return {
        {"multiplier",
         {text_of(multiplier_of(scale, op.grid.scale), requantization(), Accumulator::S32)}}};
  }
  std::vector<NodeMultiplier> operator()(const integer::Add& op) const { return sum(op.grid); }
  std::vector<NodeMultiplier> operator()(const integer::Sub& op) const { return sum(op.grid); }
  template <class Other>
  std::vector<NodeMultiplier> operator()(const Other&) const {
    return {};
  }

 private:
  const IntegerValue& operand(size_t k) const {
    return node_.program[node_.program[node_.id].operands[k]].value;
  }
  Requantization requantization() const { return node_.program.requantization(); }
  std::vector<NodeMultiplier> sum(const CodeGrid& grid) const {
    const IntegerValue& a = operand(0);
    const IntegerValue& b = operand(1);
    const bool of_16_bits = size_of(a.type.dtype) > 1 || size_of(b.type.dtype) > 1;
    return parts_of_sum(add_multiplier_of(a.scales[0], b.scales[0], grid.scale, of_16_bits),
                        requantization());
  }

  NodeIn node_;
};

}  // namespace

bool in_fixed_point(Requantization requantization) {
  return requantization == Requantization::SingleRounding ||
         requantization == Requantization::DoubleRounding;
}

std::vector<NodeMultiplier> multipliers_of(NodeIn node) {
  return std::visit(Multipliers(node), node.program[node.id].op);
}

}  // namespace qtape
