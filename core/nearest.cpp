#include "qtape/core/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "qtape/core/printable.h"

namespace qtape {
namespace {

constexpr size_t max_hints = 2;

/// Edit distance of names of any length, as read from files.
size_t distance(std::string_view given, std::string_view name) {
  return edit_distance(given.substr(0, compared_letters), name.substr(0, compared_letters));
}

}  // namespace

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string nearest(std::string_view given, std::span<const std::string> names) {
  const auto far = [&](const std::string& name) { return distance(given, name); };
  const auto found = std::ranges::min_element(names, {}, far);
  return found == names.end() ? std::string() : *found;
}

std::string nearest_hint(std::string_view given, std::span<const std::string> names) {
  std::vector<std::pair<size_t, size_t>> ranked;  // distance and index
  for (size_t i = 0; i < names.size(); ++i) ranked.emplace_back(distance(given, names[i]), i);
  const size_t count = std::min(max_hints, ranked.size());
  if (count == 0) return {};
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(count),
                    ranked.end());
  std::string text = count == 1 ? "; the nearest is " : "; the nearest are ";
  for (size_t i = 0; i < count; ++i) {
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", printable(names[ranked[i].second]));
  }
  return text;
}

}  // namespace qtape
