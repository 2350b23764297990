#include "qtape/ops/group_norm.h"

#include <algorithm>

#include "qtape/ops/families/channel_norm.h"

namespace qtape {
namespace {

/// x as [samples, positions, channels], the channels being divided into groups.
struct GroupExtents {
  int64_t channels;
  int64_t samples;
  int64_t positions;
  int64_t groups;

  GroupExtents(const Shape& x, int64_t divided)
      : channels(x[-1]), samples(x[0]), positions(1), groups(divided) {
    for (int axis = 1; axis + 1 < x.rank(); ++axis) positions *= x[axis];
  }

  int64_t sample() const { return positions * channels; }
  int64_t width() const { return channels / groups; }
  double elements() const { return static_cast<double>(positions * width()); }
  /// Minimum number of samples per thread.
  int64_t grain() const {
    return std::max<int64_t>(1, pointwise_grain / std::max<int64_t>(1, sample()));
  }
};

/// Numbers of one sample: of each channel in scratch, of each group saved for backward.
struct GroupNumbers {
  static constexpr int64_t tables = 6;

  double* first;    // [c]: sums of x or dy
  double* second;   // [c]: sums of squares or of dy h
  double* mean;     // [c]
  double* inverse;  // [c]
  double* offset;   // [c], backward: mean g
  double* slope;    // [c], backward: mean(g h)
  double* saved;    // [groups, 2]: mean and inverse

  GroupNumbers(const GroupExtents& x, std::byte* scratch, std::byte* saved_bytes, int64_t r)
      : first(reinterpret_cast<double*>(scratch) + r * tables * x.channels),
        second(first + x.channels),
        mean(second + x.channels),
        inverse(mean + x.channels),
        offset(inverse + x.channels),
        slope(offset + x.channels),
        saved(reinterpret_cast<double*>(saved_bytes) + r * 2 * x.groups) {}
};

/// Sets table[c] of each channel of a group to f(sum over the channels of the group of terms).
template <class Term, class F>
void by_group(const GroupExtents& x, double* table, const Term& term, const F& f) {
  for (int64_t g = 0; g < x.groups; ++g) {
    double sum = 0;
    for (int64_t c = g * x.width(); c < (g + 1) * x.width(); ++c) sum += term(c);
    std::fill_n(table + g * x.width(), x.width(), f(sum, g));
  }
}

/// Adds x, or the square of x - mean, of all positions to `sums` [c].
template <class T, bool squares>
auto group_sums_loop() {
  return simd::best_for<T, const T*, const double*, double*, int64_t, int64_t>(
      [](const T* x, [[maybe_unused]] const double* mean, double* sums, int64_t positions,
         int64_t channels) {
        std::fill_n(sums, channels, 0.0);
        for (int64_t p = 0; p < positions; ++p) {
          const T* from = x + p * channels;
          QTAPE_INDEPENDENT
          for (int64_t c = 0; c < channels; ++c) {
            double d = double{from[c]};
            if constexpr (squares) {
              d -= mean[c];
              d *= d;
            }
            sums[c] += d;
          }
        }
      });
}

template <class T>
auto group_map_loop() {
  return simd::best_for<T, const T*, const T*, const T*, T*, const GroupNumbers*, int64_t,
                        int64_t>([](const T* x, const T* gamma, const T* beta, T* y,
                                    const GroupNumbers* numbers, int64_t positions,
                                    int64_t channels) {
    const double* mean = numbers->mean;
    const double* inverse = numbers->inverse;
    for (int64_t p = 0; p < positions; ++p) {
      const T* from = x + p * channels;
      T* to = y + p * channels;
      QTAPE_INDEPENDENT
      for (int64_t c = 0; c < channels; ++c) {
        const double h = (double{from[c]} - mean[c]) * inverse[c];
        to[c] = static_cast<T>(double{gamma[c]} * h + double{beta[c]});
      }
    }
  });
}

/// Adds dy and dy h of all positions.
template <class T>
auto group_gradient_sums_loop() {
  return simd::best_for<T, const T*, const T*, const GroupNumbers*, int64_t, int64_t>(
      [](const T* x, const T* dy, const GroupNumbers* numbers, int64_t positions,
         int64_t channels) {
        double* first = numbers->first;
        double* second = numbers->second;
        const double* mean = numbers->mean;
        const double* inverse = numbers->inverse;
        std::fill_n(first, 2 * channels, 0.0);
        for (int64_t p = 0; p < positions; ++p) {
          const T* from = x + p * channels;
          const T* up = dy + p * channels;
          QTAPE_INDEPENDENT
          for (int64_t c = 0; c < channels; ++c) {
            first[c] += double{up[c]};
            second[c] += double{up[c]} * ((double{from[c]} - mean[c]) * inverse[c]);
          }
        }
      });
}

/// Computes dx (+)=; dx may be dy.
template <class T, bool accumulate>
auto group_gradient_loop()
    -> void (*)(const T*, const T*, const T*, T*, const GroupNumbers*, int64_t, int64_t) {
  return simd::best_for<T, const T*, const T*, const T*, T*, const GroupNumbers*, int64_t,
                        int64_t>([](const T* x, const T* gamma, const T* dy, T* dx,
                                    const GroupNumbers* numbers, int64_t positions,
                                    int64_t channels) {
    const double* mean = numbers->mean;
    const double* inverse = numbers->inverse;
    const double* offset = numbers->offset;
    const double* slope = numbers->slope;
    for (int64_t p = 0; p < positions; ++p) {
      const T* from = x + p * channels;
      const T* up = dy + p * channels;
      T* to = dx + p * channels;
      QTAPE_INDEPENDENT
      for (int64_t c = 0; c < channels; ++c) {
        const double g = double{up[c]} * double{gamma[c]};
        const double h = (double{from[c]} - mean[c]) * inverse[c];
        const T value = static_cast<T>((g - offset[c] - h * slope[c]) * inverse[c]);
        to[c] = accumulate ? to[c] + value : value;
      }
    }
  });
}

/// Sets the tables of mean and inverse of each channel to those of its group.
void load_saved(const GroupExtents& x, const GroupNumbers& numbers) {
  const auto none = [](int64_t) { return 0.0; };
  by_group(x, numbers.mean, none, [&](double, int64_t g) { return numbers.saved[2 * g]; });
  by_group(x, numbers.inverse, none,
           [&](double, int64_t g) { return numbers.saved[2 * g + 1]; });
}

/// Calls `body` with each sample; threads divide them.
template <class Body>
void for_each_sample(const GroupExtents& x, int threads, const Body& body) {
  parallel_for(threads, x.samples, 1, x.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) body(r);
  });
}

