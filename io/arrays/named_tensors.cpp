#include "qtape/io/arrays/named_tensors.h"

#include <algorithm>
#include <set>

#include "qtape/core/nearest.h"
#include "qtape/core/printable.h"

namespace qtape {
namespace {

constexpr size_t max_names = 16;  // maximum number in a message

}  // namespace

void check_tensors(const NamedTensors& tensors) {
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    require<ArgumentError>(names.insert(name).second, "two arrays are called '{}'",
                           printable(name));
    require<ArgumentError>(static_cast<int64_t>(tensor.data.size()) == tensor.type.bytes(),
                           "array '{}': expected {} bytes of {}, got {}", printable(name),
                           tensor.type.bytes(), tensor.type, tensor.data.size());
  }
}

std::string names_of(const NamedTensors& tensors) {
  if (tensors.empty()) return "none";
  std::string text;
  for (size_t i = 0; i < std::min(tensors.size(), max_names); ++i) {
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", printable(tensors[i].name));
  }
  if (tensors.size() > max_names) text += fmt::format(", ... {} in all", tensors.size());
  return text;
}

const Tensor& tensor_named(const NamedTensors& tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
  if (found != tensors.end()) return found->tensor;
  require<ArgumentError>(tensors.size() != 1 || !tensors[0].name.empty(),
                         "the file holds one array without a name: leave out ':{}'",
                         printable(name));
  std::vector<std::string> names;
  for (const NamedTensor& each : tensors) names.push_back(each.name);
  fail<ArgumentError>("no array is named '{}', expected one of {}{}", printable(name),
                      names_of(tensors), nearest_hint(name, names));
}

}  // namespace qtape
