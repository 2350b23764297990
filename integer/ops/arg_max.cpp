#include "qtape/integer/ops/arg_max.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "qtape/integer/core/integer_binding.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/ops/families/reduction.h"

namespace qtape::integer {

using namespace kernels;
namespace {

/// Where the elements along an axis lie, and their channels.
struct Lines {
  AxisView view;
  int64_t channels = 1;  ///< number of scales
  bool along = false;    ///< true if the axis is that of the channels

  Lines(const IntegerValue& x, int axis)
      : view(axis_view(x.type.shape, axis)),
        channels(std::ssize(x.scales)),
        along(axis == x.type.shape.rank() - 1 && channels > 1) {}

  int64_t first(int64_t line) const {
    return line / view.inner * view.channels * view.inner + line % view.inner;
  }
  /// Returns the channel of element `i` of the line that begins at `first`.
  int64_t channel(int64_t first, int64_t i) const { return along ? i : first % channels; }
};

/// Calls `value(first, i)` for the elements of each line and writes the indices of the largest.
template <class Value>
auto search_lines(const Lines& lines, int32_t* y, const Value& value) {
  return [lines, y, value](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const int64_t first = lines.first(line);
      auto most = value(first, 0);
      int32_t best = 0;
      for (int64_t i = 1; i < lines.view.channels; ++i) {
        const auto each = value(first, i);
        if (each > most) best = static_cast<int32_t>(i);
        most = std::max(most, each);
      }
      y[line] = best;
    }
  };
}

template <class Search>
std::function<void()> in_parallel(const Lines& lines, const IntegerBinding& b,
                                  const Search& search) {
  const int64_t grain = std::max<int64_t>(1, pointwise_grain / lines.view.channels);
  return [search, grain, n = b.out().type.elements(), threads = b.threads] {
    parallel_for(threads, n, 1, grain, search);
  };
}

template <class Code>
IntegerKernel of_code_lines(const Lines& lines, const IntegerBinding& b) {
  const auto code = [x = b.operand<Code>(0), inner = lines.view.inner](
                        int64_t first, int64_t i) -> int32_t { return x[first + i * inner]; };
  return {.run = in_parallel(lines, b, search_lines(lines, b.y<int32_t>(), code))};
}

template <class Sum>
IntegerKernel of_sum_lines(const Lines& lines, const IntegerBinding& b) {
  const auto scales = std::make_shared<std::vector<float>>(b.in(0).scales.size());
  const auto value = [lines, scales, x = b.operand<Sum>(0)](int64_t first, int64_t i) {
    return static_cast<float>(x[first + i * lines.view.inner]) *
           (*scales)[static_cast<size_t>(lines.channel(first, i))];
  };
  return {.load =
              [scales, x = b.inputs[0]] {
                std::ranges::transform(x->scales, scales->begin(),
                                       [](double s) { return static_cast<float>(s); });
                return Fault{};
              },
          .run = in_parallel(lines, b, search_lines(lines, b.y<int32_t>(), value))};
}

}  // namespace

IntegerValue ArgMax::infer(IntegerInputs inputs) const {
  check_operands(inputs, 1);
  const IntegerValue& x = inputs[0];
  check(x.is_codes() || x.is_accumulators(), "x must be codes or accumulators, got {}",
        to_string(x.type));
  const Shape y = reduced_shape(x.type.shape, std::vector<int>{axis}, keep_dims);
  const int64_t extent = x.type.shape[resolve_axis(axis, x.type.shape)];
  check(extent >= 1 && extent <= std::numeric_limits<int32_t>::max(),
        "axis {} must have 1 to 2^31 - 1 elements, x is {}", axis, to_string(x.type));
  return {{DType::S32, y}, {1.0}, 0, 0, extent - 1};
}

IntegerKernel ArgMax::optimized(const IntegerBinding& b) const {
  const IntegerValue& x = b.in(0);
  const Lines lines(x, resolve_axis(axis, x.type.shape));
  return dispatch_integers(x.type.dtype, [&]<class X>() {
    if constexpr (sizeof(X) < sizeof(int32_t)) {
      return of_code_lines<X>(lines, b);
    } else {
      return of_sum_lines<X>(lines, b);
    }
  });
}

}  // namespace qtape::integer
