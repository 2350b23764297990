#include "qtape/core/nearest.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace qtape {

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
  const auto far = [&](const std::string& name) { return edit_distance(given, name); };
  const auto found = std::ranges::min_element(names, {}, far);
  return found == names.end() ? std::string() : *found;
}

}  // namespace qtape
