#include "qtape/integer/ops/conv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "qtape/integer/products/direct_products.h"
#include "qtape/integer/products/grouped_products.h"
#include "qtape/integer/products/tiled_products.h"
#include "qtape/kernels/integer/code_products.h"

namespace qtape::integer {
namespace {

void check_attributes(const Conv& op, const Shape& x) {
  const int axes = op.taps.rank();
  check(axes == 1 || axes == 2, "taps must have 1 or 2 numbers, got {}", to_string(op.taps));
  check(x.rank() == axes + 2, "x must be {}, got {}", axes == 1 ? "[n, l, c]" : "[n, h, w, c]",
        to_string(x));
  for (const auto& [name, numbers] :
       {std::pair("stride", op.stride), std::pair("dilation", op.dilation),
        std::pair("pads_begin", op.pads_begin), std::pair("pads_end", op.pads_end)}) {
    check(numbers.rank() == axes, "{} must have {} numbers, got {}", name, axes,
          to_string(numbers));
  }
  const int64_t outputs = op.weights.outputs();
  check(op.groups >= 1, "groups must be at least 1, got {}", op.groups);
  check(x[-1] >= 1 && outputs >= 1, "channels must be at least 1, got {} and {} outputs", x[-1],
        outputs);
  check(x[-1] % op.groups == 0 && outputs % op.groups == 0,
        "groups must divide the channels: {} groups of {} channels and {} outputs", op.groups,
        x[-1], outputs);
}

/// True if each output has one weight for each tap and channel of a group.
bool fits(const Conv& op, int64_t channels) {
  int64_t terms = 1;
  std::array<int64_t, 3> factors = {channels / op.groups, op.taps[0], op.taps[-1]};
  if (op.taps.rank() == 1) factors[2] = 1;
  for (int64_t factor : factors) {
    if (factor < 1 || factor > op.weights.terms() / terms) return false;
    terms *= factor;
  }
  return terms == op.weights.terms();
}

/// Kernels for fast products.
enum class Kind : uint8_t { Groups, Rows, Direct, Windows };

/// `path` applies only to products of rows.
Kind kind_of(const Convolution& c, DType codes, std::optional<ProductPath> path) {
  if (!path && is_direct(c, codes)) return Kind::Direct;
  if (c.groups > 1) return Kind::Groups;
  const bool rows = c.window.kernel() == 1 && !c.window.has_padding() &&
                    c.window.h.stride == 1 && c.window.w.stride == 1;
  return rows ? Kind::Rows : Kind::Windows;
}

}  // namespace

Convolution Conv::extents(const Shape& x) const {
  const auto axis = [&](int i, std::string_view text) {
    return window_axis(text, x[1 + i],
                       {.kernel = taps[i],
                        .stride = stride[i],
                        .dilation = dilation[i],
                        .padding = padding,
                        .pad_begin = pads_begin[i],
                        .pad_end = pads_end[i]});
  };
  const bool one = taps.rank() == 1;
  return {.images = x[0],
          .groups = groups,
          .in_channels = x[-1],
          .out_channels = weights.outputs(),
          .window = one ? Window{{}, axis(0, "l")} : Window{axis(0, "h"), axis(1, "w")}};
}

IntegerValue Conv::factors(const IntegerValue& x) const {
  return extents(x.type.shape).window.has_padding() ? with_zero_point(x) : x;
}

IntegerValue Conv::infer(IntegerInputs inputs) const {
  check_operands(inputs, 1);
  const IntegerValue& x = inputs[0];
  check_codes(x, "x");
  weights.check();
  const Shape& shape = x.type.shape;
  check_attributes(*this, shape);
  check(fits(*this, shape[-1]), "{} taps of {} channels in {} groups do not match {} weights",
        to_string(taps), shape[-1], groups, weights.terms());
  const Convolution c = extents(shape);
  check_extents(c);
  const Shape y = taps.rank() == 1
                      ? Shape{c.images, c.window.w.out, c.out_channels}
                      : Shape{c.images, c.window.h.out, c.window.w.out, c.out_channels};
  return weights.accumulators(factors(x), y);
}

void Conv::update(const IntegerBinding& b, IntegerValue& y) const {
  update_scales(weights, b, y);
}

IntegerKernel Conv::optimized(const IntegerBinding& b) const {
  return optimized(b, store_accumulators(b));
}

IntegerKernel Conv::optimized(const IntegerBinding& b, Epilogue next) const {
  const Convolution c = extents(b.in(0).type.shape);
  switch (kind_of(c, b.in(0).type.dtype, b.path)) {
    case Kind::Groups:
      return grouped_kernel(weights, c, b, std::move(next));
    case Kind::Rows:
      return linear_kernel(weights, b, std::move(next));
    case Kind::Direct:
      return direct_kernel(weights, c, b, std::move(next));
    case Kind::Windows:
      break;
  }
  return window_kernel(weights, c, b, std::move(next));
}

std::string Conv::explain(const IntegerValue& x, std::optional<ProductPath> path) const {
  switch (kind_of(extents(x.type.shape), x.type.dtype, path)) {
    case Kind::Groups:
      return "loops over groups";
    case Kind::Direct:
      return fmt::format("windows in place, added in 32 bits by {}", name_of(code_products()));
    case Kind::Rows:
    case Kind::Windows:
      break;
  }
  return path ? std::string(to_string_view(*path))
              : explain_path(weights.certificate, factors(x));
}

}  // namespace qtape::integer
