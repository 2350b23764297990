// C identifiers, derived from labels or given by the caller.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace qtape {

/// Returns why `name` cannot be the prefix of a C program; empty if it can.
std::string refused_c_name(std::string_view name);

/// Returns the letters and digits of `text`, with one underscore for any other characters
/// between them. The result may begin with a digit, be empty or be a keyword.
std::string c_words(std::string_view text);

/// Returns the prefix of the macros of a program: `NET` for `net`.
std::string c_macro(std::string_view name);

/// Returns `text` for use in a comment, without anything that would begin or end one.
std::string c_comment(std::string_view text);

/// Unique C identifiers derived from labels.
class CIdentifiers {
 public:
  /// No identifier is one of `used`. If `reserved` is given, identifiers are used without a
  /// prefix: none begins with `reserved` or looks like a macro.
  explicit CIdentifiers(std::set<std::string> used = {}, std::string reserved = {});

  /// Returns the identifier of `label`; `number` is used for a label that does not begin with a
  /// letter.
  std::string of(std::string_view label, int64_t number);

 private:
  std::set<std::string> used_;
  std::string reserved_;
};

}  // namespace qtape
