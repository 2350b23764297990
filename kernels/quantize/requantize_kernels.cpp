#include "qtape/kernels/quantize/requantize_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "qtape/core/error.h"
#include "qtape/kernels/quantize/quantize.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape::kernels {
namespace {

constexpr int32_t s32_min = std::numeric_limits<int32_t>::min();
// The loops process up to 64 codes at once; a remainder after the last channel is slow.
constexpr int64_t min_period = 256;
constexpr int32_t s32_max = std::numeric_limits<int32_t>::max();

/// A multiplier as read by the loops.
struct Channel {
  float accumulator_scale;
  float output_scale;
  float ratio;
  int32_t mantissa;
  uint32_t left;
  uint32_t right;
  int32_t nudge;
};

Channel channel_of(const Multiplier& m) {
  return {m.accumulator_scale,
          m.output_scale,
          m.ratio,
          m.mantissa,
          static_cast<uint32_t>(std::max(m.exponent, 0)),
          static_cast<uint32_t>(std::max(-m.exponent, 0)),
          m.exponent < 0 ? 0 : int32_t{1} << 30};
}

/// The pointers of a table, by value: a store of codes may alias the pointers of the table
/// itself.
struct Arrays {
  explicit Arrays(const RequantizeTable& t)
      : bias(t.bias.data()),
        accumulator_scale(t.accumulator_scale.data()),
        output_scale(t.output_scale.data()),
        ratio(t.ratio.data()),
        mantissa(t.mantissa.data()),
        left(t.left.data()),
        right(t.right.data()),
        nudge(t.nudge.data()) {}

  Channel at(int64_t c) const {
    return {accumulator_scale[c],
            output_scale[c],
            ratio[c],
            mantissa[c],
            left[c],
            right[c],
            nudge[c]};
  }

