#include "qtape/deploy/node_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "qtape/deploy/lint_text.h"
#include "qtape/deploy/multipliers.h"
#include "qtape/engine/print_fields.h"
#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/program/integer_node.h"

namespace qtape {

namespace {

using Differences = std::vector<NumberDifference>;

const IntegerNode& node_of(NodeIn node) { return node.program[node.id]; }
const IntegerValue& operand_of(NodeIn node, size_t k) {
  return node.program[node_of(node).operands[k]].value;
}

/// Returns the elements of a tensor as numbers.
std::vector<double> elements_of(const Tensor& tensor) {
  std::vector<double> all;
  const auto read = [&]<class T>() {
    for (size_t i = 0; i * sizeof(T) < tensor.data.size(); ++i) {
      T value;
      std::memcpy(&value, tensor.data.data() + i * sizeof(T), sizeof(T));
      all.push_back(static_cast<double>(value));
    }
  };
  if (tensor.type.dtype == DType::F32) {
    read.operator()<float>();
  } else {
    dispatch_integers(tensor.type.dtype, read);
  }
  return all;
}

/// Returns `[3, 0, 1]`, the place of element i of a tensor of shape `shape`.
std::string place_text(const Shape& shape, size_t i) {
  std::vector<int64_t> place(static_cast<size_t>(shape.rank()));
  auto rest = static_cast<int64_t>(i);
  for (size_t axis = place.size(); axis-- > 0;) {
    place[axis] = rest % shape.extents()[axis];
    rest /= shape.extents()[axis];
  }
  return fmt::format("[{}]", fmt::join(place, ", "));
}

/// Adds the first difference of two lists of numbers in the shape `shape`, and their count.
void compare_lists(std::string_view what, const std::vector<double>& a,
                   const std::vector<double>& b, const Shape& shape, Differences& to) {
  int64_t differ = 0;
  size_t first = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (differ++ == 0) first = i;
  }
  if (differ == 0) return;
  to.push_back({std::string(what), number_text(a[first]), number_text(b[first]),
                fmt::format("at {}, the first of {} of {} that differ",
                            place_text(shape, first), differ, a.size())});
}

void compare_tensors(std::string_view what, const Tensor& a, const Tensor& b, Differences& to) {
  if (a.type.shape != b.type.shape) {
    to.push_back({std::string(what), to_string(a.type), to_string(b.type)});
  } else {
    compare_lists(what, elements_of(a), elements_of(b), a.type.shape, to);
  }
}

template <class T>
std::vector<double> as_doubles(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

/// Returns a scale for each of `n` outputs.
std::vector<double> scales_of(const Tensor& scales, int64_t n) {
  std::vector<double> all = elements_of(scales);
  if (all.size() == 1) all.resize(static_cast<size_t>(n), all[0]);
  return all;
}

void compare_weights(const QuantizedWeights& a, const QuantizedWeights& b, Differences& to) {
  if (a.shape != b.shape) {
    to.push_back({"weights", to_string(a.shape), to_string(b.shape)});
    return;
  }
  const Shape outputs = {a.outputs()};
  compare_lists("weights", as_doubles(a.unpacked()), as_doubles(b.unpacked()), a.shape, to);
  compare_lists("bias", as_doubles(a.all_biases()), as_doubles(b.all_biases()), outputs, to);
  compare_lists("scale of the weights", scales_of(a.scales, a.outputs()),
                scales_of(b.scales, b.outputs()), outputs, to);
}

/// Adds the attributes that differ; grids are left to compare_values.
template <class X>
void compare_attributes(const X& a, const X& b, Differences& to) {
  for_each_field<X>([&](const auto& each) {
    const auto& one = a.*each.member;
    const auto& other = b.*each.member;
    using Value = std::decay_t<decltype(one)>;
    if constexpr (std::is_same_v<Value, QuantizedWeights>) {
      compare_weights(one, other, to);
    } else if constexpr (std::is_same_v<Value, Tensor>) {
      compare_tensors(each.key, one, other, to);
    } else if constexpr (!std::is_same_v<Value, CodeGrid>) {
      if (!(one == other)) {
        to.push_back({std::string(each.key), value_text(one), value_text(other)});
      }
    }
  });
}

template <class T>
void compare_texts(std::string_view what, const T& a, const T& b, Differences& to) {
  if (a != b) to.push_back({std::string(what), a, b});
}

/// Adds the differences of scale and zero point of codes.
void compare_grids(const IntegerValue& a, const IntegerValue& b, std::string_view of,
                   Differences& to) {
  if (!a.is_codes() || !b.is_codes() || shift_of(a, b) != 0) return;
  const auto named = [&](std::string_view what) { return fmt::format("{}{}", what, of); };
  compare_texts(named("scale"), number_text(a.scales[0]), number_text(b.scales[0]), to);
  compare_texts(named("zero point"), fmt::format("{}", a.zero_point),
                fmt::format("{}", b.zero_point), to);
}

/// Adds the differences of types and, where the ops choose them, of grids.
void compare_values(const IntegerNode& a, const IntegerNode& b, Differences& to) {
  const TensorType& one = a.value.type;
  const TensorType& other = b.value.type;
  compare_texts("shape", to_string(one.shape), to_string(other.shape), to);
  if (shift_of(a.value, b.value) != 0) return;
  compare_texts("type", std::string(to_string_view(one.dtype)),
                std::string(to_string_view(other.dtype)), to);
  if (grid_of(a.op) == nullptr && grid_of(b.op) == nullptr) return;
  compare_grids(a.value, b.value, "", to);
  if (!a.value.is_codes() || !b.value.is_codes()) return;
  compare_texts("limits", fmt::format("{}..{}", a.value.low, a.value.high),
                fmt::format("{}..{}", b.value.low, b.value.high), to);
}

/// Returns the op whose sums a node requantizes, across changes of shape.
NodeIn source_of_sums(NodeIn node) {
  const IntegerProgram& program = node.program;
  const auto moves_sums = [&](const IntegerNode& each) {
    return each.value.is_accumulators() && weights_of(each.op) == nullptr &&
           each.operands.size() == 1 && program[each.operands[0]].value.is_accumulators();
  };
  ProgramNodeId id = node_of(node).operands[0];
  while (moves_sums(program[id])) id = program[id].operands[0];
  return {program, id};
}

bool rounds_scales(NodeIn node) {
  const auto* linear = std::get_if<integer::Linear>(&node_of(node).op);
  return linear != nullptr && linear->f32_scales;
}

/// Returns the scales behind the multipliers that differ, as text.
std::string cause_of_multiplier(NodeIn a, NodeIn b) {
  if (node_of(a).operands.size() != 1 || node_of(b).operands.size() != 1) return {};
  std::vector<std::string> causes;
  const auto add = [&](std::string_view name, double one, double other) {
    if (one != other) {
      causes.push_back(
          fmt::format("{} {} against {}", name, number_text(one), number_text(other)));
    }
  };
  const NodeIn sums_a = source_of_sums(a);
  const NodeIn sums_b = source_of_sums(b);
  const QuantizedWeights* w_a = weights_of(node_of(sums_a).op);
  const QuantizedWeights* w_b = weights_of(node_of(sums_b).op);
  if (w_a != nullptr && w_b != nullptr) {
    if (rounds_scales(sums_a) != rounds_scales(sums_b)) {
      causes.push_back(fmt::format("s_x s_w / s_y with s_x s_w in {} against {}",
                                   rounds_scales(sums_a) ? "f32" : "double",
                                   rounds_scales(sums_b) ? "f32" : "double"));
    }
    add("s_x", operand_of(sums_a, 0).scales[0], operand_of(sums_b, 0).scales[0]);
    Differences scales;
    if (w_a->outputs() == w_b->outputs()) {
      compare_lists("s_w", scales_of(w_a->scales, w_a->outputs()),
                    scales_of(w_b->scales, w_b->outputs()), {w_a->outputs()}, scales);
    }
    for (const NumberDifference& each : scales) causes.push_back(to_string(each));
  } else if (operand_of(a, 0).scales.size() == 1 && operand_of(b, 0).scales.size() == 1) {
    add("s_x", operand_of(a, 0).scales[0], operand_of(b, 0).scales[0]);
  }
  if (grid_of(node_of(a).op) != nullptr && grid_of(node_of(b).op) != nullptr) {
    add("s_y", node_of(a).value.scales[0], node_of(b).value.scales[0]);
  }
  return fmt::format("{}", fmt::join(causes, ", "));
}

/// Adds the first channel whose multipliers differ.
void compare_channels(const NodeMultiplier& a, const NodeMultiplier& b,
                      const std::string& cause, Differences& to) {
  const size_t n = std::max(a.channels.size(), b.channels.size());
  const auto of = [](const NodeMultiplier& m, size_t c) -> const std::string& {
    return m.channels[m.channels.size() == 1 ? 0 : c];
  };
  if (std::min(a.channels.size(), b.channels.size()) != n &&
      std::min(a.channels.size(), b.channels.size()) != 1) {
    return;  // other shapes, which are named
  }
  std::vector<int64_t> differ;
  for (size_t c = 0; c < n; ++c) {
    if (of(a, c) != of(b, c)) differ.push_back(static_cast<int64_t>(c));
  }
  if (differ.empty()) return;
  const auto first = static_cast<size_t>(differ[0]);
  to.push_back({std::string(a.what), of(a, first), of(b, first),
                n == 1 ? "" : "in " + channels_text(differ, static_cast<int64_t>(n)), cause});
}

/// True if both requantizations compute the same of these sums.
bool same_rounding(NodeIn a, NodeIn b) {
  const Requantization one = a.program.requantization();
  const Requantization other = b.program.requantization();
  const bool wide = operand_of(a, 0).accumulator == Accumulator::S64 &&
                    operand_of(b, 0).accumulator == Accumulator::S64;
  return one == other || (in_fixed_point(one) && in_fixed_point(other) && wide);
}

void compare_multipliers(NodeIn a, NodeIn b, Differences& to) {
  const std::vector<NodeMultiplier> of_a = multipliers_of(a);
  const std::vector<NodeMultiplier> of_b = multipliers_of(b);
  if (of_a.empty() || of_b.empty()) return;
  const Requantization one = a.program.requantization();
  const Requantization other = b.program.requantization();
  if (!same_rounding(a, b)) {
    to.push_back(
        {"rounding", std::string(to_string_view(one)), std::string(to_string_view(other))});
  }
  if (one != other && !(in_fixed_point(one) && in_fixed_point(other))) return;
  const std::string cause = cause_of_multiplier(a, b);
  for (size_t i = 0; i < std::min(of_a.size(), of_b.size()); ++i) {
    if (of_a[i].what == of_b[i].what) compare_channels(of_a[i], of_b[i], cause, to);
  }
}

}  // namespace

int64_t shift_of(const IntegerValue& a, const IntegerValue& b) {
  const auto ends = [](const IntegerValue& value) {
    return std::pair(value.low - value.zero_point, value.high - value.zero_point);
  };
  const bool same = a.is_codes() && b.is_codes() && a.scales == b.scales && ends(a) == ends(b);
  return same ? b.zero_point - a.zero_point : 0;
}

std::vector<NumberDifference> differing_numbers(NodeIn a, NodeIn b) {
  Differences found;
  const IntegerNode& one = node_of(a);
  const IntegerNode& other = node_of(b);
  compare_texts("op", std::string(name_of(one.op)), std::string(name_of(other.op)), found);
  std::visit(
      [&]<class X>(const X& op) {
        if (const X* same = std::get_if<X>(&other.op)) compare_attributes(op, *same, found);
      },
      one.op);
  compare_multipliers(a, b, found);
  compare_values(one, other, found);
  return found;
}

std::vector<NumberDifference> differing_operands(NodeIn a, NodeIn b) {
  Differences found;
  const size_t count = std::min(node_of(a).operands.size(), node_of(b).operands.size());
  for (size_t k = 0; k < count; ++k) {
    const std::string of = count == 1 ? " of the operand" : fmt::format(" of operand {}", k);
    compare_grids(operand_of(a, k), operand_of(b, k), of, found);
  }
  return found;
}

}  // namespace qtape
