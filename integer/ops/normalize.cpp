#include "qtape/integer/ops/normalize.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "qtape/core/aligned.h"
#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/core/integer_root.h"
#include "qtape/integer/products/epilogue.h"
#include "qtape/integer/products/shares.h"
#include "qtape/integer/products/tiled_products.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape::integer {
namespace {

constexpr int64_t one = 1;

/// Returns the largest |x - zp| of any grid of this dtype.
int64_t span_of(DType codes) { return size_of(codes) == 1 ? 255 : 65535; }

template <class T>
std::span<T> elements(Tensor& tensor) {
  return {reinterpret_cast<T*>(tensor.data.data()), tensor.data.size() / sizeof(T)};
}
template <class T>
std::span<const T> elements(const Tensor& tensor) {
  return {reinterpret_cast<const T*>(tensor.data.data()), tensor.data.size() / sizeof(T)};
}

/// Sets of x [outer, positions, channels]: the channels of each group, by index of `outer`.
struct Sets {
  int64_t channels;
  int64_t outer;
  int64_t positions;
  int64_t groups;

  Sets(const Normalize& op, const Shape& x)
      : channels(x[-1]),
        outer(op.joint        ? x[0]
              : channels == 0 ? 0
                              : x.elements() / channels),
        positions(1),
        groups(op.groups) {
    for (int axis = 1; axis + 1 < x.rank() && op.joint; ++axis) positions *= x[axis];
  }

  int64_t width() const { return channels / groups; }
};

/// Numbers of one set: h = (d factor + 2^(shift - 1)) >> shift.
struct SetNumbers {
  int32_t sum;
  int32_t factor;
  int shift;
};

SetNumbers numbers_of(const Normalize& op, int64_t n, int64_t sum, int64_t squares) {
  const int64_t center = op.centered ? sum : 0;
  const int64_t spread = n * squares - center * center;
  const int64_t v = std::max((spread << (2 * op.shift)) + op.epsilon, op.least);
  const int k = (std::countl_zero(static_cast<uint64_t>(v)) - 2) / 2;
  const int64_t root = integer_root(v << (2 * k));
  return {static_cast<int32_t>(center), static_cast<int32_t>(((one << 61) - 1) / root),
          45 - k - op.shift};
}

/// Arguments of the loop over rows.
struct RowArguments {
  const Normalize* op;
  const int32_t* signs;
  int64_t groups;
  int64_t width;
};

/// Normalizes rows whose sets lie in one row each.
template <class Code>
auto rows_loop() {
  return simd::best<const RowArguments*, const Code*, int32_t*, int32_t, int64_t>(
      [](const RowArguments* with, const Code* x, int32_t* y, int32_t zero, int64_t rows) {
        const int64_t width = with->width;
        const auto n = static_cast<int32_t>(width);
        for (int64_t set = 0; set < rows * with->groups; ++set) {
          const Code* from = x + set * width;
          int32_t* to = y + set * width;
          int64_t sum = 0;
          int64_t squares = 0;
          for (int64_t i = 0; i < width; ++i) {
            const int64_t q = int64_t{from[i]} - zero;
            sum += q;
            squares += q * q;
          }
          const SetNumbers by = numbers_of(*with->op, n, sum, squares);
          const int64_t half = one << (by.shift - 1);
          const int32_t* signs = with->signs + set % with->groups * width;
          QTAPE_INDEPENDENT
          for (int64_t i = 0; i < width; ++i) {
            const int32_t d = n * (int32_t{from[i]} - zero) - by.sum;
            to[i] =
                signs[i] * static_cast<int32_t>((int64_t{d} * by.factor + half) >> by.shift);
          }
        }
      });
}

/// Numbers of the channels of one index of axis 0, whose sets have all positions.
struct ChannelTables {
  std::vector<int64_t> sums;  // [2, c]: of codes and of their squares
  std::vector<int32_t> center;
  std::vector<int32_t> factor;
  std::vector<int64_t> shift;

  explicit ChannelTables(size_t channels)
      : sums(2 * channels), center(channels), factor(channels), shift(channels) {}

