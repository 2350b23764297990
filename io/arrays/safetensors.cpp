#include "qtape/io/arrays/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "qtape/core/byte_order.h"
#include "qtape/core/printable.h"
#include "qtape/io/arrays/elements.h"
#include "qtape/io/json_document.h"

namespace qtape {
namespace {

constexpr size_t length_bytes = 8;  // size of the little-endian header length at the start
constexpr size_t largest_header = 100'000'000;
constexpr std::string_view metadata = "__metadata__";

/// In the order in which the reference implementation writes tensors. The last is only read.
constexpr std::array<DTypeSpelling, 11> spellings = {{{"I64", DType::S64},
                                                      {"F64", DType::F64},
                                                      {"F32", DType::F32},
                                                      {"I32", DType::S32},
                                                      {"BF16", DType::BF16},
                                                      {"F16", DType::F16},
                                                      {"U16", DType::U16},
                                                      {"I16", DType::S16},
                                                      {"I8", DType::S8},
                                                      {"U8", DType::U8},
                                                      {"BOOL", DType::S8}}};

/// Position of a tensor in the file.
struct Entry {
  std::string_view name;
  TensorType type;
  bool booleans = false;
  std::pair<int64_t, int64_t> offsets;  // within the data
};

void read_metadata(const JsonPlace& place) {
  place.expect(place.json.is_object(), "an object of strings");
  for (const auto& [key, json] : place.json.items()) {
    const JsonPlace child = place.child(key, json);
    child.expect(json.is_string(), "a string");
  }
}

Entry read_entry(const JsonPlace& place) {
  place.expect(place.json.is_object(), "an object with dtype, shape and data_offsets");
  Entry entry{.name = place.key};
  const JsonPlace dtype = place.member("dtype");
  const auto spelling = std::ranges::find_if(
      spellings, [&](const DTypeSpelling& each) { return dtype.json == each.text; });
  if (spelling == spellings.end()) {
    std::string all;
    for (const DTypeSpelling& each : spellings)
      all += fmt::format("{}{}", all.empty() ? "" : ", ", each.text);
    dtype.expect(false, "one of " + all);
  }
  entry.type.dtype = spelling->dtype;
  entry.booleans = spelling->text == "BOOL";
  read_json(place.member("shape"), entry.type.shape);
  std::vector<int64_t> offsets;
  const JsonPlace place_of_offsets = place.member("data_offsets");
  read_json(place_of_offsets, offsets);
  place_of_offsets.expect(offsets.size() == 2, "two offsets");
  entry.offsets = {offsets[0], offsets[1]};
  return entry;
}

/// Entries of a header in the order of their data.
std::vector<Entry> read_entries(const JsonPlace& root) {
  root.expect(root.json.is_object(), "an object");
  std::vector<Entry> entries;
  for (const auto& [key, json] : root.json.items()) {
    const JsonPlace place = root.child(key, json);
    if (key == metadata) {
      read_metadata(place);
    } else {
      entries.push_back(read_entry(place));
    }
  }
  std::ranges::stable_sort(entries, {}, &Entry::offsets);
  return entries;
}

/// Throws FormatError unless the entries cover `size` bytes of data without gaps or overlaps.
void check_offsets(const std::vector<Entry>& entries, int64_t size) {
  int64_t next = 0;
  for (const Entry& each : entries) {
    const auto [begin, end] = each.offsets;
    require<FormatError>(begin == next, "tensor '{}': expected data from byte {} on, got {}",
                         printable(each.name), next, begin);
    require<FormatError>(end >= begin && end - begin == each.type.bytes(),
                         "tensor '{}': expected {} bytes of {}, got offsets {} to {}",
                         printable(each.name), each.type.bytes(), each.type, begin, end);
    next = end;
  }
  require<FormatError>(size == next, "expected {} bytes of data, got {}", next, size);
}

Tensor tensor_of(const Entry& entry, std::string_view data) {
  const auto raw = std::as_bytes(std::span(data))
                       .subspan(static_cast<size_t>(entry.offsets.first),
                                static_cast<size_t>(entry.type.bytes()));
  Tensor tensor{entry.type, {raw.begin(), raw.end()}};
  if (entry.booleans) make_booleans(tensor.data);
  convert_little_endian(tensor.data, size_of(entry.type.dtype));
  return tensor;
}

NamedTensors parse(std::string_view bytes) {
  require<FormatError>(bytes.size() >= length_bytes, "cut off: expected {} bytes, got {}",
                       length_bytes, bytes.size());
  const uint64_t length = number_at(bytes, 0, length_bytes);
  require<FormatError>(length <= largest_header,
                       "expected a safetensors file, whose header has at most {} bytes, got {}",
                       largest_header, length);
  const std::string_view rest = bytes.substr(length_bytes);
  require<FormatError>(length <= rest.size(), "cut off: expected {} bytes of header, got {}",
                       length, rest.size());
  const std::string_view header = rest.substr(0, length);
  require<FormatError>(header.starts_with('{'),
                       "expected a safetensors file, whose header begins with '{{'");
  const std::string_view data = rest.substr(length);
  const Json document = parse_document(header);
  const std::vector<Entry> entries = read_entries({document});
  check_offsets(entries, static_cast<int64_t>(data.size()));
  NamedTensors tensors;
  tensors.reserve(entries.size());
  for (const Entry& each : entries) {
    tensors.push_back({std::string(each.name), tensor_of(each, data)});
  }
  return tensors;
}

auto spelling_of(const NamedTensor& each) {
  return std::ranges::find(spellings, each.tensor.type.dtype, &DTypeSpelling::dtype);
}

std::string json_text(const std::string& name) {
  try {
    return Json(name).dump();
  } catch (const NotUtf8&) {
    fail<ArgumentError>("array '{}': expected a name in UTF-8", printable(name));
  }
}

}  // namespace

NamedTensors parse_safetensors(std::string_view bytes, std::string_view name) {
  return naming<FormatError>(name, [&] { return parse(bytes); });
}

std::string to_safetensors(const NamedTensors& tensors) {
  check_tensors(tensors);
  std::vector<const NamedTensor*> sorted;
  for (const NamedTensor& each : tensors) sorted.push_back(&each);
  std::ranges::sort(sorted, {}, [](const NamedTensor* each) {
    return std::pair(spelling_of(*each), std::string_view(each->name));
  });
  std::string header = "{";
  int64_t at = 0;
  for (const NamedTensor* each : sorted) {
    const auto& [name, tensor] = *each;
    require<ArgumentError>(name != metadata,
                           "array '{}': this name is reserved in safetensors files", name);
    const int64_t end = at + tensor.type.bytes();
    header +=
        fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                    header.size() == 1 ? "" : ",", json_text(name), spelling_of(*each)->text,
                    fmt::join(tensor.type.shape.extents(), ","), at, end);
    at = end;
  }
  header += '}';
  header.append((length_bytes - header.size() % length_bytes) % length_bytes, ' ');
  require<ArgumentError>(header.size() <= largest_header,
                         "the header of these arrays has {} bytes: expected at most {}",
                         header.size(), largest_header);
  std::string bytes;
  bytes.reserve(length_bytes + header.size() + static_cast<size_t>(at));
  for (size_t i = 0; i < length_bytes; ++i) {
    bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
  }
  bytes += header;
  for (const NamedTensor* each : sorted) {
    const LittleEndian data(each->tensor.data, size_of(each->tensor.type.dtype));
    bytes.append(reinterpret_cast<const char*>(data.bytes().data()), data.bytes().size());
  }
  return bytes;
}

}  // namespace qtape
