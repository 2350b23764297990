#include "qtape/data/rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "qtape/core/error.h"
#include "qtape/io/arrays/npy_rows.h"

namespace qtape::data {
namespace {

// Processes have 1024 files by default. A file that is not kept open is opened for each read.
constexpr size_t max_open = 256;

class NpyFiles final : public Rows {
 public:
  explicit NpyFiles(const std::vector<std::string>& names) {
    require<ArgumentError>(!names.empty(), "expected one or more .npy files, got none");
    int64_t samples = 0;
    for (const std::string& name : names) {
      const TensorType& type = files_.emplace_back(name, files_.size() < max_open).type();
      if (files_.size() == 1) type_ = type;
      require<FormatError>(type.dtype == type_.dtype &&
                               type.shape.without_first() == type_.shape.without_first(),
                           "{}: expected samples {} as in {}, got {}", name,
                           to_string(TensorType{type_.dtype, type_.shape.without_first()}),
                           names[0],
                           to_string(TensorType{type.dtype, type.shape.without_first()}));
      samples += type.shape[0];
      ends_.push_back(samples);
    }
    try {
      type_.shape = type_.shape.with(0, samples);
    } catch (const GraphError& error) {
      fail<FormatError>("{} and the files after it: {}", names[0], error.what());
    }
  }

  const TensorType& type() const override { return type_; }

  void read(int64_t first, std::span<std::byte> to) const override {
    const int64_t bytes = sample_bytes();
    const int64_t samples = type_.shape[0];
    require<ArgumentError>(first >= 0 && first <= samples &&
                               static_cast<int64_t>(to.size()) <= (samples - first) * bytes,
                           "{} samples have no {} bytes from sample {} on", samples, to.size(),
                           first);
    auto file = static_cast<size_t>(std::ranges::upper_bound(ends_, first) - ends_.begin());
    while (!to.empty()) {
      const int64_t begin = file == 0 ? 0 : ends_[file - 1];
      const auto rest = static_cast<size_t>((ends_[file] - first) * bytes);
      const auto part = to.first(std::min(to.size(), rest));
      files_[file].read(first - begin, part);
      to = to.subspan(part.size());
      first = ends_[file++];
    }
  }

 private:
  std::vector<NpyRows> files_;
  std::vector<int64_t> ends_;  // by file: number of samples up to its end
  TensorType type_;
};

class Reshaped final : public Rows {
 public:
  Reshaped(std::shared_ptr<const Rows> rows, const Shape& shape)
      : rows_(std::move(rows)), type_{rows_->type().dtype, shape} {
    const Shape& before = rows_->type().shape;
    require<ArgumentError>(
        shape.rank() >= 1 && shape[0] == before[0] && shape.elements() == before.elements(),
        "samples {} cannot become {}", to_string(before), to_string(shape));
  }

  const TensorType& type() const override { return type_; }
  void read(int64_t first, std::span<std::byte> to) const override { rows_->read(first, to); }

 private:
  std::shared_ptr<const Rows> rows_;
  TensorType type_;
};

class ChannelsLast final : public Rows {
 public:
  explicit ChannelsLast(std::shared_ptr<const Rows> rows)
      : rows_(std::move(rows)), type_(channels_last(rows_->type())) {}

  const TensorType& type() const override { return type_; }

  void read(int64_t first, std::span<std::byte> to) const override {
    thread_local std::vector<std::byte> spare;
    std::vector<std::byte> stored = std::move(spare);  // nested rows find none
    stored.resize(to.size());
    rows_->read(first, stored);
    move_channels_last(rows_->type(), stored, to);
    spare = std::move(stored);
  }

 private:
  std::shared_ptr<const Rows> rows_;
  TensorType type_;
};

}  // namespace

int64_t Rows::sample_bytes() const {
  return type().shape.without_first().elements() * size_of(type().dtype);
}

std::shared_ptr<const Rows> npy_rows(const std::vector<std::string>& files) {
  return std::make_shared<NpyFiles>(files);
}

std::shared_ptr<const Rows> reshaped(std::shared_ptr<const Rows> rows, const Shape& shape) {
  require<ArgumentError>(rows != nullptr, "expected rows, got null");
  return std::make_shared<Reshaped>(std::move(rows), shape);
}

std::shared_ptr<const Rows> channels_last(std::shared_ptr<const Rows> rows) {
  require<ArgumentError>(rows != nullptr, "expected rows, got null");
  return std::make_shared<ChannelsLast>(std::move(rows));
}

TensorType channels_last(const TensorType& type) {
  const auto extents = type.shape.extents();
  require<ArgumentError>(extents.size() >= 2, "expected [samples, channels, ...], got {}",
                         to_string(type));
  std::vector<int64_t> last(extents.begin(), extents.end());
  std::rotate(last.begin() + 1, last.begin() + 2, last.end());
  return {type.dtype, Shape(last)};
}

void move_channels_last(const TensorType& type, std::span<const std::byte> from,
                        std::span<std::byte> to) {
  const auto size = static_cast<size_t>(size_of(type.dtype));
  const auto channels = static_cast<size_t>(type.shape[1]);
  const auto sample = static_cast<size_t>(type.shape.without_first().elements()) * size;
  const size_t places = sample / std::max<size_t>(1, channels * size);
  for (size_t begin = 0; begin < from.size(); begin += sample) {
    std::byte* at = to.data() + begin;
    for (size_t place = 0; place < places; ++place) {
      for (size_t c = 0; c < channels; ++c, at += size) {
        std::memcpy(at, from.data() + begin + (c * places + place) * size, size);
      }
    }
  }
}

}  // namespace qtape::data