  void load(const Normalize& op, int64_t n, int64_t width) {
    const auto channels = std::ssize(center);
    for (int64_t first = 0; first < channels; first += width) {
      const auto begin = sums.begin() + first;
      const int64_t sum = std::accumulate(begin, begin + width, int64_t{0});
      const int64_t squares =
          std::accumulate(begin + channels, begin + channels + width, int64_t{0});
      const SetNumbers by = numbers_of(op, n, sum, squares);
      std::fill_n(center.begin() + first, width, by.sum);
      std::fill_n(factor.begin() + first, width, by.factor);
      std::fill_n(shift.begin() + first, width, by.shift);
    }
  }
};

/// Adds codes of each channel, and their squares, over rows.
template <class Code>
auto channel_sums_loop() {
  return simd::best<const Code*, int64_t*, int32_t, int64_t, int64_t>(
      [](const Code* x, int64_t* sums, int32_t zero, int64_t rows, int64_t channels) {
        int64_t* squares = sums + channels;
        std::fill_n(sums, 2 * channels, int64_t{0});
        for (int64_t r = 0; r < rows; ++r) {
          const Code* from = x + r * channels;
          QTAPE_INDEPENDENT
          for (int64_t c = 0; c < channels; ++c) {
            const int64_t q = int64_t{from[c]} - zero;
            sums[c] += q;
            squares[c] += q * q;
          }
        }
      });
}

/// Normalizes rows by the tables of their channels.
template <class Code>
auto tables_loop() {
  return simd::best<const Code*, int32_t*, const ChannelTables*, const int32_t*, int32_t,
                    int32_t, int64_t>([](const Code* x, int32_t* y, const ChannelTables* tables,
                                         const int32_t* signs, int32_t zero, int32_t n,
                                         int64_t rows) {
    const auto channels = std::ssize(tables->center);
    const int32_t* center = tables->center.data();
    const int32_t* factor = tables->factor.data();
    const int64_t* shift = tables->shift.data();
    for (int64_t r = 0; r < rows; ++r) {
      const Code* from = x + r * channels;
      int32_t* to = y + r * channels;
      QTAPE_INDEPENDENT
      for (int64_t c = 0; c < channels; ++c) {
        const int32_t d = n * (int32_t{from[c]} - zero) - center[c];
        const int64_t product = int64_t{d} * factor[c] + (one << (shift[c] - 1));
        to[c] = signs[c] * static_cast<int32_t>(product >> shift[c]);
      }
    }
  });
}

/// Rows of codes, normalized tile by tile.
template <class Code>
class NormalizedRows {
 public:
  NormalizedRows(const Normalize& op, const IntegerBinding& b, Epilogue next)
      : op_(op),
        next_(std::move(next)),
        sets_(op, b.in(0).type.shape),
        x_(b.operand<Code>(0)),
        value_(b.inputs[0]),
        threads_(b.threads),
        tile_(std::clamp<int64_t>(tile_elements / sets_.channels, 1,
                                  sets_.outer * sets_.positions)),
        offsets_(static_cast<size_t>(sets_.channels)) {
    const int64_t elements = sets_.outer * sets_.positions * sets_.channels;
    for (const RowShare& share : shares_of(sets_.outer, elements, pointwise_grain, threads_)) {
      workers_.push_back({share, AlignedBuffer(tile_ * sets_.channels * int64_t{4}),
                          ChannelTables(sets_.positions == 1 ? 0 : offsets_.size())});
    }
  }

