// Observers to and from sections of files.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>

#include "qtape/calibrate/observer.h"
#include "qtape/core/error.h"
#include "qtape/core/settings.h"

namespace qtape {
namespace {

using detail::ChannelRecord;
using Settings = std::map<std::string, Section::Setting>;

constexpr std::string_view kind = "Observer";
constexpr auto max_elements = static_cast<double>(detail::max_elements);

/// Calls `visit(key, member)` for each member of a Grid.
template <class AnyGrid, class Visit>
void for_each_member(AnyGrid& grid, const Visit& visit) {
  visit("grid_q_min", grid.limits.q_min);
  visit("grid_q_max", grid.limits.q_max);
  visit("grid_scheme", grid.scheme);
  visit("grid_rounding", grid.rounding);
  visit("grid_division", grid.division);
  visit("grid_zero_point", grid.zero_point);
  visit("grid_denominator", grid.denominator);
  visit("grid_floor", grid.floor);
}

/// Calls `visit(key, member)` for each number of a record that is kept.
template <class AnyRecord, class Visit>
void for_each_number(const detail::Needs& needs, AnyRecord& record, const Visit& visit) {
  visit("count", record.count);
  visit("min", record.range.min);
  visit("max", record.range.max);
  if (needs.average_weight) {
    visit("batches", record.batches);
    visit("average_min", record.average.min);
    visit("average_max", record.average.max);
  }
  if (needs.moments) {
    visit("mean", record.mean);
    visit("squares", record.squares);
  }
}

Section::Setting setting_of(int32_t value) { return int64_t{value}; }
Section::Setting setting_of(double value) { return value; }
template <NamedEnum E>
Section::Setting setting_of(E value) {
  return std::string(to_string_view(value));
}

std::string take_text(const Section& section, const std::string& key,
                      std::string_view expected) {
  const auto found = section.settings.find(key);
  const bool is_text =
      found != section.settings.end() && std::holds_alternative<std::string>(found->second);
  require<FormatError>(is_text, "{}: setting '{}': expected {}, got {}", kind, key, expected,
                       settings::shown(section.settings, key));
  return std::get<std::string>(found->second);
}

void take_setting(const Section& section, const std::string& key, int32_t& value) {
  const auto taken = settings::take<int64_t>(kind, section, key);
  require<FormatError>(std::in_range<int32_t>(taken),
                       "{}: setting '{}': expected 32 bits, got {}", kind, key, taken);
  value = static_cast<int32_t>(taken);
}

void take_setting(const Section& section, const std::string& key, double& value) {
  value = settings::take<double>(kind, section, key);
}

template <NamedEnum E>
void take_setting(const Section& section, const std::string& key, E& value) {
  const std::string expected = "one of " + spellings<E>();
  const std::string text = take_text(section, key, expected);
  const auto found = from_string<E>(text);
  require<FormatError>(found.has_value(), "{}: setting '{}': expected {}, got \"{}\"", kind,
                       key, expected, printable(text));
  value = *found;
}

std::string joined(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string> parted(const std::string& text) {
  std::vector<std::string> names;
  size_t begin = 0;
  for (size_t end = 0; end != std::string::npos; begin = end + 2) {
    end = text.find(", ", begin);
    names.push_back(text.substr(begin, end - begin));
  }
  return names;
}

ObserverMethod method_from(const Section& section) {
  ObserverMethod method = observer_method(take_text(section, "method", "a text"));
  std::visit(
      [&]<class Method>(Method& each) {
        if constexpr (std::is_same_v<Method, Mix>) {
          each.candidates = parted(take_text(section, "method_candidates", "a text"));
        } else {
          settings::take_fields(kind, section, "method_", each);
        }
      },
      method);
  return method;
}

Grid grid_from(const Section& section) {
  Grid grid;
  for_each_member(grid, [&](std::string_view key, auto& member) {
    take_setting(section, std::string(key), member);
  });
  return grid;
}

/// The tensors that `save` writes, all f64.
std::map<std::string, Shape> tensor_shapes(const detail::Needs& needs, int64_t channels) {
  std::map<std::string, Shape> shapes;
  const ChannelRecord record;
  for_each_number(needs, record, [&](const char* key, auto) { shapes[key] = {channels}; });
  if (needs.bins == 0) return shapes;
  shapes["negative"] = {channels, needs.bins};
  shapes["positive"] = {channels, needs.bins};
  return shapes;
}

void check_tensor(const Section& section, const std::string& key, const Shape& shape) {
  const TensorType expected{DType::F64, shape};
  const auto found = section.tensors.find(key);
  const bool missing = found == section.tensors.end();
  require<FormatError>(!missing && found->second.type == expected,
                       "{}: tensor '{}': expected {}, got {}", kind, key, to_string(expected),
                       missing ? "nothing" : to_string(found->second.type));
  const auto bytes = static_cast<int64_t>(found->second.data.size());
  require<FormatError>(bytes == expected.bytes(), "{}: tensor '{}': expected {} bytes, got {}",
                       kind, key, expected.bytes(), bytes);
}

/// The channels of a section, whose tensors have the sizes that they should have.
int64_t channels_from(const Section& section, const detail::Needs& needs) {
  const auto count = section.tensors.find("count");
  require<FormatError>(
      count != section.tensors.end() && count->second.type.shape.rank() == 1,
      "{}: tensor 'count': expected f64[channels], got {}", kind,
      count == section.tensors.end() ? "nothing" : to_string(count->second.type));
  const int64_t channels = count->second.type.shape[0];
  check_tensor(section, "count", {channels});
  const std::map<std::string, Shape> shapes = tensor_shapes(needs, channels);
  for (const auto& [key, shape] : shapes) check_tensor(section, key, shape);
  for (const auto& [key, tensor] : section.tensors) {
    require<FormatError>(shapes.contains(key), "{}: tensor '{}': expected nothing, got {}",
                         kind, printable(key), to_string(tensor.type));
  }
  return channels;
}

std::vector<double> numbers_from(const Section& section, const std::string& key) {
  const Tensor& tensor = section.tensors.at(key);
  std::vector<double> values(static_cast<size_t>(tensor.type.elements()));
  std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
  for (const double value : values) {
    require<FormatError>(std::isfinite(value),
                         "{}: tensor '{}': expected finite values, got {}", kind, key, value);
  }
  return values;
}

int64_t count_from(std::string_view key, double value) {
  require<FormatError>(value >= 0 && value <= max_elements && std::trunc(value) == value,
                       "{}: tensor '{}': expected integers from 0 to 2^53, got {}", kind, key,
                       value);
  return static_cast<int64_t>(value);
}

std::vector<int64_t> counts_from(const Section& section, const std::string& key) {
  std::vector<int64_t> counts;
  double total = 0;
  for (const double value : numbers_from(section, key)) {
    counts.push_back(count_from(key, value));
    total += value;
  }
  require<FormatError>(total <= max_elements,
                       "{}: tensor '{}': expected 2^53 values at most, got {}", kind, key,
                       total);
  return counts;
}

template <class... Args>
void require_consistent(bool condition, size_t channel, fmt::format_string<Args...> text,
                        Args&&... args) {
  require<FormatError>(condition, "{}: channel {}: {}", kind, channel,
                       fmt::format(text, std::forward<Args>(args)...));
}

/// Throws unless data can have left `record`.
void check_record(const detail::Needs& needs, const ChannelRecord& record, size_t channel) {
  if (record.count == 0) {
    for_each_number(needs, record, [&](const char* key, auto value) {
      require_consistent(value == 0, channel, "no values, but {} is {}", key, value);
    });
    return;
  }
  const auto [min, max] = record.range;
  require_consistent(min <= max, channel, "min {} is above max {}", min, max);
  // Twice the limit, so that rounding never matters and nothing can overflow.
  const double farthest = 2 * detail::moment_limit;
  require_consistent(std::fabs(record.mean) <= farthest && record.squares >= 0 &&
                         record.squares <= max_elements * farthest * farthest,
                     channel, "mean {} and squares {} are out of range", record.mean,
                     record.squares);
  if (!needs.average_weight) return;
  const auto [low, high] = record.average;
  require_consistent(min <= low && low <= high && high <= max, channel,
                     "averages {} and {} do not lie within {} and {}", low, high, min, max);
  require_consistent(record.batches >= 1 && record.batches <= record.count, channel,
                     "{} values cannot come from {} batches", record.count, record.batches);
}

std::vector<ChannelRecord> records_from(const Section& section, const detail::Needs& needs,
                                        int64_t channels) {
  std::vector<ChannelRecord> records(static_cast<size_t>(channels));
  (void)counts_from(section, "count");
  std::map<std::string, std::vector<double>> numbers;
  for_each_number(needs, records[0],
                  [&](const char* key, auto) { numbers[key] = numbers_from(section, key); });
  for (size_t c = 0; c < records.size(); ++c) {
    for_each_number(needs, records[c], [&]<class Member>(const char* key, Member& member) {
      const double value = numbers.at(key)[c];
      if constexpr (std::is_same_v<Member, int64_t>) {
        member = count_from(key, value);
      } else {
        member = value;
      }
    });
    check_record(needs, records[c], c);
    if (records[c].count == 0) records[c] = {};
  }
  return records;
}

/// The outermost bin with values; -1 where all are empty.
int64_t outermost(std::span<const int64_t> counts) {
  auto k = static_cast<int64_t>(counts.size()) - 1;
  while (k >= 0 && counts[static_cast<size_t>(k)] == 0) --k;
  return k;
}

/// Throws unless the bins of a channel hold data with this count and range.
void check_bins(const detail::BinCounts& bins, const ChannelRecord& record, size_t channel) {
  const auto c = static_cast<int64_t>(channel);
  const int64_t zeros = record.count - bins.total(c);
  require_consistent(zeros >= 0, channel, "{} values, but {} of them in bins", record.count,
                     record.count - zeros);
  const bool none = record.count == 0;
  const auto [min, max] = none ? ValueRange<double>{0, 0} : record.range;
  require_consistent(zeros == 0 || (min <= 0 && max >= 0), channel,
                     "{} zeros do not lie within {} and {}", zeros, min, max);
  const int64_t low = min < 0 ? bins.bin_of(c, -min) : -1;
  const int64_t high = max > 0 ? bins.bin_of(c, max) : -1;
  require_consistent(outermost(bins.negative(c)) == low && outermost(bins.positive(c)) == high,
                     channel, "the outermost bins do not hold min {} and max {}", min, max);
}

void check_known(const Section& section, const Settings& known) {
  for (const auto& [key, value] : section.settings) {
    const auto found = known.find(key);
    require<FormatError>(found != known.end() && settings::same_setting(found->second, value),
                         "{}: setting '{}': expected {}, got {}", kind, printable(key),
                         settings::shown(known, key), settings::shown(value));
  }
}

}  // namespace

Settings detail::settings_of(const ObserverMethod& method, const Grid& grid) {
  Section section;
  section.settings["method"] = std::string(name_of(method));
  std::visit(
      [&]<class Method>(const Method& each) {
        if constexpr (std::is_same_v<Method, Mix>) {
          section.settings["method_candidates"] = joined(each.candidates);
        } else {
          settings::put_fields(each, "method_", section);
        }
      },
      method);
  for_each_member(grid, [&](std::string_view key, const auto& member) {
    section.settings[std::string(key)] = setting_of(member);
  });
  return section.settings;
}

Section Observer::save() const {
  const detail::Needs needs = detail::needs_of(method_);
  std::map<std::string, std::vector<double>> numbers;
  for (const ChannelRecord& each : records_) {
    for_each_number(needs, each, [&](const char* key, auto value) {
      numbers[key].push_back(each.count == 0 ? 0.0 : static_cast<double>(value));
    });
  }
  for (int64_t c = 0; needs.bins > 0 && c < channels(); ++c) {
    std::ranges::copy(bins_.negative(c), std::back_inserter(numbers["negative"]));
    std::ranges::copy(bins_.positive(c), std::back_inserter(numbers["positive"]));
  }
  Section section{std::string(kind), detail::settings_of(method_, grid_), {}};
  section.settings["non_finite"] = non_finite_;
  for (const auto& [key, shape] : tensor_shapes(needs, channels())) {
    section.tensors[key] = Tensor::of<double>(shape, numbers.at(key));
  }
  return section;
}

Observer Observer::load(const Section& section) {
  require<FormatError>(section.kind == kind, "{}: kind: expected \"{}\", got \"{}\"", kind,
                       kind, printable(section.kind));
  try {
    ObserverMethod method = method_from(section);
    validate(method);
    const detail::Needs needs = detail::needs_of(method);
    Observer observer(std::move(method), grid_from(section), channels_from(section, needs));
    observer.load_data(section);
    Settings known = detail::settings_of(observer.method_, observer.grid_);
    known["non_finite"] = observer.non_finite_;
    check_known(section, known);
    return observer;
  } catch (const ArgumentError& error) {
    throw FormatError(error.what());
  }
}

void Observer::load_data(const Section& section) {
  const detail::Needs needs = detail::needs_of(method_);
  records_ = records_from(section, needs, channels());
  const auto skipped = settings::take<int64_t>(kind, section, "non_finite");
  require<FormatError>(skipped >= 0 && skipped <= detail::max_elements,
                       "{}: setting 'non_finite': expected 0 to 2^53, got {}", kind, skipped);
  non_finite_ = skipped;
  if (needs.bins == 0) return;
  const std::vector<int64_t> negative = counts_from(section, "negative");
  const std::vector<int64_t> positive = counts_from(section, "positive");
  for (size_t c = 0; c < records_.size(); ++c) {
    const auto row = [&](const std::vector<int64_t>& counts) {
      const auto bins = static_cast<size_t>(needs.bins);
      return std::span(counts).subspan(c * bins, bins);
    };
    bins_.set(static_cast<int64_t>(c), records_[c].range.max_abs(), row(negative),
              row(positive));
    check_bins(bins_, records_[c], c);
  }
}

}  // namespace qtape
