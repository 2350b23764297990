// Names in C programs, made of labels or given.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace qtape {

/// Whether `name` can begin the names of a C program. Nothing, or why not.
std::string refused_c_name(std::string_view name);

/// The letters and digits of `text`, with an underscore where there is anything else between
/// them. May begin with a digit, be empty or a keyword.
std::string c_words(std::string_view text);

/// The name of a macro of a program: `NET` of `net`.
std::string c_macro(std::string_view name);

/// `text` for a comment, without what would begin or end one.
std::string c_comment(std::string_view text);

/// C identifiers of labels, each once.
class CIdentifiers {
 public:
  /// None is one of `used`. With `reserved`, which none begins with, they stand without a
  /// prefix.
  explicit CIdentifiers(std::set<std::string> used = {}, std::string reserved = {});

  /// The identifier of `label`; `number` makes one of a label that has no letter in front.
  std::string of(std::string_view label, int64_t number);

 private:
  std::set<std::string> used_;
  std::string reserved_;
};

}  // namespace qtape
