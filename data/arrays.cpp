#include "qtape/io/arrays/arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <variant>

#include "qtape/core/printable.h"
#include "qtape/data/files.h"
#include "qtape/data/rows.h"
#include "qtape/io/arrays/npy_rows.h"

namespace qtape::data {
namespace {

/// The samples of a place, in memory or in files.
using Samples = std::variant<Tensor, std::shared_ptr<const Rows>>;

const TensorType& type_of(const Samples& samples) {
  if (const auto* tensor = std::get_if<Tensor>(&samples)) return tensor->type;
  return std::get<1>(samples)->type();
}

/// Returns the `.npy` files of a folder by name, those before `error`.
std::vector<std::string> files_of(const std::string& folder, std::error_code& error) {
  std::vector<std::string> files;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".npy") files.push_back(entry->path().string());
  }
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> npy_files(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> files = files_of(folder, error);
  require<IoError>(!error, "{}: cannot read: {}", folder, error.message());
  require<ArgumentError>(!files.empty(), "{}: the folder has no .npy files", folder);
  return files;
}

/// True for a file that is too large to be kept in memory and whose rows can be read alone.
bool stays_in_file(const std::string& place) {
  std::error_code none;
  const uintmax_t size = std::filesystem::file_size(place, none);
  if (none || size <= static_cast<uintmax_t>(largest_in_memory)) return false;
  return has_contiguous_rows(place);
}

/// The values of a place: all arrays of a file, or the samples of a folder, of a file that is
/// too large for memory, or of FILE:NAME.
using Values = std::variant<NamedTensors, Samples>;

Values read_values(const std::string& place) {
  std::error_code none;
  if (std::filesystem::is_directory(place, none)) return npy_rows(npy_files(place));
  if (stays_in_file(place)) return npy_rows({place});
  if (array_file_of(place) != place) return Samples(read_array(place));
  return read_arrays(place);
}

/// Returns values that are one array.
Samples single_samples(const std::string& place, Values values) {
  if (auto* samples = std::get_if<Samples>(&values)) return std::move(*samples);
  return single_array(place, std::get<NamedTensors>(std::move(values)));
}

/// Returns the arrays of a file of several, else null.
NamedTensors* several_arrays(Values& values) {
  auto* all = std::get_if<NamedTensors>(&values);
  return all == nullptr || all->size() < 2 ? nullptr : all;
}

template <class Adds>
void add(const std::string& place, Samples samples, const Adds& adds) {
  try {
    std::visit([&](auto& values) { adds(std::move(values)); }, samples);
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
Samples with_channels_last(Samples first) {
  if (auto* rows = std::get_if<1>(&first)) return channels_last(std::move(*rows));
  const auto& values = std::get<Tensor>(first);
  Tensor last{channels_last(values.type), std::vector<std::byte>(values.data.size())};
  move_channels_last(values.type, values.data, last.data);
  return last;
}

/// True if samples of `given` fit an input only when their channels become the last axis.
bool fits_channels_first(std::span<const int64_t> given, const Shape& wanted) {
  if (given.size() < 2 || large(given) == large(wanted.extents())) return false;
  std::vector<int64_t> last(given.begin(), given.end());
  std::rotate(last.begin(), last.begin() + 1, last.end());
  return std::ranges::equal(last, wanted.extents());
}

Samples in_order(Samples values, const std::vector<WantedInput>& wanted,
                 const std::string& name, ChannelOrder channels) {
  const Shape& shape = type_of(values).shape;
  if (shape.rank() < 3 || channels == ChannelOrder::Last) return values;
  const auto given = shape.extents().subspan(1);
  const bool first = std::ranges::any_of(wanted, [&](const WantedInput& each) {
    return (each.name == name || wanted.size() == 1) && fits_channels_first(given, each.sample);
  });
  if (first || channels == ChannelOrder::First) return with_channels_last(std::move(values));
  return values;
}

/// Moves the arrays with the names of `wanted` out of `all`. If some are missing, throws
/// ArgumentError that calls them `what`, unless all are missing and `optional`.
NamedTensors named_arrays(const std::string& place, NamedTensors& all,
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

/// Returns integers [n, 1, ...], one for each sample, as labels [n] of the classes of an
/// answer. They stay as they are for an answer of one number, of which they are the value, and
/// for one with places, of which they are the labels.
Samples as_labels(Samples values, const std::vector<WantedInput>& answers,
                  const std::string& name) {
  auto* tensor = std::get_if<Tensor>(&values);
  if (tensor == nullptr || is_float(tensor->type.dtype)) return values;
  Shape& shape = tensor->type.shape;
  if (shape.rank() < 2 || shape.elements() != shape[0]) return values;
  const bool classes = std::ranges::any_of(answers, [&](const WantedInput& each) {
    const bool own = each.name == name || answers.size() == 1;
    return own && each.sample.rank() == 1 && each.sample.elements() > 1;
  });
  if (classes) shape = Shape{shape[0]};
  return values;
}

/// Returns the order of the channels of a target. Labels have none.
ChannelOrder order_of(const Shape& target, const std::vector<WantedInput>& answers,
                      const std::string& name, ChannelOrder channels) {
  const bool same = std::ranges::any_of(answers, [&](const WantedInput& each) {
    const bool own = each.name == name || answers.size() == 1;
    return own && each.sample.rank() + 1 == target.rank();
  });
  return same ? channels : ChannelOrder::Last;
}

void add_targets(Dataset& set, const std::string& targets,
                 const std::vector<WantedInput>& answers, ChannelOrder channels) {
  if (targets.empty()) return;
  const auto add_one = [&](const std::string& place, const std::string& name,
                           const std::string& column, Samples values) {
    values = as_labels(std::move(values), answers, name);
    const ChannelOrder order = order_of(type_of(values).shape, answers, name, channels);
    add(place, in_order(std::move(values), answers, name, order),
        [&](auto ordered) { set.add_target(column, std::move(ordered)); });
  };
  Values values = read_values(targets);
  NamedTensors* several = answers.size() > 1 ? several_arrays(values) : nullptr;
  if (several == nullptr) {
    return add_one(targets, {}, "y", single_samples(targets, std::move(values)));
  }
  for (NamedTensor& each : named_arrays(targets, *several, answers, "answer", false)) {
    add_one(targets + ":" + each.name, each.name, each.name + ".target",
            std::move(each.tensor));
  }
}

}  // namespace

std::vector<std::string> array_files(const std::string& place) {
  if (place.empty()) return {};
  std::error_code none;
  if (!std::filesystem::is_directory(place, none)) return {array_file_of(place)};
  return files_of(place, none);
}

Dataset arrays(const std::string& inputs, const std::string& targets) {
  return arrays(inputs, targets, {}, ChannelOrder::Last);
}

Dataset arrays(const std::string& inputs, const std::string& targets,
               const std::vector<WantedInput>& wanted, ChannelOrder channels,
               const std::vector<WantedInput>& answers) {
  Dataset set;
  Values values = read_values(inputs);
  NamedTensors named;
  if (NamedTensors* several = several_arrays(values)) {
    named = named_arrays(inputs, *several, wanted, "input", true);
  }
  for (NamedTensor& each : named) {
    add(inputs + ":" + each.name, in_order(std::move(each.tensor), wanted, each.name, channels),
        [&](auto ordered) { set.add(each.name, std::move(ordered)); });
  }
  if (named.empty()) {
    Samples single = single_samples(inputs, std::move(values));
    add(inputs, in_order(std::move(single), wanted, "x", channels),
        [&](auto ordered) { set.add("x", std::move(ordered)); });
  }
  add_targets(set, targets, answers, channels);
  return set;
}

}  // namespace qtape::data
