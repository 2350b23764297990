#include "qtape/core/described_settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "qtape/core/error.h"

namespace qtape::settings {

std::string spaced(std::string_view key) {
  std::string text(key);
  std::ranges::replace(text, '_', ' ');
  return text;
}

template <class T>
void require_in(std::string_view name, const Limits<T>& limits, std::type_identity_t<T> value) {
  if (limits.contain(value)) return;
  constexpr bool real = std::is_same_v<T, double>;
  const std::string zero = limits.zero.empty() ? "" : fmt::format("0 ({}) or ", limits.zero);
  const std::string range =
      !limits.bounded()
          ? fmt::format("{}>= {}", real ? "finite and " : "", limits.low)
          : fmt::format(real ? "in [{}, {}]" : "in {}..{}", limits.low, limits.high);
  fail<ArgumentError>("{} must be {}{}, got {}", name, zero, range, value);
}
template void require_in(std::string_view, const Limits<int64_t>&, int64_t);
template void require_in(std::string_view, const Limits<uint64_t>&, uint64_t);
template void require_in(std::string_view, const Limits<double>&, double);

void refuse_choice(std::string_view name, const std::vector<std::string>& valid,
                   std::string_view got) {
  std::string text;
  for (size_t i = 0; i < valid.size(); ++i) {
    if (i > 0) text += i + 1 < valid.size() ? ", " : " or ";
    text += valid[i];
  }
  fail<ArgumentError>("{} must be {}, got {}", name, text, got);
}

void require_length(std::string_view key, size_t length, int64_t most) {
  require_in(fmt::format("the number of {}", spaced(key)), Limits<int64_t>{0, most},
             static_cast<int64_t>(length));
}

}  // namespace qtape::settings
