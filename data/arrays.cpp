#include "qtape/io/arrays/arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <variant>

#include "qtape/core/printable.h"
#include "qtape/data/channel_order.h"
#include "qtape/data/files.h"
#include "qtape/data/rows.h"
#include "qtape/io/arrays/npy_rows.h"

namespace qtape::data {
namespace {

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

/// Returns the name of a single array of a file of named arrays; empty for others.
std::string name_of(const std::string& place, const Values& values) {
  const std::string file = array_file_of(place);
  if (file != place) return place.substr(file.size() + 1);
  const auto* all = std::get_if<NamedTensors>(&values);
  return all != nullptr && all->size() == 1 ? all->front().name : std::string();
}

template <class Adds>
void add(const std::string& place, Samples samples, const Adds& adds) {
  try {
    std::visit([&](auto& values) { adds(std::move(values)); }, samples);
  } catch (const ArgumentError& error) {
    fail<FormatError>("{}: {}", place, error.what());
  }
}

/// Moves the arrays with the names of `wanted` out of `all`. If some are missing, throws
/// ArgumentError that calls them `what`, unless all are missing and `optional`.
NamedTensors named_arrays(const std::string& place, NamedTensors& all,
                          const std::vector<WantedInput>& wanted, std::string_view what,
                          bool optional) {
  NamedTensors found;
  std::vector<std::string> missing;
  for (const WantedInput& each : wanted) {
    auto at = std::ranges::find(all, each.name, &NamedTensor::name);
    const bool own = std::ranges::count(wanted, each.other_name, &WantedInput::name) == 0;
    if (at == all.end() && own) {
      at = std::ranges::find(all, each.other_name, &NamedTensor::name);
    }
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

/// Returns the values. Throws ArgumentError for a scalar, which has no samples.
Samples with_samples(const std::string& place, Samples values) {
  require<ArgumentError>(type_of(values).shape.rank() > 0,
                         "{}: expected samples along the first axis, got a scalar", place);
  return values;
}

/// Returns integers [n, 1, ...], one for each sample, as labels [n] of the classes of an
/// answer. They stay as they are for an answer of one number, of which they are the value, and
/// for one with places, of which they are the labels.
Samples as_labels(Samples values, const std::vector<WantedInput>& answers,
                  const std::string& name) {
  const TensorType& type = type_of(values);
  const Shape& shape = type.shape;
  if (is_float(type.dtype) || shape.rank() < 2 || shape.elements() != shape[0]) return values;
  const bool classes = std::ranges::any_of(answers, [&](const WantedInput& each) {
    return is_of(name, each, answers) && each.sample.rank() == 1 && each.sample.elements() > 1;
  });
  if (!classes) return values;
  const Shape labels{shape[0]};
  return with_shape(std::move(values), labels);
}

/// True for a target with the axes of its answer, unless that has no channels. Labels have
/// none either.
bool has_channels(const Shape& target, const std::vector<WantedInput>& answers,
                  const std::string& name) {
  return std::ranges::any_of(answers, [&](const WantedInput& each) {
    return is_of(name, each, answers) && each.has_channels &&
           each.sample.rank() + 1 == target.rank();
  });
}

void place_inputs(std::vector<Placed>& all, const std::string& inputs,
                  const std::vector<WantedInput>& wanted) {
  Values values = read_values(inputs);
  NamedTensors named;
  if (NamedTensors* several = several_arrays(values)) {
    named = named_arrays(inputs, *several, wanted, "input", wanted.size() <= 1);
  }
  const auto place = [&](const std::string& from, const std::string& name, Samples samples) {
    const bool channels = std::ranges::none_of(wanted, [&](const WantedInput& each) {
      return is_of(name, each, wanted) && !each.has_channels;
    });
    all.push_back(
        {from, name, name, with_samples(from, std::move(samples)), wanted, false, channels});
  };
  for (NamedTensor& each : named) {
    place(inputs + ":" + each.name, each.name, std::move(each.tensor));
  }
  if (named.empty()) place(inputs, "x", single_samples(inputs, std::move(values)));
}

void place_targets(std::vector<Placed>& all, const std::string& targets,
                   const std::vector<WantedInput>& answers) {
  const auto place = [&](const std::string& from, const std::string& name,
                         const std::string& column, Samples values) {
    values = as_labels(with_samples(from, std::move(values)), answers, name);
    const bool channels = has_channels(type_of(values).shape, answers, name);
    all.push_back({from, name, column, std::move(values), answers, true, channels});
  };
  Values values = read_values(targets);
  const std::string own = answers.size() > 1 ? name_of(targets, values) : std::string();
  const auto named = std::ranges::find_if(answers, [&](const WantedInput& each) {
    return !own.empty() && (each.name == own || each.other_name == own);
  });
  if (named != answers.end()) {
    return place(targets, named->name, named->name + ".target",
                 single_samples(targets, std::move(values)));
  }
  NamedTensors* several = answers.size() > 1 ? several_arrays(values) : nullptr;
  if (several == nullptr) {
    const bool taken = std::ranges::count(all, "y", &Placed::column) > 0;
    return place(targets, {}, taken ? "y.target" : "y",
                 single_samples(targets, std::move(values)));
  }
  for (NamedTensor& each : named_arrays(targets, *several, answers, "answer", false)) {
    place(targets + ":" + each.name, each.name, each.name + ".target", std::move(each.tensor));
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
               const std::vector<WantedInput>& answers, std::vector<std::string>* unclear) {
  std::vector<Placed> all;
  place_inputs(all, inputs, wanted);
  if (!targets.empty()) place_targets(all, targets, answers);
  move_channels(all, channels, unclear);
  Dataset set;
  for (Placed& each : all) {
    add(each.place, std::move(each.values), [&](auto values) {
      if (each.target) {
        set.add_target(each.column, std::move(values));
      } else {
        set.add(each.column, std::move(values));
      }
    });
  }
  return set;
}

}  // namespace qtape::data
