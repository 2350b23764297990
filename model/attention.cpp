#include "qtape/model/attention.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/model/building.h"

namespace qtape {
namespace {

using detail::Building;

/// Adds -Inf to the scores [heads, n, n] of positions that follow.
Value without_following(const Value& scores) {
  const int64_t n = scores.shape()[-1];
  std::vector<float> mask(static_cast<size_t>(n * n), 0);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = i + 1; j < n; ++j) {
      mask[static_cast<size_t>(i * n + j)] = -std::numeric_limits<float>::infinity();
    }
  }
  const auto& building = Building::of(scores);
  Tensor values = Tensor::of<float>({n, n}, mask);
  if (scores.graph()[scores.id()].type.dtype == DType::F64) {
    values = Tensor::of<double>({n, n}, std::vector<double>(mask.begin(), mask.end()));
  }
  const NodeId constant = building->graph.add(Constant{std::move(values)}, {});
  return scores + Building::value(building, constant);
}

void check_operand(const Value& x, int64_t heads) {
  const Shape shape = x.shape();
  require<GraphError>(shape.rank() == 2, "{}: attention needs samples [positions, c], got {}",
                      x.graph().describe(x.id()), to_string(shape));
  require<GraphError>(heads >= 1 && shape[1] % heads == 0,
                      "{}: {} heads do not divide {} channels", x.graph().describe(x.id()),
                      heads, shape[1]);
}

}  // namespace

Value self_attention(const Value& x, const Attention& options) {
  check_operand(x, options.heads);
  const int64_t positions = x.shape()[0], channels = x.shape()[1];
  const int64_t each = channels / options.heads;
  const std::string label = Building::of(x)->label_or(options.label, "attention");
  const Layer layer{.bias = options.bias, .initializer = init::XavierUniform{}};
  const auto linear_of = [&](const Value& from, int64_t out, const char* part) {
    Layer own = layer;
    own.label = fmt::format("{}.{}", label, part);
    return linear(from, out, own);
  };
  const Value all = linear_of(x, 3 * channels, "input");
  const auto heads_of = [&](int64_t part) {
    const Slice slice{.axis = -1, .begin = part * channels, .end = (part + 1) * channels};
    const Value mine = reshape(node(slice, {all}), {positions, options.heads, each});
    return node(Transpose{.permutation = {0, 2, 1, 3}}, {mine});
  };
  const Value q = heads_of(0), k = heads_of(1), v = heads_of(2);
  const Value products = node(MatMul{.transpose_b = true}, {q, k}, label + ".scores");
  Value scores = products * (1 / std::sqrt(static_cast<double>(each)));
  if (options.causal) scores = without_following(scores);
  const Value shares = node(Softmax{.axis = -1}, {scores}, label + ".softmax");
  const Value mixed = node(MatMul{}, {shares, v}, label + ".mixed");
  const Value joined =
      reshape(node(Transpose{.permutation = {0, 2, 1, 3}}, {mixed}), {positions, channels});
  return linear_of(joined, channels, "output");
}

Value layer_norm(const Value& x, const LayerNorm& op, const std::string& label) {
  const auto& building = Building::of(x);
  const std::string own = building->label_or(label, "norm");
  const Shape channels = {x.shape()[-1]};
  const DType dtype = x.graph()[x.id()].type.dtype;
  const auto parameter = [&](const char* part, double value) {
    const Parameter leaf{.dtype = dtype, .shape = channels, .initializer = init::Fill{value}};
    return Building::value(building, building->graph.add(leaf, {}, own + part));
  };
  const Value gamma = parameter(".gamma", 1), beta = parameter(".beta", 0);
  return node(op, {x, gamma, beta}, own);
}

}  // namespace qtape
