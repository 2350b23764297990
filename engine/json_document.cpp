#include "qtape/engine/json_document.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

namespace qtape {
namespace {

/// A value and, within an object, its key.
using Member = std::pair<std::string, Json>;

constexpr size_t few_members = 8;

/// A key that two of `members` have, or null.
const std::string* repeated_key(std::span<const Member> members) {
  if (members.size() <= few_members) {
    for (auto it = members.begin(); it != members.end(); ++it) {
      const auto same = [&](const Member& other) { return other.first == it->first; };
      if (std::find_if(members.begin(), it, same) != it) return &it->first;
    }
    return nullptr;
  }
  std::vector<const std::string*> keys;
  keys.reserve(members.size());
  for (const Member& member : members) keys.push_back(&member.first);
  const auto text = [](const std::string* key) -> const std::string& { return *key; };
  std::ranges::sort(keys, {}, text);
  const auto found = std::ranges::adjacent_find(keys, {}, text);
  return found == keys.end() ? nullptr : *found;
}

/// Builds a document from the events of nlohmann's parser. Containers are made when they end,
/// of their right size: a growing object copies all that is in it.
class Builder {
 public:
  Json take() { return std::move(values_.front().second); }

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // no JSON text has any
  bool start_object(size_t) { return open(false); }
  bool start_array(size_t) { return open(true); }
  bool key(std::string& value) {
    key_ = std::move(value);
    return true;
  }
  bool end_object() {
    const std::span<Member> members = innermost();
    if (const std::string* key = repeated_key(members)) fail_repeated(*key);
    Json::object_t object;
    object.reserve(members.size());
    for (Member& each : members) {
      object.emplace_back(std::move(each.first), std::move(each.second));
    }
    return close(std::move(object));
  }
  bool end_array() {
    Json::array_t array;
    array.reserve(innermost().size());
    for (Member& each : innermost()) array.push_back(std::move(each.second));
    return close(std::move(array));
  }
  [[noreturn]] bool parse_error(size_t byte, const std::string&, const Json::exception& error) {
    if (dynamic_cast<const Json::parse_error*>(&error) != nullptr) {
      fail<FormatError>("/: is not JSON: wrong or missing text at byte {}", byte);
    }
    // Numbers out of range: the message names the number, after nlohmann's own "[id] " prefix.
    const std::string_view what = error.what();
    fail<FormatError>("/: is not JSON: {}",
                      printable(what.substr(std::min(what.find("] ") + 2, what.size()))));
  }

 private:
  /// A container whose end has not come yet.
  struct Open {
    bool is_array;
    size_t first;     // of its values
    std::string key;  // its own
  };

  bool add(Json value) {
    values_.emplace_back(std::exchange(key_, {}), std::move(value));
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

  std::vector<Open> open_;      // from the outermost to the innermost
  std::vector<Member> values_;  // of all open containers, one after another
  std::string key_;             // of the next value
};

}  // namespace

Json parse_document(std::string_view text) {
  Builder builder;
  Json::sax_parse(text, &builder);
  // The parser takes a NUL byte for the end of the text.
  const size_t nul = text.find('\0');
  require<FormatError>(nul == std::string_view::npos,
                       "/: is not JSON: wrong or missing text at byte {}", nul + 1);
  return builder.take();
}

}  // namespace qtape
