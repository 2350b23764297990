// JSON of attributes, derived from their field lists. Included only by .cpp files.
#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "qtape/core/byte_order.h"
#include "qtape/core/error.h"
#include "qtape/core/fields.h"
#include "qtape/core/printable.h"
#include "qtape/core/types.h"
#include "qtape/core/value_kinds.h"
#include "qtape/io/base64.h"
#include "qtape/io/json.h"

namespace qtape {

/// A key as shown in JSON pointers in messages.
std::string json_pointer_part(std::string_view key);

/// A position in a document: its value, and its path from the root. The JSON pointer is built
/// only if an error occurs. The parent must outlive the place.
struct JsonPlace {
  const Json& json;
  const JsonPlace* parent = nullptr;  ///< null for the root
  std::string_view key = {};          ///< key, if the parent is an object
  size_t index = 0;                   ///< index, if the parent is an array

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    throw FormatError(path() + ": " + fmt::format(text, std::forward<Args>(args)...));
  }
  /// JSON pointer with keys escaped by `printable`; `/` for the root.
  std::string path() const;
  /// The value, shortened for a message.
  std::string shown() const;
  void expect(bool right, std::string_view what) const {
    if (!right) fail("expected {}, got {}", what, shown());
  }
  /// Place of `value`, the member `name` of this object.
  JsonPlace child(std::string_view name, const Json& value) const& {
    return {value, this, name, 0};
  }
  JsonPlace member(std::string_view name) const& {
    const Json::Member* found = json.find(name);
    if (found == nullptr) fail("\"{}\" is missing", name);
    return child(found->key, found->value);
  }
  JsonPlace element(size_t i) const& { return {json[i], this, {}, i}; }
  JsonPlace child(std::string_view, const Json&) const&& = delete;
  JsonPlace member(std::string_view) const&& = delete;
  JsonPlace element(size_t) const&& = delete;
};

template <class T>
Json write_json(const T& value);
template <class T>
void read_json(const JsonPlace& place, T& value);

namespace detail {

template <class T>
Json write_vector(const std::vector<T>& value) {
  Json::Array array;
  array.reserve(value.size());
  for (const T& each : value) array.push_back(write_json(each));
  return array;
}

/// A member of a described value that is written, without its type.
struct WrittenMember {
  std::string_view key;
  const void* value;
  Json (*write)(const void* value);
  bool omitted;  ///< an optional number with its default
};
Json write_members(std::span<const WrittenMember> members);

/// A member of a described value that is read, without its type.
struct ReadMember {
  std::string_view key;
  void* value;
  void (*read)(const JsonPlace& place, void* value);
};
/// `owner` is the name of the described value in messages.
void read_members(const JsonPlace& place, std::span<const ReadMember> members,
                  std::string_view owner);

template <class T>
Json write_erased(const void* value) {
  return write_json(*static_cast<const T*>(value));
}
template <class T>
void read_erased(const JsonPlace& place, void* value) {
  read_json(place, *static_cast<T*>(value));
}

/// True for an optional number with its default.
template <Described T, class Owner, class Value>
bool is_omitted(const Field<Owner, Value>& each, const T& value) {
  if constexpr (std::is_arithmetic_v<Value>) {
    return each.optional && value.*each.member == T{}.*each.member;
  }
  return false;
}

template <Described T>
Json write_fields(const T& value) {
  return std::apply(
      [&]<class... Owners, class... Values>(const Field<Owners, Values>&... each) {
        return write_members(std::array<WrittenMember, sizeof...(each)>{
            WrittenMember{each.key, &(value.*each.member), &write_erased<Values>,
                          is_omitted(each, value)}...});
      },
      T::fields());
}

template <Described T>
void read_fields(const JsonPlace& place, T& value) {
  // Options have no name, and a record may have a member that is called so.
  std::string_view owner;
  if constexpr (requires { requires !std::is_member_pointer_v<decltype(&T::name)>; }) {
    owner = T::name;
  }
  std::apply(
      [&]<class... Owners, class... Values>(const Field<Owners, Values>&... each) {
        read_members(place,
                     std::array<ReadMember, sizeof...(each)>{
                         ReadMember{each.key, &(value.*each.member), &read_erased<Values>}...},
                     owner);
      },
      T::fields());
}

template <class T>
Json write_variant(const T& value) {
  return std::visit(
      [](const auto& each) -> Json {
        using Alternative = std::decay_t<decltype(each)>;
        const std::string name(Alternative::name);
        if constexpr (std::tuple_size_v<decltype(Alternative::fields())> == 0) {
          return name;
        } else {
          return Json{{name, write_fields(each)}};
        }
      },
      value);
}

/// An alternative of a variant: its name, and how it is read; without a place, with defaults.
struct JsonAlternative {
  std::string_view name;
  void (*read)(const JsonPlace* place, void* variant);
};
/// Externally tagged: `"PerBatch"` or `{"EMA": {"decay": 0.99}}`.
void read_alternative(const JsonPlace& place, std::span<const JsonAlternative> alternatives,
                      void* variant);

template <class T>
void read_variant(const JsonPlace& place, T& value) {
  static constexpr auto alternatives = []<class... Ts>(const std::variant<Ts...>*) {
    return std::array{JsonAlternative{Ts::name, [](const JsonPlace* from, void* variant) {
                                        auto& read =
                                            static_cast<T*>(variant)->template emplace<Ts>();
                                        if (from != nullptr) read_fields(*from, read);
                                      }}...};
  }(static_cast<const T*>(nullptr));
  T read;
  read_alternative(place, alternatives, &read);
  value = std::move(read);
}

template <class T>
void read_enum(const JsonPlace& place, T& value) {
  if (!place.json.is_string()) place.expect(false, "one of " + spellings<T>());
  const std::string& text = place.json.text();
  const auto found = from_string<T>(text);
  if (!found) {
    place.fail("unknown value \"{}\"; expected one of {}", printable(text), spellings<T>());
  }
  value = *found;
}

template <class T>
void read_integer(const JsonPlace& place, T& value) {
  place.expect(place.json.is_number_integer(), "an integer");
  const bool fits =
      place.json.is_number_unsigned()
          ? place.json.get<uint64_t>() <= uint64_t(std::numeric_limits<T>::max())
          : place.json.get<int64_t>() >= int64_t{std::numeric_limits<T>::min()} &&
                place.json.get<int64_t>() <= int64_t{std::numeric_limits<T>::max()};
  if (!fits) place.expect(false, fmt::format("an integer of {} bits", 8 * sizeof(T)));
  value = place.json.get<T>();
}

template <class T>
void read_vector(const JsonPlace& place, std::vector<T>& value) {
  place.expect(place.json.is_array(), "an array");
  value.clear();
  for (size_t i = 0; i < place.json.size(); ++i) {
    T element{};
    read_json(place.element(i), element);
    value.push_back(std::move(element));
  }
}

inline void read_shape(const JsonPlace& place, Shape& shape) {
  std::vector<int64_t> extents;
  read_vector(place, extents);
  try {
    shape = Shape(extents);
  } catch (const GraphError& error) {
    place.fail("{}", error.what());
  }
}

inline Json write_tensor(const Tensor& tensor) {
  return {
      {"dtype", write_json(tensor.type.dtype)},
      {"shape", write_json(tensor.type.shape)},
      {"data", base64_encode(LittleEndian(tensor.data, size_of(tensor.type.dtype)).bytes())}};
}

inline void read_tensor(const JsonPlace& place, Tensor& tensor) {
  place.expect(place.json.is_object(), "an object with dtype, shape and data");
  for (const auto& [key, json] : place.json.items()) {
    if (key == "dtype" || key == "shape" || key == "data") continue;
    place.child(key, json).fail("unknown key; expected one of dtype, shape, data");
  }
  read_json(place.member("dtype"), tensor.type.dtype);
  read_json(place.member("shape"), tensor.type.shape);
  const JsonPlace data = place.member("data");
  data.expect(data.json.is_string(), "base64 text");
  auto bytes = base64_decode(data.json.text());
  data.expect(bytes.has_value(), "base64 text");
  if (static_cast<int64_t>(bytes->size()) != tensor.type.bytes()) {
    data.fail("expected {} bytes for {}, got {}", tensor.type.bytes(), to_string(tensor.type),
              bytes->size());
  }
  convert_little_endian(*bytes, size_of(tensor.type.dtype));
  tensor.data = std::move(*bytes);
}

}  // namespace detail