  const int32_t* bias;
  const float* accumulator_scale;
  const float* output_scale;
  const float* ratio;
  const int32_t* mantissa;
  const uint32_t* left;
  const uint32_t* right;
  const int32_t* nudge;
};

/// Accumulators are certified to fit; unsigned addition avoids undefined behaviour if they do
/// not.
inline int32_t biased(int32_t acc, int32_t bias) {
  return static_cast<int32_t>(static_cast<uint32_t>(acc) + static_cast<uint32_t>(bias));
}

/// The limits are integers, so clamping before rounding gives the same result and keeps the
/// value small enough to round.
inline int32_t rounded(float v, int32_t low, int32_t high) {
  const float bounded = clamp_code(v, static_cast<float>(low), static_cast<float>(high));
  return static_cast<int32_t>(round_half_even(bounded));
}

// Requantizations in integers take four times as long as a product in f32, which nearly always
// rounds to the same code. Therefore codes are guessed in f32, block by block. A block with a
// guess so close to a tie that rounding may differ is recomputed in integers.
constexpr int64_t guess_block = 64;
// With wider windows around ties, too many blocks are computed twice.
constexpr float max_window = 0x1p-8f;
/// Largest error of a guess of an 8-bit code: three roundings of f32 at up to 2^8.
constexpr float guess_error = 0x1p-14f;

/// Guess `v` of a code minus its zero point.
struct Guess {
  Guess(float v, int32_t low, int32_t high)
      : bounded(clamp_code(v, static_cast<float>(low), static_cast<float>(high))),
        nearest(round_half_even(bounded)),
        code(static_cast<int32_t>(nearest)) {}
  /// 1 if the guess is within `window` of a tie, else 0.
  int32_t is_near_tie(float window) const {
    const float distance = bounded - nearest;
    const float magnitude = distance < 0 ? -distance : distance;
    return magnitude > 0.5f - window ? 1 : 0;
  }
  float bounded, nearest;
  int32_t code;
};

/// Right shift of a multiplier after its first rounding.
int32_t shift_of(const Multiplier& m) { return std::max(-m.exponent, 0); }

/// Base of requantizations in f32, which are not guessed.
struct NoGuess {
  static float window(int32_t) { return 0; }
  static float window(const AddMultiplier&) { return 0; }
};

/// Vector loops of one requantization: `code` from one accumulator, and `sum` of two codes
/// minus their zero points.
template <class Each>
struct Step;

template <>
struct Step<requantization::FloatMultiply> : NoGuess {
  struct Summands {
    explicit Summands(const AddMultiplier& m) : a_ratio(m.a_ratio), b_ratio(m.b_ratio) {}
    float a_ratio, b_ratio;
  };
  static int32_t code(int32_t sum, const Channel& c, int32_t low, int32_t high) {
    return rounded(static_cast<float>(sum) * c.ratio, low, high);
  }
  static int32_t sum(int32_t a, int32_t b, const Summands& s, int32_t low, int32_t high) {
    return rounded(static_cast<float>(a) * s.a_ratio + static_cast<float>(b) * s.b_ratio, low,
                   high);
  }
};

template <>
struct Step<requantization::OnnxQdq> : NoGuess {
  struct Summands {
    explicit Summands(const AddMultiplier& m)
        : a_scale(m.a_scale), b_scale(m.b_scale), output_scale(m.output_scale) {}
    float a_scale, b_scale, output_scale;
  };
  static int32_t code(int32_t sum, const Channel& c, int32_t low, int32_t high) {
    return rounded(static_cast<float>(sum) * c.accumulator_scale / c.output_scale, low, high);
  }
  static int32_t sum(int32_t a, int32_t b, const Summands& s, int32_t low, int32_t high) {
    const float total = static_cast<float>(a) * s.a_scale + static_cast<float>(b) * s.b_scale;
    return rounded(total / s.output_scale, low, high);
  }
};

inline int32_t limited(int32_t v, int32_t low, int32_t high) {
  const int32_t lifted = v < low ? low : v;
  return lifted > high ? high : lifted;
}

/// (sum 2^left mantissa + nudge) >> 31, which fits s32. A sum that would overflow s32 is
/// clamped before its shift: its result, at least 2^29 in magnitude, is beyond all codes either
/// way.
inline int32_t scaled(int32_t sum, const Channel& c, int64_t nudge) {
  const int32_t fitting = limited(sum, s32_min >> c.left, s32_max >> c.left);
  const auto shifted = static_cast<int32_t>(static_cast<uint32_t>(fitting) << c.left);
  const auto product = static_cast<uint64_t>(int64_t{shifted} * c.mantissa + nudge);
  return static_cast<int32_t>(static_cast<uint32_t>(product >> 31));
}

/// Addition in integers of 8-bit codes: no summand exceeds 2^28 in magnitude.
template <class Each>
struct IntegerSum {
  /// Each summand is rounded up to twice, by one unit or less in total, and so is their sum.
  static float window(const AddMultiplier& m) {
    const double summands = 256.0 * (double{m.a_ratio} + double{m.b_ratio});
    const double window = double{guess_error} * (1 + summands / 256) +
                          2 * double{m.output.ratio} +
                          double{Step<Each>::window(shift_of(m.output))};
    return static_cast<float>(std::min(window, 1.0));
  }
  struct Summands {
    explicit Summands(const AddMultiplier& m)
        : shift(m.left_shift),
          a(channel_of(m.a)),
          b(channel_of(m.b)),
          output(channel_of(m.output)) {}
    int32_t shift;
    Channel a, b, output;
  };
  static int32_t sum(int32_t a, int32_t b, const Summands& s, int32_t low, int32_t high) {
    const int32_t unit = int32_t{1} << s.shift;
    const int32_t first = Step<Each>::code(a * unit, s.a, s32_min, s32_max);
    const int32_t second = Step<Each>::code(b * unit, s.b, s32_min, s32_max);
    return Step<Each>::code(first + second, s.output, low, high);
  }
};

/// One rounding: at bit 30 of the product or, if `right` shifts that bit out, at the last bit
/// shifted out.
template <>
struct Step<requantization::SingleRounding> : IntegerSum<requantization::SingleRounding> {
  using IntegerSum::window;
  static float window(int32_t) { return guess_error; }
  static int32_t code(int32_t sum, const Channel& c, int32_t low, int32_t high) {
    const int32_t v = scaled(sum, c, c.nudge);
    const auto last = static_cast<int32_t>((uint32_t{1} << c.right) >> 1);
    return limited((v >> c.right) + ((v & last) != 0 ? 1 : 0), low, high);
  }
};

/// Rounded high half of the doubled product, then a shift with ties away from zero.
template <>
struct Step<requantization::DoubleRounding> : IntegerSum<requantization::DoubleRounding> {
  using IntegerSum::window;
  /// The first rounding changes a product by up to half a unit before the shift.
  static float window(int32_t shift) {
    return guess_error + (shift == 0 ? 0.0f : std::ldexp(0.5f, -shift));
  }
  static int32_t code(int32_t sum, const Channel& c, int32_t low, int32_t high) {
    const int32_t v = scaled(sum, c, int64_t{1} << 30);
    const auto mask = static_cast<int32_t>((uint32_t{1} << c.right) - 1);
    const int32_t threshold = (mask >> 1) + (v < 0 ? 1 : 0);
    return limited((v >> c.right) + ((v & mask) > threshold ? 1 : 0), low, high);
  }
};

/// An 8-bit code minus its zero point, signed or unsigned: flipping the top bit of s8 adds 128,
/// which `zero` includes.
struct Byte {
  explicit Byte(const CodeOfPair& c) : flip(c.is_signed ? 128 : 0), zero(c.zero_point + flip) {}
  int32_t operator()(uint8_t code) const { return (code ^ flip) - zero; }
  int32_t flip, zero;
};

/// y = `Pair` of codes (bytes) minus their zero points, plus the zero point of y.
template <class Pair>
PairLoop pair_loop() {
  return simd::best<const uint8_t*, const uint8_t*, uint8_t*, int64_t, const PairTerms*>(
      [](const uint8_t* a, const uint8_t* b, uint8_t* y, int64_t n, const PairTerms* terms) {
        const Pair pair(*terms);
        const Byte first(terms->a);
        const Byte second(terms->b);
        const int32_t zero_point = terms->y.zero_point;
        const int32_t low = terms->y.low - zero_point;
        const int32_t high = terms->y.high - zero_point;
        const auto exact = [&](int64_t i, int64_t count) {
          QTAPE_INDEPENDENT
          for (int64_t k = i; k < i + count; ++k) {
            y[k] = static_cast<uint8_t>(pair.code(first(a[k]), second(b[k]), low, high) +
                                        zero_point);
          }
        };
        const bool guess = pair.window > 0 && pair.window <= max_window;
        int64_t i = 0;
        for (; guess && i + guess_block <= n; i += guess_block) {
          // y may be an operand, so its block is buffered.
          std::array<uint8_t, guess_block> codes;
          int32_t near_tie = 0;
          for (int64_t k = 0; k < guess_block; ++k) {
            const Guess g(pair.guess(first(a[i + k]), second(b[i + k])), low, high);
            near_tie |= g.is_near_tie(pair.window);
            codes[static_cast<size_t>(k)] = static_cast<uint8_t>(g.code + zero_point);
          }
          if (near_tie == 0) {
            std::copy_n(codes.data(), guess_block, y + i);
          } else {
            exact(i, guess_block);
          }
        }
        exact(i, n - i);
      });
}

template <class Each>
struct SumOfPair {
  explicit SumOfPair(const PairTerms& t)
      : summands(t.sum),
        a_ratio(t.sum.a_ratio),
        b_ratio(t.sum.b_ratio),
        window(Step<Each>::window(t.sum)),
        sign(t.sign) {}
  float guess(int32_t a, int32_t b) const {
    return static_cast<float>(a) * a_ratio + static_cast<float>(sign * b) * b_ratio;
  }
  int32_t code(int32_t a, int32_t b, int32_t low, int32_t high) const {
    return Step<Each>::sum(a, sign * b, summands, low, high);
  }
  typename Step<Each>::Summands summands;
  float a_ratio, b_ratio;
  float window;
  int32_t sign;
};

template <class Each>
struct ProductOfPair {
  explicit ProductOfPair(const PairTerms& t)
      : channel(channel_of(t.product)), window(Step<Each>::window(shift_of(t.product))) {}
  float guess(int32_t a, int32_t b) const { return static_cast<float>(a * b) * channel.ratio; }
  int32_t code(int32_t a, int32_t b, int32_t low, int32_t high) const {
    return Step<Each>::code(a * b, channel, low, high);
  }
  Channel channel;
  float window;
};

template <class Each, class Code>
RequantizeLoop<Code> loop_of() {
  return simd::best<const int32_t*, Code*, int64_t, const RequantizeTable*,
                    const RequantizeCodes*>([](const int32_t* acc, Code* y, int64_t rows,
                                               const RequantizeTable* table,
                                               const RequantizeCodes* codes) {
    const Arrays t(*table);
    const int64_t total = rows * table->n;
    const int64_t period = table->period;
    const int32_t zero_point = codes->zero_point;
    const int32_t low = codes->low - zero_point;
    const int32_t high = codes->high - zero_point;
    const auto exact = [&](int64_t i, int64_t c, int64_t n) {
      QTAPE_INDEPENDENT
      for (int64_t k = 0; k < n; ++k) {
        const int32_t sum = biased(acc[i + k], t.bias[c + k]);
        y[i + k] =
            static_cast<Code>(Step<Each>::code(sum, t.at(c + k), low, high) + zero_point);
      }
    };
    const float window = Step<Each>::window(table->min_shift);
    const bool guess = sizeof(Code) == 1 && window > 0 && window <= max_window;
    for (int64_t i = 0; i < total; i += period) {
      const int64_t count = period < total - i ? period : total - i;
      int64_t c = 0;
      for (; guess && c + guess_block <= count; c += guess_block) {
        int32_t near_tie = 0;
        QTAPE_INDEPENDENT
        for (int64_t k = 0; k < guess_block; ++k) {
          const int32_t sum = biased(acc[i + c + k], t.bias[c + k]);
          const Guess g(static_cast<float>(sum) * t.ratio[c + k], low, high);
          near_tie |= g.is_near_tie(window);
          y[i + c + k] = static_cast<Code>(g.code + zero_point);
        }
        if (near_tie != 0) exact(i + c, c, guess_block);
      }
      exact(i + c, c, count - c);
    }
  });
}

Multiplier multiplier_at(const RequantizeTable& t, size_t c) {
  return {t.accumulator_scale[c], t.output_scale[c], t.ratio[c], t.mantissa[c],
          static_cast<int32_t>(t.left[c]) - static_cast<int32_t>(t.right[c])};
}

}  // namespace

