#include "qtape/io/arrays/arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "qtape/core/printable.h"
#include "qtape/data/files.h"

namespace qtape::data {
namespace {

template <class Adds>
void add(const std::string& place, Tensor values, const Adds& adds) {
  try {
    adds(std::move(values));
  } catch (const ArgumentError& error) {
    fail<FormatError>("{}: {}", place, error.what());
  }
}

void add_targets(Dataset& set, const std::string& targets) {
  if (targets.empty()) return;
  add(targets, read_array(targets),
      [&](Tensor values) { set.add_target("y", std::move(values)); });
}

/// Returns extents without those of 1.
std::vector<int64_t> large(std::span<const int64_t> extents) {
  std::vector<int64_t> found;
  std::ranges::copy_if(extents, std::back_inserter(found),
                       [](int64_t each) { return each != 1; });
  return found;
}

/// Returns [n, c, ...] as [n, ..., c].
Tensor channels_behind(const Tensor& first) {
  const auto extents = first.type.shape.extents();
  std::vector<int64_t> shape(extents.begin(), extents.end());
  std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
  const auto size = static_cast<size_t>(size_of(first.type.dtype));
  const auto channels = static_cast<size_t>(extents[1]);
  const size_t sample =
      first.data.size() / static_cast<size_t>(std::max<int64_t>(1, extents[0]));
  const size_t places = sample / std::max<size_t>(1, channels * size);
  Tensor last{{first.type.dtype, Shape(shape)}, std::vector<std::byte>(first.data.size())};
  std::byte* to = last.data.data();
  for (size_t begin = 0; begin < first.data.size(); begin += sample) {
    for (size_t place = 0; place < places; ++place) {
      for (size_t c = 0; c < channels; ++c, to += size) {
        std::memcpy(to, first.data.data() + begin + (c * places + place) * size, size);
      }
    }
  }
  return last;
}

/// True if samples of `given` fit an input only when their channels become the last axis.
bool fits_channels_first(std::span<const int64_t> given, const Shape& wanted) {
  if (given.size() < 2 || large(given) == large(wanted.extents())) return false;
  std::vector<int64_t> last(given.begin(), given.end());
  std::rotate(last.begin(), last.begin() + 1, last.end());
  return std::ranges::equal(last, wanted.extents());
}

Tensor in_order(Tensor values, const std::vector<WantedInput>& wanted, const std::string& name,
                ChannelOrder channels) {
  if (values.type.shape.rank() < 3 || channels == ChannelOrder::Last) return values;
  const auto given = values.type.shape.extents().subspan(1);
  const bool first = std::ranges::any_of(wanted, [&](const WantedInput& each) {
    return (each.name == name || wanted.size() == 1) && fits_channels_first(given, each.sample);
  });
  return first || channels == ChannelOrder::First ? channels_behind(values) : values;
}

/// Returns the arrays with the names of `wanted`; none if the file has none of these, or a
/// single array.
NamedTensors named_arrays(const std::string& place, const std::vector<WantedInput>& wanted) {
  if (array_file_of(place) != place) return {};
  NamedTensors all = read_arrays(place);
  if (all.size() < 2) return {};
  NamedTensors found;
  std::vector<std::string> missing;
  for (const WantedInput& each : wanted) {
    const auto at = std::ranges::find(all, each.name, &NamedTensor::name);
    if (at == all.end()) {
      missing.push_back(printable(each.name));
    } else {
      found.push_back({each.name, std::move(at->tensor)});
    }
  }
  require<ArgumentError>(found.empty() || missing.empty(),
                         "{}: expected an array for each input, got none for '{}'", place,
                         fmt::join(missing, "', '"));
  return found;
}

}  // namespace

Dataset arrays(const std::string& inputs, const std::string& targets) {
  return arrays(inputs, targets, {}, ChannelOrder::Last);
}

Dataset arrays(const std::string& inputs, const std::string& targets,
               const std::vector<WantedInput>& wanted, ChannelOrder channels) {
  Dataset set;
  for (NamedTensor& each : named_arrays(inputs, wanted)) {
    add(inputs + ":" + each.name, in_order(std::move(each.tensor), wanted, each.name, channels),
        [&](Tensor ordered) { set.add(each.name, std::move(ordered)); });
  }
  if (set.columns().empty()) {
    add(inputs, in_order(read_array(inputs), wanted, "x", channels),
        [&](Tensor ordered) { set.add("x", std::move(ordered)); });
  }
  add_targets(set, targets);
  return set;
}

}  // namespace qtape::data
