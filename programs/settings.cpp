#include "qtape/programs/settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "qtape/core/error.h"

namespace qtape::examples {
namespace {

std::string replaced(std::string_view key, char by) {
  std::string text(key);
  std::ranges::replace(text, '_', by);
  return text;
}

template <class T>
void require_contained(std::string_view name, const Limits<T>& limits, T value,
                       const std::string& range) {
  if (limits.contain(value)) return;
  const std::string zero = limits.zero.empty() ? "" : fmt::format("0 ({}) or ", limits.zero);
  fail<ArgumentError>("{} must be {}{}, got {}", name, zero, range, value);
}

}  // namespace

std::string option_name(std::string_view key) { return "--" + replaced(key, '-'); }

std::string spaced(std::string_view key) { return replaced(key, ' '); }

void require_in(std::string_view name, const Limits<int64_t>& limits, int64_t value) {
  require_contained(name, limits, value,
                    limits.bounded() ? fmt::format("in {}..{}", limits.low, limits.high)
                                     : fmt::format(">= {}", limits.low));
}

void require_in(std::string_view name, const Limits<double>& limits, double value) {
  require_contained(name, limits, value,
                    limits.bounded() ? fmt::format("in [{}, {}]", limits.low, limits.high)
                                     : fmt::format("finite and >= {}", limits.low));
}

void require_length(std::string_view key, size_t length, int64_t most) {
  require_in(fmt::format("the number of {}", spaced(key)), Limits<int64_t>{0, most},
             static_cast<int64_t>(length));
}

}  // namespace qtape::examples