template <class T>
class GroupForward {
 public:
  GroupForward(const GroupExtents& extents, const Binding& b, double eps)
      : extents_(extents),
        x_(b.operand<const T>(0)),
        gamma_(b.operand<const T>(1)),
        beta_(b.operand<const T>(2)),
        y_(b.y<T>()),
        scratch_(b.scratch),
        saved_(b.saved),
        eps_(eps) {}

  void run(int64_t r) const {
    const GroupNumbers numbers(extents_, scratch_, saved_, r);
    const T* from = x_ + r * extents_.sample();
    add_(from, nullptr, numbers.first, extents_.positions, extents_.channels);
    by_group(
        extents_, numbers.mean, [&](int64_t c) { return numbers.first[c]; },
        [&](double sum, int64_t g) {
          return numbers.saved[2 * g] = sum / extents_.elements();
        });
    add_squares_(from, numbers.mean, numbers.second, extents_.positions, extents_.channels);
    by_group(
        extents_, numbers.inverse, [&](int64_t c) { return numbers.second[c]; },
        [&](double sum, int64_t g) {
          return numbers.saved[2 * g + 1] = 1 / std::sqrt(sum / extents_.elements() + eps_);
        });
    map_(from, gamma_, beta_, y_ + r * extents_.sample(), &numbers, extents_.positions,
         extents_.channels);
  }

 private:
  GroupExtents extents_;
  const T* x_;
  const T* gamma_;
  const T* beta_;
  T* y_;
  std::byte* scratch_;
  std::byte* saved_;
  double eps_;
  decltype(group_sums_loop<T, false>()) add_ = group_sums_loop<T, false>();
  decltype(group_sums_loop<T, true>()) add_squares_ = group_sums_loop<T, true>();
  decltype(group_map_loop<T>()) map_ = group_map_loop<T>();
};