  Fault load() {
    std::ranges::copy(elements<int32_t>(op_.bias), offsets_.begin());
    return next_.load(offsets_);
  }
  void run() {
    parallel_for(threads_, std::ssize(workers_), 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t w = begin; w < end; ++w) run(workers_[static_cast<size_t>(w)]);
    });
  }

 private:
  static constexpr int64_t tile_elements = 8192;

  struct Worker {
    RowShare outer;
    AlignedBuffer sums;
    ChannelTables tables;
  };

  void run(Worker& worker) const {
    auto* sums = reinterpret_cast<int32_t*>(worker.sums.data());
    const auto [begin, end] = worker.outer;
    if (sets_.positions == 1) {
      const RowArguments with{&op_, signs(), sets_.groups, sets_.width()};
      for (int64_t row = begin; row < end; row += tile_) {
        const int64_t rows = std::min(tile_, end - row);
        rows_(&with, x_ + row * sets_.channels, sums, value_->zero_point, rows);
        next_.s32(row, rows, sums);
      }
      return;
    }
    for (int64_t i = begin; i < end; ++i) run(i, worker.tables, sums);
  }

  /// Normalizes all positions of an index of axis 0.
  void run(int64_t index, ChannelTables& tables, int32_t* sums) const {
    const int64_t n = sets_.positions * sets_.width();
    const int64_t first = index * sets_.positions;
    const int32_t zero = value_->zero_point;
    channel_sums_(x_ + first * sets_.channels, tables.sums.data(), zero, sets_.positions,
                  sets_.channels);
    tables.load(op_, n, sets_.width());
    for (int64_t row = first; row < first + sets_.positions; row += tile_) {
      const int64_t rows = std::min(tile_, first + sets_.positions - row);
      tables_(x_ + row * sets_.channels, sums, &tables, signs(), zero, static_cast<int32_t>(n),
              rows);
      next_.s32(row, rows, sums);
    }
  }

  const int32_t* signs() const { return elements<int32_t>(op_.signs).data(); }

  const Normalize& op_;
  Epilogue next_;
  Sets sets_;
  const Code* x_;
  const IntegerValue* value_;
  int threads_;
  int64_t tile_;  // rows
  std::vector<int64_t> offsets_;
  std::vector<Worker> workers_;
  decltype(rows_loop<Code>()) rows_ = rows_loop<Code>();
  decltype(channel_sums_loop<Code>()) channel_sums_ = channel_sums_loop<Code>();
  decltype(tables_loop<Code>()) tables_ = tables_loop<Code>();
};

void check_tensor(const Tensor& tensor, DType dtype, int64_t n, std::string_view what) {
  const TensorType expected{dtype, Shape{n}};
  check(tensor.type == expected && std::ssize(tensor.data) == expected.bytes(),
        "{} must be {}, got {}", what, to_string(expected), to_string(tensor.type));
}

void check_numbers(const Normalize& op, int64_t channels) {
  check_tensor(op.signs, DType::S32, channels, "signs");
  check_tensor(op.scales, DType::F32, channels, "scales");
  check_tensor(op.bias, DType::S32, channels, "bias");
  for (int32_t sign : elements<int32_t>(op.signs)) {
    check(sign >= -1 && sign <= 1, "signs must be -1, 0 or 1, got {}", sign);
  }
  for (float scale : elements<float>(op.scales)) {
    check(scale >= 0x1p-110f && std::isfinite(scale),
          "scales must be finite and at least 2^-110, got {}", scale);
  }
  for (int32_t bias : elements<int32_t>(op.bias)) {
    check(std::abs(int64_t{bias}) <= Normalize::max_bias, "biases must be within 2^30, got {}",
          bias);
  }
  check(op.epsilon >= 0 && op.epsilon <= Normalize::max_epsilon,
        "epsilon must be within 0..2^60, got {}", op.epsilon);
  check(op.least >= one << (2 * op.shift) && op.least <= Normalize::max_epsilon,
        "least must be within 4^shift..2^60, got {}", op.least);
}

}  // namespace

int64_t Normalize::max_terms(DType codes) { return (max_sum - 1) / span_of(codes); }

int64_t Normalize::terms(const Shape& x) const {
  const Sets sets(*this, x);
  return sets.positions * sets.width();
}

