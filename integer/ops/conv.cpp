#include "qtape/integer/ops/conv.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "qtape/integer/conv_kernel.h"
#include "qtape/integer/direct_kernel.h"
#include "qtape/integer/linear_kernel.h"
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

/// Whether each output has a weight for each tap and channel of a group.
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

/// One output of one group: a window in the order of its taps, without those in the padding.
struct Oracle {
  Convolution c;
  std::vector<int8_t> w;
  int64_t zero_point;

  /// Of one tap. Codes of 8 bits less their zero point fit 16 bits, and sums of fewer than 2^15
  /// products 32.
  template <class X>
  int64_t dot(const X* x, const int8_t* filter, int64_t n) const {
    if (sizeof(X) == 1 && n < int64_t{1} << 15) {
      const auto zero = static_cast<int16_t>(zero_point);
      int32_t sum = 0;
      for (int64_t k = 0; k < n; ++k) {
        const auto a = static_cast<int16_t>(x[k] - zero);
        sum += a * int16_t{filter[k]};
      }
      return sum;
    }
    int64_t sum = 0;
    for (int64_t k = 0; k < n; ++k) sum += (int64_t{x[k]} - zero_point) * filter[k];
    return sum;
  }

  template <class X>
  int64_t sum(const X* x, int64_t image, int64_t i, int64_t j, int64_t o) const {
    const auto& [h, v] = c.window;
    int64_t total = 0;
    for (int64_t ki = 0; ki < h.kernel; ++ki) {
      const int64_t row = h.start(i) + ki * h.dilation;
      for (int64_t kj = 0; kj < v.kernel; ++kj) {
        const int64_t column = v.start(j) + kj * v.dilation;
        if (row < 0 || row >= h.in || column < 0 || column >= v.in) continue;
        const int64_t channel = o / c.outputs() * c.inputs();
        const int64_t at = ((image * h.in + row) * v.in + column) * c.in_channels + channel;
        const int64_t term = (o * c.window.kernel() + ki * v.kernel + kj) * c.inputs();
        total += dot(x + at, w.data() + term, c.inputs());
      }
    }
    return total;
  }
};

/// How products run fast.
enum class Kind : uint8_t { Groups, Rows, Direct, Windows };

/// `path` is taken by products of rows alone.
Kind kind_of(const Convolution& c, DType codes, std::optional<ProductPath> path) {
  const bool rows = c.groups == 1 && c.window.kernel() == 1 && !c.window.has_padding() &&
                    c.window.h.stride == 1 && c.window.w.stride == 1;
  if (rows) return Kind::Rows;
  if (!path && is_direct(c, codes)) return Kind::Direct;
  return c.groups == 1 ? Kind::Windows : Kind::Groups;
}

}  // namespace

static_assert(IntegerCompute<Conv>);

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
  check(fits(*this, shape[-1]), "{} taps of {} channels in {} groups do not make {} weights",
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

IntegerKernel Conv::reference(const IntegerBinding& b) const {
  return dispatch_codes(b.in(0).type.dtype, [&]<class X>() {
    return dispatch_accumulators(b.out().type.dtype, [&]<class Acc>() -> IntegerKernel {
      return {.run = [oracle = Oracle{extents(b.in(0).type.shape), weights.unpacked(),
                                      b.in(0).zero_point},
                      biases = weights.biases(), x = b.operand<X>(0), y = b.y<Acc>()] {
        const Convolution& c = oracle.c;
        Acc* to = y;
        for (int64_t n = 0; n < c.images; ++n) {
          for (int64_t i = 0; i < c.window.h.out; ++i) {
            for (int64_t j = 0; j < c.window.w.out; ++j) {
              for (int64_t o = 0; o < c.out_channels; ++o) {
                const int64_t bias = biases.empty() ? 0 : biases[static_cast<size_t>(o)];
                *to++ = static_cast<Acc>(oracle.sum(x, n, i, j, o) + bias);
              }
            }
          }
        }
      }};
    });
  });
}

IntegerKernel Conv::kernel(const IntegerBinding& b) const {
  return kernel(b, store_accumulators(b));
}

IntegerKernel Conv::kernel(const IntegerBinding& b, Epilogue next) const {
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
