#include "qtape/c99/c_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace qtape {
namespace {

// Keywords of C and C++, `main`, and macros that compilers define in lower case.
constexpr auto keywords = std::to_array<std::string_view>({"alignas",     "alignof",
                                                           "and",         "and_eq",
                                                           "asm",         "auto",
                                                           "bitand",      "bitor",
                                                           "bool",        "break",
                                                           "case",        "catch",
                                                           "char",        "char16_t",
                                                           "char32_t",    "char8_t",
                                                           "class",       "co_await",
                                                           "co_return",   "co_yield",
                                                           "compl",       "concept",
                                                           "const",       "const_cast",
                                                           "consteval",   "constexpr",
                                                           "constinit",   "continue",
                                                           "decltype",    "default",
                                                           "delete",      "do",
                                                           "double",      "dynamic_cast",
                                                           "else",        "enum",
                                                           "explicit",    "export",
                                                           "extern",      "false",
                                                           "float",       "for",
                                                           "friend",      "goto",
                                                           "i386",        "if",
                                                           "inline",      "int",
                                                           "linux",       "long",
                                                           "main",        "mutable",
                                                           "namespace",   "new",
                                                           "noexcept",    "not",
                                                           "not_eq",      "nullptr",
                                                           "operator",    "or",
                                                           "or_eq",       "private",
                                                           "protected",   "public",
                                                           "register",    "reinterpret_cast",
                                                           "requires",    "restrict",
                                                           "return",      "short",
                                                           "signed",      "sizeof",
                                                           "static",      "static_assert",
                                                           "static_cast", "struct",
                                                           "switch",      "template",
                                                           "this",        "thread_local",
                                                           "throw",       "true",
                                                           "try",         "typedef",
                                                           "typeid",      "typename",
                                                           "typeof",      "union",
                                                           "unix",        "unsigned",
                                                           "using",       "virtual",
                                                           "void",        "volatile",
                                                           "wchar_t",     "while",
                                                           "xor",         "xor_eq"});

/// Headers of the C library, which the header of a program of the same name would shadow.
constexpr auto headers = std::to_array<std::string_view>(
    {"assert",  "complex", "ctype",  "errno",  "fenv",   "float",       "inttypes", "iso646",
     "limits",  "locale",  "math",   "setjmp", "signal", "stdalign",    "stdarg",   "stdatomic",
     "stdbool", "stddef",  "stdint", "stdio",  "stdlib", "stdnoreturn", "string",   "strings",
     "tgmath",  "threads", "time",   "uchar",  "unistd", "wchar",       "wctype"});

/// Compares without case, because file systems may be case-insensitive.
bool is_header(std::string_view name) {
  return std::ranges::any_of(
      headers, [&](std::string_view each) { return c_macro(each) == c_macro(name); });
}

bool is_keyword(std::string_view name) { return std::ranges::count(keywords, name) > 0; }
bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// True if headers may define a macro of that name: it has no lower-case letter.
bool is_macro(std::string_view name) {
  return std::ranges::none_of(name, [](unsigned char c) { return std::islower(c) != 0; });
}

}  // namespace

std::string refused_c_name(std::string_view name) {
  if (name.empty()) return "it is empty";
  if (is_digit(name[0])) return "it begins with a digit";
  if (name[0] == '_') return "names that begin with an underscore are reserved for compilers";
  const auto other =
      std::ranges::find_if(name, [](char c) { return !is_letter(c) && c != '_'; });
  if (other != name.end()) {
    return *other >= ' ' && *other < 127
               ? fmt::format("it contains '{}'", *other)
               : "it contains characters other than ASCII letters, digits and underscores";
  }
  if (name == "main") return "it is the entry point of programs";
  if (is_keyword(name)) return "it is a keyword of C or C++";
  if (is_header(name)) return "it is the name of a header of the C library";
  // C99 guarantees 63 significant characters for internal identifiers.
  constexpr size_t longest = 63;
  if (name.size() > longest) return fmt::format("it has more than {} characters", longest);
  if (name.ends_with("_test")) return "names that end in _test are reserved for self-tests";
  return {};
}

std::string c_words(std::string_view text) {
  std::string name;
  for (char c : text) {
    if (is_letter(c)) name += c;
    if (!is_letter(c) && !name.empty() && name.back() != '_') name += '_';
  }
  while (!name.empty() && name.back() == '_') name.pop_back();
  return name;
}

std::string c_macro(std::string_view name) {
  std::string all(name);
  for (char& c : all) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return all;
}

std::string c_comment(std::string_view text) {
  std::string all;
  for (char c : text) {
    const char last = all.empty() ? ' ' : all.back();
    const bool bounds = (c == '/' && last == '*') || (c == '*' && last == '/');
    all += bounds ? ' ' : (c >= ' ' && c < 127) ? c : '?';
  }
  return all;
}

CIdentifiers::CIdentifiers(std::set<std::string> used, std::string reserved)
    : used_(std::move(used)), reserved_(std::move(reserved)) {}

std::string CIdentifiers::of(std::string_view label, int64_t number) {
  std::string name = c_words(label);
  if (name.empty() || is_digit(name[0])) name = fmt::format("n{}{}", number, name);
  const bool alone = !reserved_.empty();
  if (is_keyword(name) || (alone && is_macro(name))) name += "_value";
  if (alone && name.starts_with(reserved_)) name.insert(0, "value_");
  std::string unique = name;
  for (int count = 2; !used_.insert(unique).second; ++count) {
    unique = fmt::format("{}_{}", name, count);
  }
  return unique;
}

}  // namespace qtape
