#include "qtape/data/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "qtape/core/float_environment.h"
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

/// Steps read labels as s32.
constexpr int64_t max_classes = std::numeric_limits<int32_t>::max();

/// One more than the largest label of a column, at least `least`. `labels` are those from
/// sample `first` on. Throws ArgumentError for a label outside the column's classes.
int64_t classes_of(const Column& column, std::span<const std::byte> labels, int64_t first,
                   int64_t least) {
  int64_t largest = least - 1;
  dispatch(column.sample.dtype, [&]<class T>() {
    for (size_t i = 0; i * sizeof(T) < labels.size(); ++i) {
      T value{};
      std::memcpy(&value, labels.data() + i * sizeof(T), sizeof(T));
      const auto label = static_cast<int64_t>(value);
      const int64_t classes = column.classes == 0 ? max_classes : column.classes;
      require<ArgumentError>(
          label >= 0 && label < classes, "column {}: label {} of sample {} is {}",
          printable(column.name), label, first + static_cast<int64_t>(i),
          label < 0 ? "negative" : fmt::format("outside 0..{}", classes - 1));
      largest = std::max(largest, label);
    }
  });
  return largest + 1;
}

void check_dtype(const std::string& column, DType dtype) {
  require<ArgumentError>(dtype != DType::F16 && dtype != DType::BF16,
                         "column {}: data sets cannot hold {}", printable(column),
                         to_string_view(dtype));
}

void check_classes(const Column& column) {
  require<ArgumentError>(column.classes >= 0, "column {}: classes must be at least 0, got {}",
                         printable(column.name), column.classes);
  require<ArgumentError>(column.classes == 0 || !is_float(column.sample.dtype),
                         "column {}: labels of {} classes must be integers, got {}",
                         printable(column.name), column.classes, to_string(column.sample));
}

/// Returns the number of classes of all labels of a file, which are read in blocks.
int64_t classes_of(const Column& column, const Rows& rows) {
  constexpr int64_t block = 1 << 16;
  const int64_t samples = rows.type().shape[0];
  int64_t classes = column.classes;
  std::vector<std::byte> labels;
  for (int64_t first = 0; first < samples; first += block) {
    labels.resize(static_cast<size_t>(std::min(block, samples - first) * rows.sample_bytes()));
    rows.read(first, labels);
    classes = classes_of(column, labels, first, classes);
  }
  return classes;
}

}  // namespace

Dataset::Dataset(int64_t size, std::vector<Column> columns, Reader reader)
    : size_(size), columns_(std::move(columns)), reader_(std::move(reader)) {
  require<ArgumentError>(size >= 0, "a data set cannot have {} samples", size);
  require<ArgumentError>(reader_ != nullptr, "expected a reader, got an empty function");
  for (size_t i = 0; i < columns_.size(); ++i) {
    check_dtype(columns_[i].name, columns_[i].sample.dtype);
    check_classes(columns_[i]);
    require<ArgumentError>(
        columns_[i].classes > 0 || !holds_labels(columns_[i]),
        "column {}: labels that are computed need a number of classes, got none",
        printable(columns_[i].name));
    for (size_t k = 0; k < i; ++k) {
      require<ArgumentError>(columns_[i].name != columns_[k].name, "column {} already exists",
                             printable(columns_[i].name));
    }
  }
  stored_.resize(columns_.size());
}

void Dataset::add_column(Column column, Stored values) {
  const TensorType& type = values.type();
  const Shape& shape = type.shape;
  const std::string name(printable(column.name));
  require<ArgumentError>(shape.rank() >= 1,
                         "column {}: expected samples along the first axis, got a scalar",
                         name);
  require<ArgumentError>(
      !values.tensor || static_cast<int64_t>(values.tensor->data.size()) == type.bytes(),
      "column {}: expected {} bytes of {}, got {}", name, type.bytes(), to_string(type),
      values.tensor ? values.tensor->data.size() : 0);
  check_dtype(column.name, type.dtype);
  require<ArgumentError>(columns_.empty() || shape[0] == size_,
                         "column {}: expected {} samples as in {}, got {}", name, size_,
                         columns_.empty() ? "" : printable(columns_[0].name), shape[0]);
  for (const Column& other : columns_) {
    require<ArgumentError>(other.name != column.name, "column {} already exists", name);
  }
  column.sample = {type.dtype, shape.without_first()};
  check_classes(column);
  if (holds_labels(column)) {
    column.classes = values.tensor ? classes_of(column, values.tensor->data, 0, column.classes)
                                   : classes_of(column, *values.rows);
  }
  values.begin = begin_;
  size_ = shape[0];
  columns_.push_back(std::move(column));
  stored_.push_back(std::move(values));
}

Dataset& Dataset::add(std::string name, Tensor values) {
  add_column({.name = std::move(name)},
             {.tensor = std::make_shared<const Tensor>(std::move(values))});
  return *this;
}

Dataset& Dataset::add_target(std::string name, Tensor values, int64_t classes) {
  add_column({.name = std::move(name), .target = true, .classes = classes},
             {.tensor = std::make_shared<const Tensor>(std::move(values))});
  return *this;
}

Dataset& Dataset::add(std::string name, std::shared_ptr<const Rows> rows) {
  require<ArgumentError>(rows != nullptr, "column {}: expected rows, got null",
                         printable(name));
  add_column({.name = std::move(name)}, {.rows = std::move(rows)});
  return *this;
}