void RequantizeTable::assign(std::span<const Multiplier> multipliers,
                             std::span<const int64_t> added, int64_t channels) {
  n = channels;
  const auto count = static_cast<size_t>(n);
  require<ArgumentError>(n >= 0 && (multipliers.size() == 1 || multipliers.size() == count) &&
                             (added.empty() || added.size() == count),
                         "{} channels need as many multipliers or 1, and as many offsets or "
                         "none, got {} and {}",
                         n, multipliers.size(), added.size());
  offsets.resize(count);
  for (size_t c = 0; c < count; ++c) offsets[c] = added.empty() ? 0 : added[c];
  const int64_t repeats = n == 0 ? 1 : (min_period + n - 1) / n;
  period = n * repeats;
  const auto resize = [&](auto&... arrays) {
    (arrays.resize(static_cast<size_t>(period)), ...);
  };
  resize(bias, accumulator_scale, output_scale, ratio, mantissa, left, right, nudge);
  min_shift = 0;
  for (const Multiplier& m : multipliers) {
    const int32_t shift = shift_of(m);
    if (shift > 0) min_shift = min_shift == 0 ? shift : std::min(min_shift, shift);
  }
  for (size_t i = 0; i < static_cast<size_t>(period); ++i) {
    const size_t c = i % count;
    const Channel m = channel_of(multipliers[multipliers.size() == 1 ? 0 : c]);
    bias[i] = static_cast<int32_t>(static_cast<uint32_t>(offsets[c]));
    accumulator_scale[i] = m.accumulator_scale;
    output_scale[i] = m.output_scale;
    ratio[i] = m.ratio;
    mantissa[i] = m.mantissa;
    left[i] = m.left;
    right[i] = m.right;
    nudge[i] = m.nudge;
  }
}

