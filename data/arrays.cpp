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

/// Returns extents without those of 1.
std::vector<int64_t> large(std::span<const int64_t> extents) {
  std::vector<int64_t> found;
  std::ranges::copy_if(extents, std::back_inserter(found),
                       [](int64_t each) { return each != 1; });
  return found;
}

/// Returns the same values under another shape.
Samples with_shape(Samples values, const Shape& shape) {
  if (auto* rows = std::get_if<1>(&values)) return reshaped(std::move(*rows), shape);
  std::get<Tensor>(values).type.shape = shape;
  return values;
}

/// Returns [n, c, ...] as [n, ..., c].
Samples with_channels_last(Samples first) {
  if (auto* rows = std::get_if<1>(&first)) return channels_last(std::move(*rows));
  const auto& values = std::get<Tensor>(first);
  Tensor last{channels_last(values.type), std::vector<std::byte>(values.data.size())};
  move_channels_last(values.type, values.data, last.data);
  return last;
}

std::vector<int64_t> rotated(std::span<const int64_t> extents) {
  std::vector<int64_t> last(extents.begin(), extents.end());
  if (!last.empty()) std::rotate(last.begin(), last.begin() + 1, last.end());
  return last;
}

/// How samples of an array fit the order of channels of the network.
enum class Fit : uint8_t { AsTheyAre, ChannelsFirst, Both };

Fit fit_of(std::span<const int64_t> given, const Shape& wanted) {
  const bool last = large(given) == large(wanted.extents());
  const bool first = given.size() >= 2 && std::ranges::equal(rotated(given), wanted.extents());
  // A single channel may stand before or after the other axes, without a move.
  if (!first || given[0] == 1 || large(given).size() < 2) return Fit::AsTheyAre;
  return last ? Fit::Both : Fit::ChannelsFirst;
}

/// True for the input or answer that the array called `name` is for.
bool is_of(const std::string& name, const WantedInput& each,
           const std::vector<WantedInput>& wanted) {
  return each.name == name || wanted.size() == 1;
}

/// An array of samples that becomes a column.
struct Placed {
  std::string place;
  std::string name;    // of its input or answer
  std::string column;  // of the data set
  Samples values;
  const std::vector<WantedInput>& wanted;
  bool target = false;
  bool has_channels = true;

  bool is_of(const WantedInput& each) const { return data::is_of(name, each, wanted); }

  /// True for an array of a program with its channels first, which is not moved.
  bool stays() const {
    return std::ranges::any_of(
        wanted, [&](const WantedInput& each) { return is_of(each) && each.channels_first; });
  }
  Fit fit() const {
    const Shape& shape = type_of(values).shape;
    if (!has_channels || stays() || shape.rank() < 3) return Fit::AsTheyAre;
    Fit found = Fit::AsTheyAre;
    for (const WantedInput& each : wanted) {
      if (!is_of(each)) continue;
      found = std::max(found, fit_of(shape.extents().subspan(1), each.sample));
    }
    return found;
  }

  /// True for samples with the extents of their input or answer, such as sequences [n, t, c],
  /// that have others with their channels moved.
  bool only_last() const {
    const Shape& shape = type_of(values).shape;
    if (!has_channels || stays() || shape.rank() < 3 || fit() != Fit::AsTheyAre) return false;
    return std::ranges::any_of(wanted, [&](const WantedInput& each) {
      return is_of(each) && each.sample == shape.without_first() &&
             large(each.sample.extents()).size() >= 2;
    });
  }
};

/// Returns the shape of the image [h, w, c] or sequence [t, c] of which samples [n, c h w] are
/// flat; null for others.
const Shape* unflattened(const Placed& each) {
  const Shape& flat = type_of(each.values).shape;
  if (flat.rank() != 2) return nullptr;
  for (const WantedInput& wanted : each.wanted) {
    const Shape& sample = wanted.sample;
    if (!each.is_of(wanted) || !wanted.has_channels) continue;
    if (sample.rank() >= 2 && sample.elements() == flat[1]) return &sample;
  }
  return nullptr;
}

