// Nets under construction, and what tests do with their arrays.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "qtape/core/random.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/tape.h"
#include "qtape/model/layers.h"

namespace qtape::test {

/// A graph under construction, with an input `x`.
struct Net {
  Graph graph;
  NodeId x;

  explicit Net(const Shape& shape = {2, 3}, const std::string& label = "x",
               DType dtype = DType::F32)
      : x(graph.add(Input{.dtype = dtype, .shape = shape}, {}, label)) {}

  NodeId add(Op op, const std::vector<NodeId>& operands, const std::string& label = "") {
    return graph.add(std::move(op), operands, label);
  }
  NodeId parameter(const Shape& shape, const std::string& label) {
    return graph.add(Parameter{.shape = shape}, {}, label);
  }
  NodeId quantized(NodeId id, const Op& op, const std::string& label) {
    return add_quantizer(graph, id, op, label);
  }
  /// Adds a layer with `out` outputs whose weights are quantized per output.
  NodeId layer(NodeId id, int64_t out, const std::string& label,
               const Op& weight = FakeQuantize{.axis = 0}, bool bias = true) {
    return linear(graph, id,
                  {.out = out, .weight_quantizer = weight, .bias = bias, .label = label});
  }
  /// Returns initial parameters with these scales.
  Parameters with_scales(const std::vector<std::pair<NodeId, double>>& scales) const {
    Parameters parameters(graph, 1);
    for (const auto& [id, scale] : scales) set_qparams(graph, parameters, id, scale);
    return parameters;
  }
};

template <class T>
std::vector<std::remove_const_t<T>> copied(std::span<T> x) {
  return {x.begin(), x.end()};
}

/// Fills x with random numbers in [low, high), those of `random` from index `first` on.
template <class T>
void fill_uniform(std::span<T> x, const Random& random, double low = 0, double high = 1,
                  uint64_t first = 0) {
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<T>(low + (high - low) * random.uniform(first + i));
  }
}

/// True if both are NaN or both are the same number.
constexpr auto same_or_nan = [](auto a, auto b) { return a == b || (a != a && b != b); };

/// Returns the first element that differs, with both values; empty if there is none.
template <class A, class B, class Same = std::equal_to<>>
std::string first_difference(const A& got, const B& expected, const Same& same = {}) {
  if (std::size(got) != std::size(expected)) {
    return fmt::format("{} elements, expected {}", std::size(got), std::size(expected));
  }
  for (size_t i = 0; i < std::size(got); ++i) {
    if (same(got[i], expected[i])) continue;
    return fmt::format("element {}: {}, expected {}", i, got[i], expected[i]);
  }
  return "";
}

}  // namespace qtape::test