Dataset& Dataset::add_target(std::string name, std::shared_ptr<const Rows> rows,
                             int64_t classes) {
  require<ArgumentError>(rows != nullptr, "column {}: expected rows, got null",
                         printable(name));
  add_column({.name = std::move(name), .target = true, .classes = classes},
             {.rows = std::move(rows)});
  return *this;
}

bool Dataset::computed() const {
  return reader_ != nullptr || !maps_.empty() || bytes_in_files() > 0;
}

int64_t Dataset::bytes_in_files() const {
  int64_t bytes = 0;
  for (const Stored& each : stored_) {
    if (each.rows) bytes += each.rows->type().bytes();
  }
  return bytes;
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
                         "samples {} to {} are not a range of a data set of {}", begin, end,
                         size_);
  Dataset part = *this;
  part.begin_ += begin;
  part.size_ = end - begin;
  return part;
}

std::pair<Dataset, Dataset> Dataset::split(double share) const {
  require<ArgumentError>(share >= 0 && share <= 1,
                         "the share of the first part must be in [0, 1], got {}", share);
  const auto middle = static_cast<int64_t>(std::llround(share * static_cast<double>(size_)));
  return {slice(0, middle), slice(middle, size_)};
}

Dataset Dataset::mapped(std::vector<size_t> columns, Map f) const {
  require<ArgumentError>(f != nullptr, "a map of samples must be a function, got none");
  Dataset result = *this;
  result.maps_.push_back({std::move(columns), std::move(f)});
  return result;
}

Dataset Dataset::without_targets() const {
  Dataset inputs = *this;
  inputs.columns_.clear();
  inputs.stored_.clear();
  std::vector<size_t> kept;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].target) continue;
    kept.push_back(i);
    inputs.columns_.push_back(columns_[i]);
    inputs.stored_.push_back(stored_[i]);
  }
  if (reader_) {
    inputs.reader_ = [kept, read = reader_](size_t i, int64_t sample, std::span<float> to) {
      read(kept[i], sample, to);
    };
  }
  // A map without columns stays: the random numbers of the others depend on their order.
  for (AppliedMap& each : inputs.maps_) {
    std::vector<size_t> columns;
    for (const size_t column : each.columns) {
      const auto at = std::ranges::find(kept, column);
      if (at != kept.end()) columns.push_back(static_cast<size_t>(at - kept.begin()));
    }
    each.columns = std::move(columns);
  }
  return inputs;
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

/// Returns the bytes of a sample in memory or, until the next call in this thread, of one from
/// a file.
std::span<const std::byte> Dataset::sample_bytes(size_t column, int64_t sample) const {
  const Stored& from = stored_[column];
  const auto size = static_cast<size_t>(columns_[column].sample.bytes());
  const int64_t at = begin_ + sample - from.begin;
  if (from.tensor)
    return std::span(from.tensor->data).subspan(static_cast<size_t>(at) * size, size);
  thread_local std::vector<std::byte> read;
  read.resize(size);
  from.rows->read(at, read);
  return read;
}

const std::byte* Dataset::bytes_of(size_t column, DType dtype) const {
  require<ArgumentError>(column < columns_.size(),
                         "column {} does not exist; there are {} columns", column,
                         columns_.size());
  const Column& wanted = columns_[column];
  const Stored& from = stored_[column];
  require<ArgumentError>(from.tensor && !is_mapped(column), "column {} is {}, not in memory",
                         printable(wanted.name),
                         is_mapped(column) ? "mapped" : (from.rows ? "in a file" : "computed"));
  require<ArgumentError>(wanted.sample.dtype == dtype, "column {} holds {}, not {}",
                         printable(wanted.name), to_string_view(wanted.sample.dtype),
                         to_string_view(dtype));
  return from.tensor->data.data() + (begin_ - from.begin) * wanted.sample.bytes();
}

void Dataset::read(size_t column, int64_t sample, std::span<float> to, const Draw& draw) const {
  const FloatEnvironment floats;
  check_range(column, sample, to.size());
  read_stored(column, sample, to);
  for (size_t i = 0; i < maps_.size(); ++i) {
    const std::vector<size_t>& columns = maps_[i].columns;
    if (std::ranges::find(columns, column) == columns.end()) continue;
    maps_[i].map(to, random_of(draw, begin_ + sample, i));
  }
}

void Dataset::read_stored(size_t column, int64_t sample, std::span<float> to) const {
  if (!is_stored(column)) return reader_(column, begin_ + sample, to);
  const Column& from = columns_[column];
  const std::byte* bytes = sample_bytes(column, sample).data();
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
  const FloatEnvironment floats;
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
  if (!is_stored(column) || is_mapped(column)) {
    std::vector<float> values(to.size());
    read(column, sample, std::span(values), draw);
    for (size_t i = 0; i < to.size(); ++i) store(i, values[i]);
    return;
  }
  const std::byte* bytes = sample_bytes(column, sample).data();
  dispatch(columns_[column].sample.dtype, [&]<class T>() {
    const auto* values = reinterpret_cast<const T*>(bytes);
    for (size_t i = 0; i < to.size(); ++i) store(i, values[i]);
  });
}

}  // namespace qtape::data
