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

/// Returns the arrays of a file of several; none for a single array and for FILE:NAME.
NamedTensors several_arrays(const std::string& place) {
  if (array_file_of(place) != place) return {};
  NamedTensors all = read_arrays(place);
  return all.size() < 2 ? NamedTensors{} : std::move(all);
}

/// Returns the arrays with the names of `wanted`. If some are missing, throws ArgumentError
/// that calls them `what`, unless all are missing and `optional`.
NamedTensors named_arrays(const std::string& place, NamedTensors all,
                          const std::vector<WantedInput>& wanted, std::string_view what,
                          bool optional) {
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
  require<ArgumentError>((optional && found.empty()) || missing.empty(),
                         "{}: expected an array for each {}, got none for '{}'", place, what,
                         fmt::join(missing, "', '"));
  return found;
}

/// Returns the order of the channels of a target. Labels have none.
ChannelOrder order_of(const Tensor& target, const std::vector<WantedInput>& answers,
                      const std::string& name, ChannelOrder channels) {
  const bool same = std::ranges::any_of(answers, [&](const WantedInput& each) {
    const bool own = each.name == name || answers.size() == 1;
    return own && each.sample.rank() + 1 == target.type.shape.rank();
  });
  return same ? channels : ChannelOrder::Last;
}

void add_targets(Dataset& set, const std::string& targets,
                 const std::vector<WantedInput>& answers, ChannelOrder channels) {
  if (targets.empty()) return;
  const auto add_one = [&](const std::string& place, const std::string& name,
                           const std::string& column, Tensor values) {
    const ChannelOrder order = order_of(values, answers, name, channels);
    add(place, in_order(std::move(values), answers, name, order),
        [&](Tensor ordered) { set.add_target(column, std::move(ordered)); });
  };
  NamedTensors all = answers.size() > 1 ? several_arrays(targets) : NamedTensors{};
  if (all.empty()) return add_one(targets, {}, "y", read_array(targets));
  for (NamedTensor& each : named_arrays(targets, std::move(all), answers, "answer", false)) {
    add_one(targets + ":" + each.name, each.name, each.name + ".target",
            std::move(each.tensor));
  }
}

}  // namespace

Dataset arrays(const std::string& inputs, const std::string& targets) {
  return arrays(inputs, targets, {}, ChannelOrder::Last);
}

Dataset arrays(const std::string& inputs, const std::string& targets,
               const std::vector<WantedInput>& wanted, ChannelOrder channels,
               const std::vector<WantedInput>& answers) {
  Dataset set;
  NamedTensors several = several_arrays(inputs);
  for (NamedTensor& each : named_arrays(inputs, std::move(several), wanted, "input", true)) {
    add(inputs + ":" + each.name, in_order(std::move(each.tensor), wanted, each.name, channels),
        [&](Tensor ordered) { set.add(each.name, std::move(ordered)); });
  }
  if (set.columns().empty()) {
    add(inputs, in_order(read_array(inputs), wanted, "x", channels),
        [&](Tensor ordered) { set.add("x", std::move(ordered)); });
  }
  add_targets(set, targets, answers, channels);
  return set;
}

}  // namespace qtape::data