/// Gives flat samples their axes, channels first.
void unflatten(Placed& each) {
  const Shape* sample = unflattened(each);
  if (sample == nullptr) return;
  std::vector<int64_t> extents{type_of(each.values).shape[0], (*sample)[-1]};
  const auto places = sample->extents().first(static_cast<size_t>(sample->rank() - 1));
  extents.insert(extents.end(), places.begin(), places.end());
  each.values = with_shape(std::move(each.values), Shape(extents));
  each.has_channels = true;
}

/// True for flat samples with several channels at several positions, in an order that cannot be
/// seen.
bool hides_channels(const Placed& each) {
  const Shape* sample = unflattened(each);
  return sample != nullptr && (*sample)[-1] > 1 && large(sample->extents()).size() >= 2;
}

/// Returns the array that fits only with channels first, of those with `rank` axes; without
/// one, of those with other ranks.
const Placed* deciding(const std::vector<Placed>& all, int rank, bool of_rank) {
  const auto found = std::ranges::find_if(all, [&](const Placed& each) {
    return each.fit() == Fit::ChannelsFirst &&
           (type_of(each.values).shape.rank() == rank) == of_rank;
  });
  return found == all.end() ? nullptr : &*found;
}

/// Returns the arrays to move: by position in `all`. Appends to `unclear` the places of arrays
/// that fit in both orders if no other array decides; one of as many axes does. Throws
/// ArgumentError if only one of another number of axes has channels first: it may be an image,
/// and these sequences. Throws it also if `first` is stated and one fits only with them last.
std::vector<size_t> channels_first(const std::vector<Placed>& all, bool first,
                                   std::vector<std::string>* unclear) {
  std::vector<size_t> found;
  for (size_t i = 0; i < all.size(); ++i) {
    const Placed& each = all[i];
    const Fit fit = each.fit();
    const Shape& shape = type_of(each.values).shape;
    require<ArgumentError>(!first || !each.only_last(),
                           "{}: samples {} fit only with channels last: --channels First must "
                           "hold for all arrays",
                           each.place, to_string(shape.without_first()));
    const bool image = each.wanted.empty() ? shape.rank() >= 3 : shape.rank() >= 4;
    const bool decided = first || deciding(all, shape.rank(), true) != nullptr;
    if (each.stays()) continue;
    if (fit == Fit::ChannelsFirst || (first && image && each.has_channels) ||
        (decided && fit == Fit::Both)) {
      found.push_back(i);
      continue;
    }
    if (unclear != nullptr && hides_channels(each)) unclear->push_back(each.place);
    if (fit != Fit::Both) continue;
    const Placed* other = deciding(all, shape.rank(), false);
    require<ArgumentError>(other == nullptr,
                           "{}: samples {} fit with channels first and last, and {} has them "
                           "first: give all arrays with channels last and --channels Last, or "
                           "--channels First if all have them first",
                           each.place, to_string(shape.without_first()),
                           other == nullptr ? "" : other->place);
    if (unclear != nullptr) unclear->push_back(each.place);
  }
  return found;
}

/// Moves channels to the last axis where the order demands it.
void move_channels(std::vector<Placed>& all, ChannelOrder channels,
                   std::vector<std::string>* unclear) {
  if (channels == ChannelOrder::Last) return;
  const bool first = channels == ChannelOrder::First;
  for (Placed& each : all) {
    if (first) unflatten(each);
  }
  for (const size_t i : channels_first(all, first, unclear)) {
    all[i].values = with_channels_last(std::move(all[i].values));
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
  for (NamedTensor& each : named) {
    const std::string place = inputs + ":" + each.name;
    all.push_back(
        {place, each.name, each.name, with_samples(place, std::move(each.tensor)), wanted});
  }
  if (!named.empty()) return;
  all.push_back({inputs, "x", "x",
                 with_samples(inputs, single_samples(inputs, std::move(values))), wanted});
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
