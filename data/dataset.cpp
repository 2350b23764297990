#include "qtape/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "qtape/core/printable.h"

namespace qtape::data {
namespace {

constexpr std::array<float, 256> make_shades() {
  std::array<float, 256> shades{};
  for (size_t i = 0; i < shades.size(); ++i) shades[i] = static_cast<float>(i) / 255.0f;
  return shades;
}

constexpr std::array<float, 256> shades = make_shades();

/// Calls `body` with the element type of a column.
template <class Body>
void dispatch(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::F64:
      return body.template operator()<double>();
    case DType::S32:
      return body.template operator()<int32_t>();
    case DType::S16:
      return body.template operator()<int16_t>();
    case DType::U16:
      return body.template operator()<uint16_t>();
    case DType::S8:
      return body.template operator()<int8_t>();
    case DType::U8:
      return body.template operator()<uint8_t>();
    case DType::S64:
      return body.template operator()<int64_t>();
    case DType::F32:
    case DType::F16:
    case DType::BF16:
      break;
  }
  body.template operator()<float>();
}

constexpr uint64_t map_stream = 0x3u;

/// Random generator of map number `map` for a sample.
Random random_of(const Draw& draw, int64_t sample, size_t map) {
  const Random of_epoch(draw.seed, (static_cast<uint64_t>(draw.epoch) << 8) | map_stream);
  return {of_epoch.bits(static_cast<uint64_t>(sample)), map};
}

bool holds_labels(const Column& column) {
  return column.target && !is_float(column.sample.dtype) && column.sample.shape.rank() == 0;
}

/// One more than the largest label. Throws ArgumentError for a label outside `classes`.
int64_t classes_of(const Column& column, const Tensor& values) {
  int64_t largest = -1;
  dispatch(values.type.dtype, [&]<class T>() {
    const auto* labels = reinterpret_cast<const T*>(values.data.data());
    for (int64_t i = 0; i < values.type.elements(); ++i) {
      const auto label = static_cast<int64_t>(labels[i]);
      const bool known = label >= 0 && (column.classes == 0 || label < column.classes);
      require<ArgumentError>(
          known, "column {}: label {} of sample {} is {}", printable(column.name), label, i,
          label < 0 ? "negative" : fmt::format("outside 0..{}", column.classes - 1));
      largest = std::max(largest, label);
    }
  });
  return std::max(column.classes, largest + 1);
}

}  // namespace

Dataset::Dataset(int64_t size, std::vector<Column> columns, Reader reader)
    : size_(size), columns_(std::move(columns)), reader_(std::move(reader)) {
  require<ArgumentError>(size >= 0, "a data set cannot have {} samples", size);
  tensors_.resize(columns_.size());
}

void Dataset::add_column(Column column, Tensor values) {
  const Shape& shape = values.type.shape;
  const std::string name(printable(column.name));
  require<ArgumentError>(shape.rank() >= 1,
                         "column {}: expected samples along the first axis, got a scalar",
                         name);
  require<ArgumentError>(values.type.dtype != DType::F16 && values.type.dtype != DType::BF16,
                         "column {}: data sets cannot hold {}", name,
                         to_string_view(values.type.dtype));
  require<ArgumentError>(columns_.empty() || shape[0] == size_,
                         "column {}: expected {} samples as in {}, got {}", name, size_,
                         columns_.empty() ? "" : printable(columns_[0].name), shape[0]);
  for (const Column& other : columns_) {
    require<ArgumentError>(other.name != column.name, "column {} already exists", name);
  }
  column.sample = {values.type.dtype, Shape(shape.extents().subspan(1))};
  if (holds_labels(column)) column.classes = classes_of(column, values);
  Tensor own = std::move(values);
  if (begin_ != 0) {  // padding: columns of a slice start at sample begin_
    const auto skipped = static_cast<size_t>(begin_ * column.sample.bytes());
    own.data.insert(own.data.begin(), skipped, std::byte{});
  }
  size_ = shape[0];
  columns_.push_back(std::move(column));
  tensors_.push_back(std::make_shared<const Tensor>(std::move(own)));
}

Dataset& Dataset::add(std::string name, Tensor values) {
  add_column({.name = std::move(name)}, std::move(values));
  return *this;
}

Dataset& Dataset::add_target(std::string name, Tensor values, int64_t classes) {
  add_column({.name = std::move(name), .target = true, .classes = classes}, std::move(values));
  return *this;
}