template <class Code>
RequantizeLoop<Code> requantize_loop(Requantization requantization) {
  return requantization::dispatch(requantization,
                                  []<class Each>() { return loop_of<Each, Code>(); });
}

template <class Code>
void requantize_s64(const int64_t* acc, Code* y, int64_t rows, const RequantizeTable& table,
                    const RequantizeCodes& codes, Requantization requantization,
                    Accumulator accumulator) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < table.n; ++c) {
      const auto channel = static_cast<size_t>(c);
      const int64_t v = requantize(acc[r * table.n + c] + table.offsets[channel],
                                   multiplier_at(table, channel), requantization, accumulator);
      y[r * table.n + c] =
          static_cast<Code>(std::clamp<int64_t>(v + codes.zero_point, codes.low, codes.high));
    }
  }
}

PairLoop add_loop(Requantization requantization) {
  return requantization::dispatch(requantization,
                                  []<class Each>() { return pair_loop<SumOfPair<Each>>(); });
}

PairLoop multiply_loop(Requantization requantization) {
  return requantization::dispatch(
      requantization, []<class Each>() { return pair_loop<ProductOfPair<Each>>(); });
}

DequantizeLoop dequantize_accumulators_loop() {
  return simd::best<const int32_t*, float*, int64_t, const RequantizeTable*>(
      [](const int32_t* acc, float* y, int64_t rows, const RequantizeTable* table) {
        const Arrays t(*table);
        const int64_t total = rows * table->n;
        const int64_t period = table->period;
        for (int64_t i = 0; i < total; i += period) {
          const int64_t count = period < total - i ? period : total - i;
          QTAPE_INDEPENDENT
          for (int64_t c = 0; c < count; ++c) {
            y[i + c] =
                static_cast<float>(biased(acc[i + c], t.bias[c])) * t.accumulator_scale[c];
          }
        }
      });
}

template RequantizeLoop<uint8_t> requantize_loop<uint8_t>(Requantization);
template RequantizeLoop<int8_t> requantize_loop<int8_t>(Requantization);
template RequantizeLoop<uint16_t> requantize_loop<uint16_t>(Requantization);
template RequantizeLoop<int16_t> requantize_loop<int16_t>(Requantization);

template void requantize_s64(const int64_t*, uint8_t*, int64_t, const RequantizeTable&,
                             const RequantizeCodes&, Requantization, Accumulator);
template void requantize_s64(const int64_t*, int8_t*, int64_t, const RequantizeTable&,
                             const RequantizeCodes&, Requantization, Accumulator);
template void requantize_s64(const int64_t*, uint16_t*, int64_t, const RequantizeTable&,
                             const RequantizeCodes&, Requantization, Accumulator);
template void requantize_s64(const int64_t*, int16_t*, int64_t, const RequantizeTable&,
                             const RequantizeCodes&, Requantization, Accumulator);

}  // namespace qtape::kernels
