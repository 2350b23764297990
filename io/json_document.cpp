#include "qtape/io/json_document.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "qtape/core/float_environment.h"

namespace qtape {
namespace {

using Member = Json::Member;  // elements of an array have an empty key
using Parser = nlohmann::json;

constexpr size_t few_members = 8;

/// A key that occurs twice in `members`, or null.
const std::string* repeated_key(std::span<const Member> members) {
  if (members.size() <= few_members) {
    for (auto it = members.begin(); it != members.end(); ++it) {
      const auto same = [&](const Member& other) { return other.key == it->key; };
      if (std::find_if(members.begin(), it, same) != it) return &it->key;
    }
    return nullptr;
  }
  std::vector<const std::string*> keys;
  keys.reserve(members.size());
  for (const Member& member : members) keys.push_back(&member.key);
  const auto text = [](const std::string* key) -> const std::string& { return *key; };
  std::ranges::sort(keys, {}, text);
  const auto found = std::ranges::adjacent_find(keys, {}, text);
  return found == keys.end() ? nullptr : *found;
}

/// Builds a document from the events of nlohmann's parser. Containers are created at their end,
/// with their final size, because a growing object copies its contents.
class Builder {
 public:
  Json take() { return std::move(values_.front().value); }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Parser::binary_t&) { return false; }  // not produced by JSON text
  bool start_object(size_t) { return open(false); }
  bool start_array(size_t) { return open(true); }
  bool key(std::string& value) {
    key_ = std::move(value);
    return true;
  }
  bool end_object() {
    const std::span<Member> members = innermost();
    if (const std::string* key = repeated_key(members)) fail_repeated(*key);
    return close(Json::Object(std::make_move_iterator(members.begin()),
                              std::make_move_iterator(members.end())));
  }
  bool end_array() {
    Json::Array array;
    array.reserve(innermost().size());
    for (Member& each : innermost()) array.push_back(std::move(each.value));
    return close(std::move(array));
  }
  [[noreturn]] bool parse_error(size_t byte, const std::string&,
                                const Parser::exception& error) {
    if (dynamic_cast<const Parser::parse_error*>(&error) != nullptr) {
      fail<FormatError>("/: is not JSON: unexpected or missing text at byte {}", byte);
    }
    // Number out of range: the message names the number after nlohmann's own "[id] " prefix.
    const std::string_view what = error.what();
    fail<FormatError>("/: is not JSON: {}",
                      printable(what.substr(std::min(what.find("] ") + 2, what.size()))));
  }

 private:
  /// A container whose end was not read yet.
  struct Open {
    bool is_array;
    size_t first;     // index of its first value
    std::string key;  // key of the container itself
  };

  bool add(Json value) {
    values_.push_back({std::exchange(key_, {}), std::move(value)});
    return true;
  }
  bool open(bool is_array) {
    require<FormatError>(open_.size() < deepest_nesting, "/: nested deeper than {} levels",
                         deepest_nesting);
    open_.push_back({is_array, values_.size(), std::exchange(key_, {})});
    return true;
  }
  bool close(Json container) {
    values_.erase(values_.begin() + static_cast<std::ptrdiff_t>(open_.back().first),
                  values_.end());
    key_ = std::move(open_.back().key);
    open_.pop_back();
    return add(std::move(container));
  }
  std::span<Member> innermost() { return std::span(values_).subspan(open_.back().first); }

  [[noreturn]] void fail_repeated(const std::string& key) const {
    std::string path;
    for (size_t i = 1; i < open_.size(); ++i) {
      path += open_[i - 1].is_array ? fmt::format("/{}", open_[i].first - open_[i - 1].first)
                                    : fmt::format("/{}", json_pointer_part(open_[i].key));
    }
    fail<FormatError>("{}/{}: the object has this key twice", path, json_pointer_part(key));
  }

  std::vector<Open> open_;      // outermost to innermost
  std::vector<Member> values_;  // values of all open containers, in order
  std::string key_;             // key of the next value
};

/// Reads up to the first key of the outermost object that is one of `names`.
class KeyFinder {
 public:
  explicit KeyFinder(std::span<const std::string_view> names) : names_(names) {}
  std::string take() { return std::move(found_); }

  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(int64_t) { return true; }
  bool number_unsigned(uint64_t) { return true; }
  bool number_float(double, const std::string&) { return true; }
  bool string(std::string&) { return true; }
  bool binary(Parser::binary_t&) { return true; }
  bool start_object(size_t) { return open(); }
  bool key(std::string& name) {
    if (depth_ != 1 || std::ranges::find(names_, name) == names_.end()) return true;
    found_ = name;
    return false;
  }
  bool end_object() { return close(); }
  bool start_array(size_t) { return open(); }
  bool end_array() { return close(); }
  bool parse_error(size_t, const std::string&, const Parser::exception&) { return false; }

 private:
  bool open() { return ++depth_ <= deepest_nesting; }
  bool close() {
    --depth_;
    return true;
  }

  std::span<const std::string_view> names_;
  std::string found_;
  size_t depth_ = 0;
};

}  // namespace

Json parse_document(std::string_view text) {
  const FloatEnvironment floats;
  Builder builder;
  Parser::sax_parse(text, &builder);
  // The parser treats a NUL byte as the end of the text.
  const size_t nul = text.find('\0');
  require<FormatError>(nul == std::string_view::npos,
                       "/: is not JSON: unexpected or missing text at byte {}", nul + 1);
  return builder.take();
}

std::string first_key(std::string_view text, std::initializer_list<std::string_view> names) {
  KeyFinder finder(std::span(names.begin(), names.size()));
  Parser::sax_parse(text, &finder);
  return finder.take();
}

}  // namespace qtape