IntegerValue Normalize::infer(IntegerInputs inputs) const {
  check_operands(inputs, 1);
  const IntegerValue& x = inputs[0];
  check_codes(x, "x");
  const Shape& shape = x.type.shape;
  check(shape.rank() >= (joint ? 2 : 1), "x needs rank >= {}, got {}", joint ? 2 : 1,
        to_string(shape));
  const int64_t channels = shape[-1];
  check(groups >= 1 && channels % groups == 0, "groups must be a divisor of {}, got {}",
        channels, groups);
  check(shift >= 0 && shift < 30, "shift must be within 0..29, got {}", shift);
  const int64_t most = max_terms(x.type.dtype) >> shift;
  check(terms(shape) <= most, "sets of {} may have at most {} elements with shift {}, got {}",
        to_string_view(x.type.dtype), most, shift, terms(shape));
  check_numbers(*this, channels);
  // |h| <= 2^16 sqrt(n), and n < 2^23.
  const int64_t bound = (one << (fraction + 12)) + max_bias;
  IntegerValue y{{DType::S32, shape}, {}, 0, -bound, bound};
  for (float scale : elements<float>(scales)) y.scales.push_back(double{scale} * 0x1p-16);
  return y;
}

void Normalize::update(const IntegerBinding&, IntegerValue& y) const {
  const auto numbers = elements<float>(scales);
  for (size_t c = 0; c < numbers.size(); ++c) y.scales[c] = double{numbers[c]} * 0x1p-16;
}

IntegerKernel Normalize::optimized(const IntegerBinding& b) const {
  return optimized(b, store_accumulators(b));
}

IntegerKernel Normalize::optimized(const IntegerBinding& b, Epilogue next) const {
  return dispatch_codes(b.in(0).type.dtype, [&]<class Code>() -> IntegerKernel {
    if (b.in(0).type.elements() == 0) return {};
    auto rows = std::make_shared<NormalizedRows<Code>>(*this, b, std::move(next));
    return {[rows] { return rows->load(); }, [rows] { rows->run(); }};
  });
}

namespace {

/// Sets sign, scale and bias of a channel: gamma h + beta = scale (sign h + bias 2^-16), the
/// bias having at most 30 bits. A gamma that is smaller relative to its beta is rounded to its
/// scale.
void set_channel(Normalize& op, size_t c, float gamma, float beta, double by) {
  const float least = std::max(std::fabs(beta) * 0x1p-14f, 0x1p-100f);
  const float scale = std::max(std::fabs(gamma), least);
  const bool none = std::fabs(gamma) * 2 < scale;
  elements<int32_t>(op.signs)[c] = none ? 0 : gamma < 0 ? -1 : 1;
  elements<float>(op.scales)[c] = static_cast<float>(double{scale} * by);
  const double code = double{beta} * 0x1p16 / double{scale};
  elements<int32_t>(op.bias)[c] = static_cast<int32_t>(std::floor(code + 0.5));
}

}  // namespace

void set_numbers(Normalize& op, const IntegerValue& x, const NormNumbers& numbers) {
  const int64_t n = std::max<int64_t>(1, op.terms(x.type.shape));
  const auto count = static_cast<double>(n);
  const double s = x.scales[0];
  // In units of V = n B - A^2, without fractional bits.
  const double eps = numbers.limits ? numbers.eps * numbers.eps * count / (s * s)
                                    : numbers.eps * count * count / (s * s);
  const auto fits = [&](int shift) {
    return n << shift <= Normalize::max_terms(x.type.dtype) &&
           std::ldexp(eps, 2 * shift) <= 0x1p60;
  };
  op.shift = 0;
  while (op.shift < 29 && fits(op.shift + 1)) ++op.shift;
  const double scaled = std::min(std::ldexp(eps, 2 * op.shift), 0x1p60);
  const auto code = static_cast<int64_t>(std::floor(scaled + 0.5));
  op.epsilon = numbers.limits ? 0 : code;
  op.least = std::max(one << (2 * op.shift), numbers.limits ? code : 0);
  const double by = numbers.limits ? 1 / std::sqrt(count) : 1;
  const auto channels = static_cast<size_t>(op.scales.type.elements());
  for (size_t c = 0; c < channels; ++c) {
    set_channel(op, c, numbers.gamma.empty() ? 1 : numbers.gamma[c],
                numbers.beta.empty() ? 0 : numbers.beta[c], by);
  }
}

}  // namespace qtape::integer
