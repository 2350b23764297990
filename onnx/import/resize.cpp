// Resize and Upsample: other sizes of images.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "qtape/onnx/import/operators.h"

namespace qtape {
namespace {

/// A ratio of whole numbers.
struct Ratio {
  int64_t above = 1;
  int64_t below = 1;
};

/// How an axis is resized: index i of the result is at (step i + offset) / divisor of x.
struct Resizing {
  int64_t in = 1;
  int64_t out = 1;
  int64_t step = 1;
  int64_t offset = 0;
  int64_t divisor = 1;

  bool stays() const { return out == in && step == divisor && offset == 0; }
};

struct ResizeOperators : OnnxOperators {
  void resize();

 private:
  /// Sizes of the result and their ratios to those of x, by ONNX axis.
  std::vector<Resizing> axes_of(const OnnxValue& a);
  Resizing by_size(int64_t in, int64_t out);
  Resizing by_scale(int64_t in, float scale);
  Resizing placed(int64_t in, int64_t out, Ratio scale);
  OnnxValue nearest(OnnxValue a, const std::vector<Resizing>& axes);
  OnnxValue linear(OnnxValue a, const std::vector<Resizing>& axes);
  std::vector<int64_t> places(const Resizing& axis);

  bool old() const { return node.type() == "Upsample" || to.opset() < 11; }
  std::string place() const {
    return node.text("coordinate_transformation_mode", old() ? "asymmetric" : "half_pixel");
  }
  std::string rounding() const {
    return node.text("nearest_mode", old() ? "floor" : "round_prefer_floor");
  }
};

/// Largest extents and parts of a position.
constexpr int64_t most = 1 << 24;

/// Returns the ratio of small numbers, or of a size and `in`, that is `scale` in f32. Throws
/// FormatError if there is none.
Ratio ratio_of(float scale, int64_t in) {
  for (int64_t below = 1; below <= 1025; ++below) {
    const int64_t by = below > 1024 ? in : below;
    const double above = std::nearbyint(static_cast<double>(scale) * static_cast<double>(by));
    if (!(above >= 1 && above <= static_cast<double>(most))) continue;
    if (static_cast<float>(above / static_cast<double>(by)) == scale) {
      return {static_cast<int64_t>(above), by};
    }
  }
  fail<FormatError>("a scale of {} is not a ratio of small integers", scale);
}

int64_t floor_of(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

}  // namespace

Resizing ResizeOperators::placed(int64_t in, int64_t out, Ratio scale) {
  const std::string mode = place();
  const auto [p, q] = scale;
  Resizing axis{in, out, 0, 0, 1};
  if (mode == "asymmetric") {
    axis.step = q;
    axis.divisor = p;
  } else if (mode == "align_corners") {
    axis.step = out == 1 ? 0 : in - 1;
    axis.divisor = std::max<int64_t>(1, out - 1);
  } else if (mode == "half_pixel" || out > 1) {
    axis.step = 2 * q;
    axis.offset = q - p;
    axis.divisor = 2 * p;
  }
  const int64_t common = std::gcd(std::gcd(axis.step, axis.offset), axis.divisor);
  return {in, out, axis.step / common, axis.offset / common, axis.divisor / common};
}

Resizing ResizeOperators::by_size(int64_t in, int64_t out) {
  require<FormatError>(out >= 1 && out <= most && in <= most,
                       "{} elements resized to {} are not supported", in, onnx_number(out));
  return placed(in, out, {out, in});
}

Resizing ResizeOperators::by_scale(int64_t in, float scale) {
  const Ratio ratio = ratio_of(scale, in);
  const int64_t out = in <= most ? in * ratio.above / ratio.below : 0;
  require<FormatError>(out >= 1 && out <= most, "{} elements resized by {} are not supported",
                       in, scale);
  return placed(in, out, ratio);
}

std::vector<Resizing> ResizeOperators::axes_of(const OnnxValue& a) {
  std::vector<int64_t> named;
  for (int k = 0; k < a.rank(); ++k) named.push_back(k);
  if (const auto given = node.integers("axes")) named = *given;
  std::vector<Resizing> axes;
  for (const int64_t each : a.shape) axes.push_back({each, each});
  const bool sized = !old() && to.has_input(node, 3);
  const int scales_at = old() ? 1 : 2;
  std::vector<int64_t> sizes;
  std::vector<float> scales;
  if (sized) {
    sizes = to.integers(node, 3);
  } else {
    scales = to.floats(node, scales_at, std::ssize(named));
  }
  require<FormatError>(!sized || sizes.size() == named.size(), "expected {} sizes, got {}",
                       named.size(), sizes.size());
  for (size_t k = 0; k < named.size(); ++k) {
    const int axis = onnx_axis(named[k], a.rank());
    const bool batch =
        axis == 0 && sized && (sizes[k] == onnx_batch || sizes[k] == to.declared_batch());
    Resizing& here = axes[static_cast<size_t>(axis)];
    if (!batch) here = sized ? by_size(here.in, sizes[k]) : by_scale(here.in, scales[k]);
    require<FormatError>(axis > 1 || here.out == here.in,
                         "axis {} cannot be resized: only spatial axes are", axis);
    if (axis <= 1) here = {here.in, here.in};
  }
  return axes;
}

/// Returns the nearest element of x for each index. Old opsets do not define it: as runtimes
/// do, smaller sizes round up.
std::vector<int64_t> ResizeOperators::places(const Resizing& axis) {
  const std::string mode = rounding();
  to.spend(axis.out);
  std::vector<int64_t> all;
  for (int64_t i = 0; i < axis.out; ++i) {
    const int64_t at = axis.step * i + axis.offset, d = axis.divisor;
    int64_t index = floor_of(at, d);
    if (mode == "ceil" || (old() && axis.step > d)) index = -floor_of(-at, d);
    if (mode == "round_prefer_ceil") index = floor_of(2 * at + d, 2 * d);
    if (mode == "round_prefer_floor") index = -floor_of(d - 2 * at, 2 * d);
    all.push_back(std::clamp<int64_t>(index, 0, axis.in - 1));
  }
  return all;
}

/// Whole factors that repeat each position are an Upsample.
OnnxValue ResizeOperators::nearest(OnnxValue a, const std::vector<Resizing>& axes) {
  std::vector<std::vector<int64_t>> all;
  std::vector<int64_t> factor;
  bool repeats = true;
  for (size_t k = 2; k < axes.size(); ++k) {
    all.push_back(axes[k].stays() ? std::vector<int64_t>() : places(axes[k]));
    factor.push_back(axes[k].out / axes[k].in);
    repeats = repeats && axes[k].out % axes[k].in == 0;
    for (size_t i = 0; i < all.back().size(); ++i) {
      repeats = repeats && all.back()[i] == static_cast<int64_t>(i) / factor.back();
    }
  }
  if (repeats &&
      std::ranges::find_if(factor, [](int64_t f) { return f > 1; }) != factor.end()) {
    for (size_t k = 2; k < axes.size(); ++k) a.shape[k] = axes[k].out;
    a.id = to.add(Upsample{.factor = Shape(factor)}, {a.id});
    return a;
  }
  for (size_t k = 2; k < axes.size(); ++k) {
    if (axes[k].stays()) continue;
    a = to.taken(std::move(a), static_cast<int>(k), std::move(all[k - 2]));
  }
  return a;
}

OnnxValue ResizeOperators::linear(OnnxValue a, const std::vector<Resizing>& axes) {
  Interpolate op;
  bool stays = true;
  for (size_t k = 2; k < axes.size(); ++k) {
    op.extents.push_back(axes[k].out);
    op.step.push_back(axes[k].step);
    op.offset.push_back(axes[k].offset);
    op.divisor.push_back(axes[k].divisor);
    a.shape[k] = axes[k].out;
    stays = stays && axes[k].stays();
  }
  if (!stays) a.id = to.add(std::move(op), {a.id}, to.node_label(node, "resize"));
  return a;
}

void ResizeOperators::resize() {
  const std::string mode = node.text("mode", "nearest");
  const bool known = place() == "half_pixel" || place() == "pytorch_half_pixel" ||
                     place() == "asymmetric" || place() == "align_corners";
  const bool rounds = rounding() == "floor" || rounding() == "ceil" ||
                      rounding() == "round_prefer_floor" || rounding() == "round_prefer_ceil";
  for (const char* unused : {"cubic_coeff_a", "exclude_outside", "extrapolation_value"}) {
    (void)node.has(unused);
  }
  expect(mode == "nearest" || mode == "linear",
         "mode {} is not supported: use nearest or linear", printable(mode));
  expect(known, "coordinate_transformation_mode {} is not supported", printable(place()));
  expect(rounds, "nearest_mode {} is not supported", printable(rounding()));
  expect_attribute("antialias", 0);
  const std::string policy = node.text("keep_aspect_ratio_policy", "stretch");
  expect(policy == "stretch", "keep_aspect_ratio_policy {} is not supported",
         printable(policy));
  const OnnxValue a = to.to_channels_last(x());
  const std::vector<Resizing> axes = axes_of(a);
  give(mode == "nearest" ? nearest(a, axes) : linear(a, axes));
}

namespace {

constexpr OnnxOperator resize_rows[] = {{"Resize", convert<&ResizeOperators::resize>},
                                        {"Upsample", convert<&ResizeOperators::resize>}};

}  // namespace

std::span<const OnnxOperator> resize_conversions() { return resize_rows; }

}  // namespace qtape