template <class T>
class GroupBackward {
 public:
  GroupBackward(const GroupExtents& extents, const Binding& b)
      : extents_(extents),
        x_(b.operand<const T>(0)),
        gamma_(b.operand<const T>(1)),
        dy_(b.dy_as<const T>()),
        dx_(b.dx<T>(0)),
        dgamma_(b, 1),
        dbeta_(b, 2),
        scratch_(b.scratch),
        saved_(b.saved),
        spread_(b.accumulate(0) ? group_gradient_loop<T, true>()
                                : group_gradient_loop<T, false>()) {}

  void run(int64_t r) const {
    const GroupNumbers numbers(extents_, scratch_, saved_, r);
    const int64_t at = r * extents_.sample();
    load_saved(extents_, numbers);
    add_(x_ + at, dy_ + at, &numbers, extents_.positions, extents_.channels);
    if (dx_ == nullptr) return;
    const auto mean = [&](double sum, int64_t) { return sum / extents_.elements(); };
    by_group(
        extents_, numbers.offset,
        [&](int64_t c) { return double{gamma_[c]} * numbers.first[c]; }, mean);
    by_group(
        extents_, numbers.slope,
        [&](int64_t c) { return double{gamma_[c]} * numbers.second[c]; }, mean);
    spread_(x_ + at, gamma_, dy_ + at, dx_ + at, &numbers, extents_.positions,
            extents_.channels);
  }
  void put() const {
    dgamma_.put(extents_.channels, [&](int64_t c) { return sum(&GroupNumbers::second, c); });
    dbeta_.put(extents_.channels, [&](int64_t c) { return sum(&GroupNumbers::first, c); });
  }

 private:
  double sum(double* GroupNumbers::*table, int64_t c) const {
    double sum = 0;
    for (int64_t r = 0; r < extents_.samples; ++r) {
      sum += (GroupNumbers(extents_, scratch_, saved_, r).*table)[c];
    }
    return sum;
  }

  GroupExtents extents_;
  const T* x_;
  const T* gamma_;
  const T* dy_;
  T* dx_;
  ChannelGradient<T> dgamma_;
  ChannelGradient<T> dbeta_;
  std::byte* scratch_;
  std::byte* saved_;
  decltype(group_gradient_sums_loop<T>()) add_ = group_gradient_sums_loop<T>();
  decltype(group_gradient_loop<T, true>()) spread_;
};

}  // namespace

static_assert(Compute<GroupNorm>);

TensorType GroupNorm::infer(Inputs inputs) const {
  const TensorType& x = inputs[0];
  check_compute(x);
  check(x.shape.rank() >= 2, "x needs rank >= 2, got {}", to_string(x.shape));
  check_channels(inputs, 1, "gamma");
  check_channels(inputs, 2, "beta");
  check(groups >= 1 && groups <= std::max<int64_t>(1, x.shape[-1]) && x.shape[-1] % groups == 0,
        "groups must be a divisor of the {} channels, got {}", x.shape[-1], groups);
  check_eps(eps);
  return x;
}

Footprint GroupNorm::footprint(Inputs inputs) const {
  const GroupExtents x(inputs[0].shape, groups);
  constexpr int64_t size = sizeof(double);
  return {.saved = 2 * x.samples * x.groups * size,
          .scratch = GroupNumbers::tables * x.samples * x.channels * size};
}

Kernel GroupNorm::forward(const Binding& b) const {
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    const GroupExtents extents(b.inputs[0].shape, groups);
    return [extents, one = GroupForward<T>(extents, b, eps), threads = b.threads](const Step&) {
      for_each_sample(extents, threads, [&](int64_t r) { one.run(r); });
    };
  });
}

Kernel GroupNorm::backward(const Binding& b) const {
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    const GroupExtents extents(b.inputs[0].shape, groups);
    return [extents, one = GroupBackward<T>(extents, b), threads = b.threads](const Step&) {
      for_each_sample(extents, threads, [&](int64_t r) { one.run(r); });
      one.put();
    };
  });
}

}  // namespace qtape
