// Name matching with wildcards.
#pragma once

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

}  // namespace qtape