template <class T>
Json write_json(const T& value) {
  if constexpr (requires { to_string_view(value); }) {
    return std::string(to_string_view(value));
  } else if constexpr (is_variant<T>) {
    return detail::write_variant(value);
  } else if constexpr (is_optional<T>) {
    return value ? write_json(*value) : Json(nullptr);
  } else if constexpr (is_vector<T>) {
    return detail::write_vector(value);
  } else if constexpr (std::is_same_v<T, Tensor>) {
    return detail::write_tensor(value);
  } else if constexpr (std::is_same_v<T, Shape>) {
    return detail::write_vector(
        std::vector<int64_t>(value.extents().begin(), value.extents().end()));
  } else if constexpr (Described<T>) {
    return detail::write_fields(value);
  } else {
    return Json(value);
  }
}

template <class T>
void read_json(const JsonPlace& place, T& value) {
  if constexpr (NamedEnum<T>) {
    detail::read_enum(place, value);
  } else if constexpr (is_variant<T>) {
    detail::read_variant(place, value);
  } else if constexpr (is_optional<T>) {
    value.reset();
    if (!place.json.is_null()) read_json(place, value.emplace());
  } else if constexpr (std::is_same_v<T, Tensor>) {
    detail::read_tensor(place, value);
  } else if constexpr (std::is_same_v<T, Shape>) {
    detail::read_shape(place, value);
  } else if constexpr (Described<T>) {
    detail::read_fields(place, value);
  } else if constexpr (is_vector<T>) {
    detail::read_vector(place, value);
  } else if constexpr (std::is_same_v<T, bool>) {
    place.expect(place.json.is_boolean(), "true or false");
    value = place.json.get<bool>();
  } else if constexpr (std::is_integral_v<T>) {
    detail::read_integer(place, value);
  } else if constexpr (std::is_floating_point_v<T>) {
    place.expect(place.json.is_number(), "a number");
    value = place.json.get<T>();
  } else {
    place.expect(place.json.is_string(), "a string");
    value = place.json.get<std::string>();
  }
}

}  // namespace qtape
