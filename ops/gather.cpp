#include "qtape/ops/gather.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "qtape/core/code_types.h"
#include "qtape/ops/families/copy.h"
#include "qtape/ops/families/terms.h"

namespace qtape {
namespace {

/// Copies `n` rows of `size` bytes at `places` of x; a `constant` size if it is not 0.
template <size_t constant>
void copy_places(const std::byte* x, const int64_t* places, int64_t n, size_t size,
                 std::byte* y) {
  const size_t bytes = constant > 0 ? constant : size;
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(y + static_cast<size_t>(i) * bytes, x + static_cast<size_t>(places[i]) * bytes,
                bytes);
  }
}

auto copy_of(int64_t size) {
  if (size == 1) return &copy_places<1>;
  if (size == 2) return &copy_places<2>;
  if (size == 4) return &copy_places<4>;
  return size == 8 ? &copy_places<8> : &copy_places<0>;
}

/// Copies rows [begin, end) of y, counted over all parts, of `size` bytes each. x has `extent`
/// rows in each part, y as many as there are indices.
void copy_rows_at(const std::vector<int64_t>& indices, int64_t extent, int64_t size,
                  const std::byte* x, std::byte* y, int64_t begin, int64_t end) {
  const int64_t count = std::ssize(indices);
  const auto copy = copy_of(size);
  for (int64_t row = begin; row < end;) {
    const int64_t first = row % count;
    const int64_t n = std::min(count - first, end - row);
    copy(x + row / count * extent * size, indices.data() + first, n, static_cast<size_t>(size),
         y + row * size);
    row += n;
  }
}

}  // namespace

static_assert(Compute<Gather>);

TensorType Gather::infer(Inputs inputs) const {
  const DType d = inputs[0].dtype;
  check(is_compute(d) || is_code_dtype(d) || d == DType::S32,
        "expected f32, f64, s8, u8, s16, u16 or s32, got {}", to_string_view(d));
  const Shape& x = inputs[0].shape;
  const int along = resolve_axis(axis, x);
  for (const int64_t each : indices) {
    check(each >= 0 && each < x[along], "indices must be in 0..{} along axis {}, got {}",
          x[along] - 1, along, each);
  }
  return {inputs[0].dtype, x.with(along, std::ssize(indices))};
}

Kernel Gather::forward(const Binding& b) const {
  if (b.output.elements() == 0) return {};
  const AxisView x = axis_view(b.inputs[0].shape, resolve_axis(axis, b.inputs[0].shape));
  const int64_t bytes = x.inner * size_of(b.output.dtype);
  const int64_t grain = std::max<int64_t>(1, copy_grain / bytes);
  return [indices = indices, bytes, grain, extent = x.channels,
          from = b.operand<const std::byte>(0), to = b.result,
          rows = x.outer * std::ssize(indices), threads = b.threads](const Step&) {
    kernels::parallel_for(threads, rows, 1, grain, [&](int64_t begin, int64_t end) {
      copy_rows_at(indices, extent, bytes, from, to, begin, end);
    });
  };
}

Kernel Gather::backward(const Binding& b) const {
  if (!b.wanted(0) || !is_compute(b.output.dtype)) return {};
  const AxisView x = axis_view(b.inputs[0].shape, resolve_axis(axis, b.inputs[0].shape));
  AxisTerms places;
  for (const int64_t each : indices) {
    places.add(each, 1);
    places.close();
  }
  TermSums sums{.images = x.outer,
                .channels = x.inner,
                .h = AxisTerms::one(),
                .w = turned(places, x.channels),
                .width = std::ssize(indices)};
  return dispatch_compute(b.output.dtype, [&]<class T>() {
    return bind_term_sums(std::move(sums), b.dy_as<const T>(), b.dx<T>(0), b.accumulate(0),
                          b.threads);
  });
}

}  // namespace qtape
