// Name matching with wildcards.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace qtape {

/// True if `pattern` matches all of `name`. `*` matches any text, including none; `?` matches
/// any single byte. On a mismatch, the last `*` is extended by one byte.
inline bool matches(std::string_view pattern, std::string_view name) {
  size_t p = 0;
  size_t star = std::string_view::npos;
  size_t retry = 0;
  for (size_t i = 0; i < name.size();) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      retry = i;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[i])) {
      ++p;
      ++i;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      i = ++retry;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

/// Result of matching one pattern of a list with names, each of which belongs to the first
/// pattern that matches it.
enum class PatternUse : uint8_t {
  None,      ///< no name matches
  Preceded,  ///< all names that match belong to preceding entries
  Used
};

/// Returns the use of `entries[k]` for `names`. Entries have a `pattern`.
template <class Entry>
PatternUse pattern_use(std::span<const Entry> entries, size_t k,
                       std::span<const std::string> names) {
  PatternUse use = PatternUse::None;
  for (const std::string& name : names) {
    if (!matches(entries[k].pattern, name)) continue;
    use = PatternUse::Preceded;
    const auto fits = [&](const Entry& each) { return matches(each.pattern, name); };
    if (std::ranges::none_of(entries.first(k), fits)) return PatternUse::Used;
  }
  return use;
}

}  // namespace qtape
