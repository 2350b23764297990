#include "qtape/onnx/import/batch_numbers.h"

#include <fmt/format.h>

#include <optional>

#include "qtape/core/error.h"

namespace qtape {

int64_t batch_times(int64_t factor) {
  require<FormatError>(factor >= 1 && factor <= max_batches,
                       "{} times the batch exceeds the largest tensor", factor);
  return onnx_batch + (factor - 1);
}

std::string onnx_number(int64_t number) {
  if (!is_batch(number)) return fmt::format("{}", number);
  const int64_t factor = batch_factor(number);
  return factor == 1 ? "batch" : fmt::format("{} batch", factor);
}

std::string extents_text(const std::vector<int64_t>& extents) {
  std::vector<std::string> texts;
  for (const int64_t each : extents) texts.push_back(onnx_number(each));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

namespace {

/// Returns the result for numbers that do not depend on the batch.
int64_t plain(std::string_view op, int64_t a, int64_t b) {
  int64_t y = 0;
  bool overflows = false;
  if (op == "Add") overflows = __builtin_add_overflow(a, b, &y);
  if (op == "Sub") overflows = __builtin_sub_overflow(a, b, &y);
  if (op == "Mul") overflows = __builtin_mul_overflow(a, b, &y);
  if (op == "Div" || op == "Mod" || op == "FMod") {
    require<FormatError>(b != 0, "division by 0");
    overflows = b == -1 && a == INT64_MIN;
    if (!overflows) y = op == "Div" ? a / b : a % b;
    // Mod has the sign of the divisor, FMod that of the dividend.
    if (op == "Mod" && y != 0 && (y < 0) != (b < 0)) y += b;
  }
  require<FormatError>(!overflows && !is_batch(y), "{} of {} and {} overflows", op, a, b);
  return y;
}

std::optional<int64_t> sum(int64_t a, int64_t b) {
  if (a == 0) return b;
  if (b == 0) return a;
  if (is_batch(a) && is_batch(b)) return batch_times(batch_factor(a) + batch_factor(b));
  return std::nullopt;
}

std::optional<int64_t> difference(int64_t a, int64_t b) {
  if (b == 0) return a;
  if (a == b) return 0;
  const bool both = is_batch(a) && is_batch(b);
  if (both && a > b) return batch_times(batch_factor(a) - batch_factor(b));
  return std::nullopt;
}

std::optional<int64_t> multiple(int64_t a, int64_t b) {
  if (is_batch(a) && is_batch(b)) return std::nullopt;
  const int64_t times = is_batch(a) ? b : a;
  const int64_t factor = batch_factor(is_batch(a) ? a : b);
  if (times == 0) return 0;
  if (times < 0 || times > max_batches / factor) return std::nullopt;
  return batch_times(factor * times);
}

std::optional<int64_t> quotient(int64_t a, int64_t b) {
  if (!is_batch(a)) return a == 0 ? std::optional<int64_t>(0) : std::nullopt;
  if (is_batch(b)) return batch_factor(a) / batch_factor(b);
  if (b < 1 || batch_factor(a) % b != 0) return std::nullopt;
  return batch_times(batch_factor(a) / b);
}

std::optional<int64_t> remainder(int64_t a, int64_t b) {
  if (!is_batch(a)) return a == 0 ? std::optional<int64_t>(0) : std::nullopt;
  if (!is_batch(b)) {
    return b >= 1 && batch_factor(a) % b == 0 ? std::optional<int64_t>(0) : std::nullopt;
  }
  const int64_t rest = batch_factor(a) % batch_factor(b);
  return rest == 0 ? 0 : batch_times(rest);
}

/// Range of a number for any number of samples of at least 1.
struct Bounds {
  int64_t least;
  int64_t most;

  explicit Bounds(int64_t number, int64_t samples) : least(number), most(number) {
    if (!is_batch(number)) return;
    least = batch_factor(number);
    most = INT64_MAX;
    if (samples > 0 && least <= max_batches / samples) least = most = least * samples;
  }
};

/// Returns the sign of a - b if it is the same for all numbers of samples; -2 if a <= b, 2 if
/// a >= b.
std::optional<int> order(int64_t a, int64_t b, int64_t samples) {
  if (is_batch(a) && is_batch(b)) return a < b ? -1 : a > b ? 1 : 0;
  const Bounds left(a, samples), right(b, samples);
  if (left.most < right.least) return -1;
  if (left.least > right.most) return 1;
  if (left.least == left.most && left.least == right.least && right.least == right.most) {
    return 0;
  }
  if (left.most <= right.least) return -2;
  if (left.least >= right.most) return 2;
  return std::nullopt;
}

std::optional<int64_t> equal(int64_t a, int64_t b, int64_t samples) {
  const std::optional<int> sign = order(a, b, samples);
  if (sign == 0) return 1;
  if (sign == 1 || sign == -1) return 0;
  const int64_t multiple = is_batch(a) ? a : b, number = is_batch(a) ? b : a;
  if (number % batch_factor(multiple) != 0) return 0;
  return std::nullopt;
}

std::optional<int64_t> compared(std::string_view op, int64_t a, int64_t b, int64_t samples) {
  if (op == "Equal") return equal(a, b, samples);
  const std::optional<int> sign = order(a, b, samples);
  if (!sign) return std::nullopt;
  const bool below = *sign<0, above = *sign> 0, maybe_equal = *sign % 2 == 0;
  if (op == "Min") return above ? b : a;
  if (op == "Max") return below ? b : a;
  if (op == "Less" && (above || !maybe_equal)) return below ? 1 : 0;
  if (op == "Less" && *sign == 0) return 0;
  if (op == "Greater" && (below || !maybe_equal)) return above ? 1 : 0;
  if (op == "Greater" && *sign == 0) return 0;
  if (op == "LessOrEqual" && (below || *sign != 2)) return above ? 0 : 1;
  if (op == "GreaterOrEqual" && (above || *sign != -2)) return below ? 0 : 1;
  return std::nullopt;
}

}  // namespace

int64_t folded_integers(std::string_view op, int64_t a, int64_t b, int64_t samples) {
  if (op == "And") return a != 0 && b != 0 ? 1 : 0;
  if (op == "Or") return a != 0 || b != 0 ? 1 : 0;
  if (op == "Xor") return (a != 0) != (b != 0) ? 1 : 0;
  const bool arithmetic =
      op == "Add" || op == "Sub" || op == "Mul" || op == "Div" || op == "Mod" || op == "FMod";
  if (arithmetic && !is_batch(a) && !is_batch(b)) return plain(op, a, b);
  std::optional<int64_t> y;
  if (op == "Add") y = sum(a, b);
  if (op == "Sub") y = difference(a, b);
  if (op == "Mul") y = multiple(a, b);
  if (op == "Div") y = quotient(a, b);
  if (op == "Mod" || op == "FMod") y = remainder(a, b);
  if (!arithmetic) y = compared(op, a, b, samples);
  require<FormatError>(y.has_value(), "{} of {} and {} depends on the number of samples", op,
                       onnx_number(a), onnx_number(b));
  return *y;
}

}  // namespace qtape
