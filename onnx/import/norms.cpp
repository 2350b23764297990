// Norms by the statistics of a sample.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "qtape/core/error.h"
#include "qtape/onnx/import/operators.h"

namespace qtape {
namespace {

/// A value whose last stored axis has the elements of all normalized axes.
struct NormRows {
  OnnxValue value;            ///< before axes were joined
  NodeId id;                  ///< after
  std::vector<int> axes;      ///< of ONNX
  std::vector<size_t> order;  ///< stored element k of a row is ONNX element order[k]

  int64_t n() const { return std::ssize(order); }
};

/// Throws FormatError for too many factors of a norm, which a file states in few bytes.
void expect_few(int64_t n) {
  constexpr int64_t most = int64_t{1} << 23;
  require<FormatError>(n <= most, "norms may have at most 2^23 factors, got {}", n);
}

struct NormOperators : OnnxOperators {
  void layer_normalization();
  void rms_normalization();
  void lp_normalization();
  void instance_normalization();
  void group_normalization();
  void mean_variance_normalization();

  std::vector<int64_t> last_axes(const OnnxValue& a) const;
  NormRows rows(const OnnxValue& a, const std::vector<int64_t>& axes);
  void give_rows(NormRows rows, NodeId normalized);
  void expect_factors();
  void expect_shape(const OnnxValue& a) const;
  std::vector<float> factors(int k, float fallback, const OnnxValue& a,
                             const std::vector<int>& axes) const;
  NodeId leaf(int k, const std::vector<float>& numbers, const std::string& label,
              std::string_view part);
  NodeId row_leaf(int k, float fallback, const NormRows& rows, const std::string& label,
                  std::string_view part);
  void by_group(OnnxValue a, int64_t groups, double eps);
};

}  // namespace

/// Returns the normalized axes: those listed, or all from `axis` on.
std::vector<int64_t> NormOperators::last_axes(const OnnxValue& a) const {
  if (const auto listed = node.integers("axes")) return *listed;
  const int first = onnx_axis(node.integer("axis", -1), a.rank());
  std::vector<int64_t> axes(static_cast<size_t>(a.rank() - first));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

/// Brings the normalized axes to the end of the stored value, as one axis.
NormRows NormOperators::rows(const OnnxValue& a, const std::vector<int64_t>& axes) {
  require<FormatError>(!axes.empty(), "attribute axes has no numbers");
  NormRows rows{.value = a, .id = a.id, .axes = {}, .order = {}};
  for (const int64_t axis : axes) rows.axes.push_back(onnx_axis(axis, a.rank()));
  std::ranges::sort(rows.axes);
  const int first = rows.axes.at(0);
  const bool suffix = first + std::ssize(axes) == a.rank() && rows.axes.back() == a.rank() - 1;
  const bool channels = axes.size() == 1 && first == 1 && (a.rank() == 3 || a.rank() == 4);
  require<OnnxMixedSamples>(first > 0, "axes [{}] of {} join samples", fmt::join(axes, ", "),
                            extents_text(a.shape));
  require<FormatError>(suffix || channels,
                       "axes [{}] are neither the last of {} nor its channels",
                       fmt::join(axes, ", "), extents_text(a.shape));
  const bool whole = suffix && first == 1;
  if (!whole) rows.value = channels && !suffix ? to.to_channels_last(a) : to.to_same(a);
  int64_t n = 1;
  for (const int axis : rows.axes) n = onnx_product(n, a.shape[static_cast<size_t>(axis)]);
  expect_few(n);
  rows.order.resize(static_cast<size_t>(n));
  std::iota(rows.order.begin(), rows.order.end(), size_t{0});
  if (whole && a.layout == OnnxLayout::Flat) rows.order = OnnxImporter::flat_order(a.flat);
  if (whole && a.layout == OnnxLayout::ChannelsLast) {
    rows.order = OnnxImporter::flat_order({a.shape.begin() + 1, a.shape.end()});
  }
  rows.id = rows.value.id;
  if (axes.size() == 1) return rows;
  std::vector<int64_t> joined(a.shape.begin(), a.shape.begin() + first);
  joined[0] = -1;
  joined.push_back(n);
  rows.id = to.add(Reshape{.shape = joined}, {rows.id});
  return rows;
}

/// Sets the output to normalized rows, in the shape of the value.
void NormOperators::give_rows(NormRows rows, NodeId normalized) {
  const auto extents = to.graph()[rows.value.id].type.shape.extents();
  rows.value.id = normalized;
  if (rows.axes.size() > 1) {
    std::vector<int64_t> shape(extents.begin(), extents.end());
    shape[0] = -1;
    rows.value.id = to.add(Reshape{.shape = shape}, {normalized});
  }
  give(std::move(rows.value));
}

/// Records reasons unless factors and biases are constants.
void NormOperators::expect_factors() {
  expect_attribute("stash_type", 1);
  for (int k = 1; k < 3; ++k) {
    if (to.has_input(node, k)) expect_weights(k, 0, "floats");
  }
}

/// Checks the shape to which a pattern brings its result, which must be that of `a`.
void NormOperators::expect_shape(const OnnxValue& a) const {
  const auto shape = node.integers("shape");
  if (!shape) return;
  bool same = std::ssize(*shape) == a.rank();
  for (size_t k = 1; same && k < shape->size(); ++k) {
    same = (*shape)[k] <= 0 || (*shape)[k] == a.shape[k];
  }
  require<FormatError>(same, "the shape [{}] differs from {}", fmt::join(*shape, ", "),
                       extents_text(a.shape));
}

/// Returns input `k` for each element of the axes, in ONNX order.
std::vector<float> NormOperators::factors(int k, float fallback, const OnnxValue& a,
                                          const std::vector<int>& axes) const {
  int64_t n = 1;
  for (const int axis : axes) n *= a.shape[static_cast<size_t>(axis)];
  std::vector<float> all(static_cast<size_t>(n), fallback);
  if (!to.has_input(node, k)) return all;
  const OnnxConstant& constant = to.constant(node, k);
  std::vector<int64_t> extents(constant.shape.extents().begin(),
                               constant.shape.extents().end());
  const std::vector<int64_t> stated = extents;
  // The channels of ONNX's own norms of images have one axis.
  if (axes == std::vector{1} && extents == std::vector{n} && a.rank() > 2)
    return constant.floats;
  bool fits = std::ssize(extents) <= a.rank();
  if (fits) extents.insert(extents.begin(), a.shape.size() - extents.size(), 1);
  for (size_t axis = 0; fits && axis < extents.size(); ++axis) {
    const bool own = std::ranges::count(axes, static_cast<int>(axis)) > 0;
    fits = extents[axis] == 1 || (own && extents[axis] == a.shape[axis]);
  }
  require<FormatError>(fits, "input {} of {} does not fit the normalized axes of {}", k,
                       extents_text(stated), extents_text(a.shape));
  for (size_t i = 0; i < all.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t at = 0;
    int64_t stride = 1;
    for (size_t axis = axes.size(); axis-- > 0;) {
      const auto own = static_cast<size_t>(axes[axis]);
      if (extents[own] > 1) at += rest % a.shape[own] * stride;
      rest /= a.shape[own];
      stride *= extents[own];
    }
    all[i] = constant.floats[static_cast<size_t>(at)];
  }
  return all;
}

/// Adds a parameter of input `k`, or a constant if there is no such input.
NodeId NormOperators::leaf(int k, const std::vector<float>& numbers, const std::string& label,
                           std::string_view part) {
  const Shape shape{std::ssize(numbers)};
  if (!to.has_input(node, k)) {
    return to.add(Constant{Tensor::of<float>(shape, std::span<const float>(numbers))}, {});
  }
  // Constants of nodes are named after those.
  const std::string& name = node.input(k);
  const bool unnamed = name.starts_with('/') && !label.empty();
  // Norms compute with float factors, also with those that come from codes.
  return to.add_float_parameter(unnamed ? fmt::format("{}.{}", label, part) : name, shape,
                                numbers, label, part);
}

NodeId NormOperators::row_leaf(int k, float fallback, const NormRows& rows,
                               const std::string& label, std::string_view part) {
  const std::vector<float> all = factors(k, fallback, rows.value, rows.axes);
  std::vector<float> stored;
  for (const size_t from : rows.order) stored.push_back(all[from]);
  return leaf(k, stored, label, part);
}

void NormOperators::layer_normalization() {
  const auto eps = static_cast<double>(node.real("epsilon", 1e-5f));
  (void)node.has("axes");
  (void)node.has("axis");
  expect_factors();
  const OnnxValue a = x();
  NormRows all = rows(a, last_axes(a));
  const std::string label = to.layer_label(node);
  const NodeId gamma = row_leaf(1, 1, all, label, "weight");
  const NodeId beta = row_leaf(2, 0, all, label, "bias");
  const NodeId y = to.add(LayerNorm{.eps = eps}, {all.id, gamma, beta}, label);
  give_rows(std::move(all), y);
}

void NormOperators::rms_normalization() {
  const auto eps = static_cast<double>(node.real("epsilon", 1e-5f));
  (void)node.has("axes");
  (void)node.has("axis");
  expect_factors();
  const OnnxValue a = x();
  NormRows all = rows(a, last_axes(a));
  const std::string label = to.layer_label(node);
  const NodeId gamma = row_leaf(1, 1, all, label, "weight");
  const NodeId y = to.add(RmsNorm{.eps = eps}, {all.id, gamma}, label);
  give_rows(std::move(all), y);
}

void NormOperators::lp_normalization() {
  expect_attribute("p", 2);
  const auto eps = static_cast<double>(node.real("epsilon", std::numeric_limits<float>::min()));
  const auto listed = node.integers("axes");
  const int64_t axis = node.integer("axis", -1);
  const OnnxValue a = x();
  expect_shape(a);
  NormRows all = rows(a, listed.value_or(std::vector{axis}));
  const NodeId y = to.add(L2Normalize{.eps = eps}, {all.id}, to.node_label(node, "normalized"));
  give_rows(std::move(all), y);
}

/// Normalizes groups of channels by gamma and beta of the node.
void NormOperators::by_group(OnnxValue a, int64_t groups, double eps) {
  const int64_t channels = a.shape.at(1);
  expect_few(channels);
  require<FormatError>(groups >= 1 && channels % groups == 0,
                       "the number of groups, {}, does not divide {} channels", groups,
                       channels);
  a = a.rank() == 2 ? to.to_same(a) : to.to_channels_last(a);
  const auto numbers = [&](int k, float fallback) {
    const bool given = to.has_input(node, k);
    // Until opset 20, GroupNormalization has numbers for each group.
    if (given && channels != groups && to.constant(node, k).shape == Shape{groups}) {
      std::vector<float> repeated;
      for (const float each : to.constant(node, k).floats) {
        repeated.insert(repeated.end(), static_cast<size_t>(channels / groups), each);
      }
      return repeated;
    }
    return factors(k, fallback, a, {1});
  };
  const std::string label = to.layer_label(node);
  const NodeId gamma = leaf(1, numbers(1, 1), label, "weight");
  const NodeId beta = leaf(2, numbers(2, 0), label, "bias");
  a.id = to.add(GroupNorm{.groups = groups, .eps = eps}, {a.id, gamma, beta}, label);
  give(std::move(a));
}

void NormOperators::instance_normalization() {
  const auto eps = static_cast<double>(node.real("epsilon", 1e-5f));
  expect_factors();
  const OnnxValue a = x();
  require<FormatError>(a.rank() >= 3, "input 0 has rank {}", a.rank());
  by_group(a, a.shape[1], eps);
}

void NormOperators::group_normalization() {
  const auto eps = static_cast<double>(node.real("epsilon", 1e-5f));
  const int64_t groups = node.integer("num_groups", 0);
  (void)node.has("shape");
  expect_factors();
  const OnnxValue a = x();
  require<FormatError>(a.rank() >= 2, "input 0 has rank {}", a.rank());
  expect_shape(a);
  by_group(a, groups, eps);
}

/// Supports the axes of an instance norm.
void NormOperators::mean_variance_normalization() {
  const std::vector<int64_t> axes =
      node.integers("axes").value_or(std::vector<int64_t>{0, 2, 3});
  expect(node.inputs() == 1, "expected 1 input, got {}", node.inputs());
  const OnnxValue a = x();
  std::vector<int64_t> places(a.shape.size() < 2 ? 0 : a.shape.size() - 2);
  std::iota(places.begin(), places.end(), int64_t{2});
  require<FormatError>(!places.empty() && axes == places,
                       "axes [{}] of {} are not supported, expected [{}]",
                       fmt::join(axes, ", "), extents_text(a.shape), fmt::join(places, ", "));
  constexpr double least = 1e-18;  // the square of what ONNX adds to the deviation
  by_group(a, a.shape[1], least);
}

namespace {

constexpr OnnxOperator norm_rows[] = {
    {"LayerNormalization", convert<&NormOperators::layer_normalization>},
    {"RMSNormalization", convert<&NormOperators::rms_normalization>},
    {"LpNormalization", convert<&NormOperators::lp_normalization>},
    {"InstanceNormalization", convert<&NormOperators::instance_normalization>},
    {"GroupNormalization", convert<&NormOperators::group_normalization>},
    {"MeanVarianceNormalization", convert<&NormOperators::mean_variance_normalization>}};

}  // namespace

std::span<const OnnxOperator> norm_conversions() { return norm_rows; }

}  // namespace qtape
