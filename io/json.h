// A JSON value, for writing and reading documents. Included only by .cpp files.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "qtape/core/error.h"

namespace qtape {

/// A string to be written as JSON is not UTF-8.
class NotUtf8 : public Error {
 public:
  using Error::Error;
};

/// Treatment of strings when JSON is written.
enum class JsonTexts : uint8_t {
  Strict,   ///< bytes that are not UTF-8 throw NotUtf8
  Replace,  ///< invalid bytes become the replacement character
  Ascii     ///< like Replace, and characters beyond ASCII are escaped
};

/// A member of an object. A template, so that it is complete as soon as Json is.
template <class Value>
struct JsonMember {
  std::string key;
  Value value;

  bool operator==(const JsonMember&) const = default;
};

/// A JSON value. Objects keep the order of their keys. Unlike nlohmann's values, it is
/// destroyed without allocating memory, so it can be destroyed when memory has run out.
class Json {
 public:
  struct Entry;  // of a list in braces
  using Member = JsonMember<Json>;
  using Array = std::vector<Json>;
  using Object = std::vector<Member>;

  Json() = default;
  Json(std::nullptr_t) {}
  template <std::same_as<bool> T>
  Json(T value) : value_(value) {}
  /// Non-negative integers are stored as uint64_t and others as int64_t, as when text is
  /// parsed.
  template <std::integral T>
  requires(!std::same_as<T, bool>) Json(T value) {
    set_integer(std::cmp_less(value, 0), static_cast<uint64_t>(value));
  }
  template <std::floating_point T>
  Json(T value) : value_(static_cast<double>(value)) {}
  Json(std::string value) : value_(std::move(value)) {}
  Json(std::string_view value) : value_(std::string(value)) {}
  Json(const char* value) : value_(std::string(value)) {}
  Json(Array value) : value_(std::move(value)) {}
  Json(Object value);
  /// An object: `Json{{"a", 1}, {"b", "text"}}`.
  Json(std::initializer_list<Entry> entries);

  static Json array() { return Array(); }
  static Json object();

  bool is_null() const { return holds<std::nullptr_t>(); }
  bool is_boolean() const { return holds<bool>(); }
  bool is_string() const { return holds<std::string>(); }
  bool is_array() const { return holds<Array>(); }
  bool is_object() const { return holds<Object>(); }
  bool is_number_float() const { return holds<double>(); }
  bool is_number_unsigned() const { return holds<uint64_t>(); }
  bool is_number_integer() const { return holds<int64_t>() || is_number_unsigned(); }
  bool is_number() const { return is_number_integer() || is_number_float(); }

  /// The string value.
  const std::string& text() const { return std::get<std::string>(value_); }
  /// The value as a bool or a number, converted without a range check, or as a string.
  template <class T>
  T get() const;

  /// Number of elements of an array or members of an object; 0 for other values.
  size_t size() const;
  /// Members of an object; empty for other values.
  const Object& items() const;
  /// Member of an object with this key, or null if there is none.
  const Member* find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  /// Value of the member with this key. Throws FormatError if there is none.
  const Json& at(std::string_view key) const;
  /// Element of an array.
  const Json& operator[](size_t index) const { return std::get<Array>(value_)[index]; }

  /// Member of an object, added if missing. Null becomes an object.
  Json& operator[](std::string_view key);
  /// Appends an element to an array. Null becomes an array.
  void push_back(Json value);
  /// Sets all members of the object `other` in this object.
  void update(Json other);
  /// Removes a member of an object, if present.
  void erase(std::string_view key);

  /// Calls `visitor` with the stored null, bool, int64_t, uint64_t, double, std::string, Array
  /// or Object.
  template <class Visitor>
  void visit(Visitor&& visitor) const {
    std::visit(visitor, value_);
  }

  /// Formats JSON on one line, or indented by `indent` spaces per level. Numbers that are not
  /// finite become null.
  std::string dump(int indent = -1, JsonTexts texts = JsonTexts::Strict) const;
  /// Appends what `dump` returns, without a copy of it.
  void append_to(std::string& text, int indent = -1, JsonTexts texts = JsonTexts::Strict) const;

  bool operator==(const Json& other) const;

 private:
  template <class T>
  bool holds() const {
    return std::holds_alternative<T>(value_);
  }
  void set_integer(bool negative, uint64_t bits);

  std::variant<std::nullptr_t, bool, int64_t, uint64_t, double, std::string, Array, Object>
      value_ = nullptr;
};

struct Json::Entry {
  std::string_view key;
  mutable Json value;  // initializer lists are const, and the value is moved out of them
};

template <class T>
T Json::get() const {
  if constexpr (std::is_same_v<T, std::string>) {
    return text();
  } else {
    return std::visit(
        [](const auto& value) -> T {
          if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>) {
            return static_cast<T>(value);
          } else {
            throw std::bad_variant_access();
          }
        },
        value_);
  }
}

}  // namespace qtape
