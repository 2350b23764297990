#include "qtape/io/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "qtape/core/printable.h"

namespace qtape {
namespace {

/// True if a string is written unescaped between quotes.
bool is_plain(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
}

/// Formats strings and numbers by nlohmann's library, whose scalars are destroyed without
/// allocating.
void write_scalar(std::string& out, const nlohmann::json& value, JsonTexts texts) {
  using Handler = nlohmann::json::error_handler_t;
  try {
    out += value.dump(-1, ' ', texts == JsonTexts::Ascii,
                      texts == JsonTexts::Strict ? Handler::strict : Handler::replace);
  } catch (const nlohmann::json::exception&) {
    throw NotUtf8(fmt::format("'{}' is not UTF-8", printable(value.get<std::string>())));
  }
}

/// Appends JSON to a string.
class Writer {
 public:
  Writer(std::string& out, int indent, JsonTexts texts)
      : out_(out), indent_(indent), texts_(texts) {}

  void operator()(std::nullptr_t) { out_ += "null"; }
  void operator()(bool value) { out_ += value ? "true" : "false"; }
  void operator()(int64_t value) { out_ += fmt::format("{}", value); }
  void operator()(uint64_t value) { out_ += fmt::format("{}", value); }
  void operator()(double value) { write_scalar(out_, value, texts_); }
  void operator()(const std::string& value) {
    if (!is_plain(value)) return write_scalar(out_, value, texts_);
    out_ += '"';
    out_ += value;
    out_ += '"';
  }
  void operator()(const Json::Array& values) {
    write_all('[', ']', values, [&](const Json& each) { each.visit(*this); });
  }
  void operator()(const Json::Object& members) {
    write_all('{', '}', members, [&](const Json::Member& each) {
      (*this)(each.key);
      out_ += indent_ < 0 ? ":" : ": ";
      each.value.visit(*this);
    });
  }

 private:
  template <class Values, class Write>
  void write_all(char open, char close, const Values& values, const Write& write) {
    out_ += open;
    ++depth_;
    for (const auto& each : values) {
      if (&each != &values.front()) out_ += ',';
      begin_line();
      write(each);
    }
    --depth_;
    if (!values.empty()) begin_line();
    out_ += close;
  }
  void begin_line() {
    if (indent_ < 0) return;
    out_ += '\n';
    out_.append(depth_ * static_cast<size_t>(indent_), ' ');
  }

  std::string& out_;
  int indent_;
  JsonTexts texts_;
  size_t depth_ = 0;
};

}  // namespace

Json::Json(Object value) : value_(std::move(value)) {}

Json::Json(std::initializer_list<Entry> entries) {
  Object members;
  members.reserve(entries.size());
  for (const Entry& each : entries) {
    members.push_back({std::string(each.key), std::move(each.value)});
  }
  value_ = std::move(members);
}

Json Json::object() { return Object(); }

size_t Json::size() const {
  const auto* array = std::get_if<Array>(&value_);
  return array != nullptr ? array->size() : items().size();
}

const Json::Object& Json::items() const {
  static const Object none;
  const auto* object = std::get_if<Object>(&value_);
  return object != nullptr ? *object : none;
}

const Json::Member* Json::find(std::string_view key) const {
  const auto found = std::ranges::find(items(), key, &Member::key);
  return found == items().end() ? nullptr : &*found;
}

const Json& Json::at(std::string_view key) const {
  const Member* found = find(key);
  require<FormatError>(found != nullptr, "\"{}\" is missing", key);
  return found->value;
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = Object();
  auto& members = std::get<Object>(value_);
  const auto found = std::ranges::find(members, key, &Member::key);
  if (found != members.end()) return found->value;
  return members.emplace_back(Member{std::string(key), {}}).value;
}

void Json::set_integer(bool negative, uint64_t bits) {
  if (negative) {
    value_ = static_cast<int64_t>(bits);
  } else {
    value_ = bits;
  }
}

void Json::push_back(Json value) {
  if (is_null()) value_ = Array();
  std::get<Array>(value_).push_back(std::move(value));
}

void Json::update(Json other) {
  for (Member& each : std::get<Object>(other.value_)) (*this)[each.key] = std::move(each.value);
}

void Json::erase(std::string_view key) {
  std::erase_if(std::get<Object>(value_), [&](const Member& each) { return each.key == key; });
}

std::string Json::dump(int indent, JsonTexts texts) const {
  std::string out;
  append_to(out, indent, texts);
  return out;
}

void Json::append_to(std::string& text, int indent, JsonTexts texts) const {
  visit(Writer(text, indent, texts));
}

bool Json::operator==(const Json& other) const { return value_ == other.value_; }

}  // namespace qtape