size_t Dataset::column(std::string_view name) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].name == name) return i;
    names.emplace_back(printable(columns_[i].name));
  }
  fail<ArgumentError>("there is no column {}; the data set has {}", printable(name),
                      names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

std::optional<size_t> Dataset::input() const {
  const auto found = std::ranges::find(columns_, false, &Column::target);
  if (found == columns_.end()) return std::nullopt;
  return static_cast<size_t>(found - columns_.begin());
}

std::optional<size_t> Dataset::target() const {
  const auto found = std::ranges::find(columns_, true, &Column::target);
  if (found == columns_.end()) return std::nullopt;
  return static_cast<size_t>(found - columns_.begin());
}

int64_t Dataset::classes() const {
  const auto found = target();
  return found ? columns_[*found].classes : 0;
}

Dataset Dataset::slice(int64_t begin, int64_t end) const {
  require<ArgumentError>(begin >= 0 && begin <= end && end <= size_,
                         "samples {} to {} are outside a data set of {}", begin, end, size_);
  Dataset part = *this;
  part.begin_ += begin;
  part.size_ = end - begin;
  return part;
}

std::pair<Dataset, Dataset> Dataset::split(double share) const {
  require<ArgumentError>(share >= 0 && share <= 1, "a share must be in [0, 1], got {}", share);
  const auto middle = static_cast<int64_t>(std::llround(share * static_cast<double>(size_)));
  return {slice(0, middle), slice(middle, size_)};
}

Dataset Dataset::mapped(std::vector<size_t> columns, Map f) const {
  require<ArgumentError>(f != nullptr, "a map of samples must be a function, got none");
  Dataset result = *this;
  result.maps_.push_back({std::move(columns), std::move(f)});
  return result;
}

Dataset Dataset::map(Map f) const {
  std::vector<size_t> inputs;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (!columns_[i].target) inputs.push_back(i);
  }
  return mapped(std::move(inputs), std::move(f));
}

Dataset Dataset::map(std::string_view name, Map f) const {
  const size_t found = column(name);
  require<ArgumentError>(columns_[found].classes == 0,
                         "column {} holds labels, which cannot be mapped", printable(name));
  return mapped({found}, std::move(f));
}

bool Dataset::is_mapped(size_t column) const {
  return std::ranges::any_of(maps_, [&](const AppliedMap& each) {
    return std::ranges::find(each.columns, column) != each.columns.end();
  });
}

void Dataset::check_range(size_t column, int64_t sample, size_t elements) const {
  require<ArgumentError>(column < columns_.size() && sample >= 0 && sample < size_,
                         "column {}, sample {}: the data set has {} columns of {} samples",
                         column, sample, columns_.size(), size_);
  const int64_t expected = columns_[column].sample.elements();
  require<ArgumentError>(static_cast<int64_t>(elements) == expected,
                         "column {} has {} elements per sample, not {}",
                         printable(columns_[column].name), expected, elements);
}

const std::byte* Dataset::sample_bytes(size_t column, int64_t sample) const {
  return tensors_[column]->data.data() + (begin_ + sample) * columns_[column].sample.bytes();
}

const std::byte* Dataset::bytes_of(size_t column, DType dtype) const {
  require<ArgumentError>(column < columns_.size(),
                         "column {} does not exist; there are {} columns", column,
                         columns_.size());
  const Column& wanted = columns_[column];
  require<ArgumentError>(tensors_[column] != nullptr && !is_mapped(column),
                         "column {} is {}, not in memory", printable(wanted.name),
                         is_mapped(column) ? "mapped" : "computed");
  require<ArgumentError>(wanted.sample.dtype == dtype, "column {} holds {}, not {}",
                         printable(wanted.name), to_string_view(wanted.sample.dtype),
                         to_string_view(dtype));
  return sample_bytes(column, 0);
}

void Dataset::read(size_t column, int64_t sample, std::span<float> to, const Draw& draw) const {
  check_range(column, sample, to.size());
  read_stored(column, sample, to);
  for (size_t i = 0; i < maps_.size(); ++i) {
    const std::vector<size_t>& columns = maps_[i].columns;
    if (std::ranges::find(columns, column) == columns.end()) continue;
    maps_[i].map(to, random_of(draw, begin_ + sample, i));
  }
}

void Dataset::read_stored(size_t column, int64_t sample, std::span<float> to) const {
  if (tensors_[column] == nullptr) return reader_(column, begin_ + sample, to);
  const Column& from = columns_[column];
  const std::byte* bytes = sample_bytes(column, sample);
  dispatch(from.sample.dtype, [&]<class T>() {
    const auto* values = reinterpret_cast<const T*>(bytes);
    for (size_t i = 0; i < to.size(); ++i) {
      if constexpr (std::is_same_v<T, uint8_t>) {
        to[i] = from.target ? static_cast<float>(values[i]) : shades[values[i]];
      } else {
        to[i] = static_cast<float>(values[i]);
      }
    }
  });
}

void Dataset::read(size_t column, int64_t sample, std::span<int32_t> to,
                   const Draw& draw) const {
  check_range(column, sample, to.size());
  const auto store = [&](size_t i, auto value) {
    using T = decltype(value);
    // The bounds are exact as doubles, and s64 values beyond 2^53 round to values outside them.
    const auto number = static_cast<double>(value);
    bool held = number >= std::numeric_limits<int32_t>::min() &&
                number <= std::numeric_limits<int32_t>::max();
    if constexpr (std::is_floating_point_v<T>) held = held && std::trunc(value) == value;
    require<ArgumentError>(held, "column {}, sample {}: {} is not an s32",
                           printable(columns_[column].name), sample, value);
    to[i] = static_cast<int32_t>(value);
  };
  if (tensors_[column] == nullptr || is_mapped(column)) {
    std::vector<float> values(to.size());
    read(column, sample, std::span(values), draw);
    for (size_t i = 0; i < to.size(); ++i) store(i, values[i]);
    return;
  }
  const std::byte* bytes = sample_bytes(column, sample);
  dispatch(columns_[column].sample.dtype, [&]<class T>() {
    const auto* values = reinterpret_cast<const T*>(bytes);
    for (size_t i = 0; i < to.size(); ++i) store(i, values[i]);
  });
}

}  // namespace qtape::data
