// Data sets: samples with named columns, in memory, in files or computed on demand.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qtape/core/random.h"
#include "qtape/core/types.h"
#include "qtape/data/rows.h"

/// Data sets, their files, sample order and augmentation.
namespace qtape::data {

/// One named part of each sample.
struct Column {
  std::string name = {};
  TensorType sample = {};  ///< type of one sample: u8[28, 28]; labels are s32[]
  bool target = false;     ///< expected output of a model instead of an input
  /// For labels (scalar integer targets): exclusive upper bound of their values. Otherwise 0.
  int64_t classes = 0;
};

/// Writes `column` of `sample` (both from 0) as floats; integers are exact up to 2^24. Called
/// concurrently by several threads.
using Reader = std::function<void(size_t column, int64_t sample, std::span<float> to)>;

/// Changes the values of one sample in place after they are read as floats. `random` is a pure
/// function of the seed of a run, the epoch and the sample: its numbers depend neither on the
/// order of samples nor on threads, and are equal for all columns of a sample. Called
/// concurrently by several threads.
using Map = std::function<void(std::span<float> values, const Random& random)>;

/// Coordinates of the random numbers of maps, in addition to the sample. `fit` passes its seed
/// and the epoch (from 0); other readers use the defaults.
struct Draw {
  uint64_t seed = 0;
  int64_t epoch = 0;
};

/// A set of samples. A value type: copies share the samples, which are immutable.
class Dataset {
 public:
  Dataset() = default;
  /// Creates `size` samples that are computed by `reader`. Throws ArgumentError for a negative
  /// size, an empty reader, a name in use, and labels without a number of classes.
  Dataset(int64_t size, std::vector<Column> columns, Reader reader);

  /// Adds a column: `values` is [size, ...] of any dtype except f16 and bf16. Throws
  /// ArgumentError for a name in use, for a different number of samples than the existing
  /// columns, and for a label that is not below `classes`.
  Dataset& add(std::string name, Tensor values);
  /// Adds a target column. Scalar integers are labels of `classes` classes; 0 selects one more
  /// than the largest label.
  Dataset& add_target(std::string name, Tensor values, int64_t classes = 0);
  /// Adds a column whose samples are read from files when they are used. Throws as above, and
  /// IoError if labels cannot be read.
  Dataset& add(std::string name, std::shared_ptr<const Rows> rows);
  Dataset& add_target(std::string name, std::shared_ptr<const Rows> rows, int64_t classes = 0);

  int64_t size() const { return size_; }
  std::span<const Column> columns() const& { return columns_; }
  std::vector<Column> columns() && { return std::move(columns_); }
  /// Index of the column `name`. Throws ArgumentError, which lists the names, if there is none.
  size_t column(std::string_view name) const;
  /// The first column that is not a target, and the first that is a target.
  std::optional<size_t> input() const;
  std::optional<size_t> target() const;
  /// True if samples are computed, mapped or read from files instead of only from memory.
  bool computed() const;
  /// Number of bytes of the columns that stay in files.
  int64_t bytes_in_files() const;
  /// Number of classes of the first target; 0 if it is not labels.
  int64_t classes() const;

  /// Samples [begin, end) of this set. Throws ArgumentError if the range exceeds the set.
  Dataset slice(int64_t begin, int64_t end) const;
  /// The first `count` samples, or all if there are fewer.
  Dataset first(int64_t count) const { return slice(0, std::min(count, size_)); }
  /// Splits this set into its first samples, a fraction `share` in [0, 1], and the remaining
  /// ones.
  std::pair<Dataset, Dataset> split(double share) const;
  /// This set with its inputs alone.
  Dataset without_targets() const;

  /// This set with `f` applied to each sample when it is read, after the existing maps, in all
  /// columns that are not targets. For custom augmentation or normalization:
  ///
  ///   const data::Dataset louder = set.map([](std::span<float> x, const Random& random) {
  ///     const auto gain = static_cast<float>(0.8 + 0.4 * random.uniform(0));
  ///     for (float& each : x) each *= gain;
  ///   });
  Dataset map(Map f) const;
  /// This set with `f` applied to one column. Throws ArgumentError for an unknown column and
  /// for labels.
  Dataset map(std::string_view column, Map f) const;

  /// Reads `column` of `sample`. As floats: stored u8 columns that are not targets are pixels,
  /// scaled from 0..255 to 0..1; all other values are unchanged. Maps are applied to these
  /// values. As integers: throws ArgumentError, which names column and sample, for values that
  /// s32 cannot represent.
  void read(size_t column, int64_t sample, std::span<float> to, const Draw& draw = {}) const;
  void read(size_t column, int64_t sample, std::span<int32_t> to, const Draw& draw = {}) const;
  /// All values of a column in memory, sample after sample. Throws ArgumentError for a
  /// different dtype and for columns that are computed, mapped or in files.
  template <Element T>
  std::span<const T> values(size_t column) const {
    return {reinterpret_cast<const T*>(bytes_of(column, dtype_of<T>)),
            static_cast<size_t>(size_ * columns_[column].sample.elements())};
  }
  template <Element T>
  std::span<const T> values(std::string_view name) const {
    return values<T>(column(name));
  }

 private:
  /// Samples of a column, in memory or in files; neither if they are computed.
  struct Stored {
    std::shared_ptr<const Tensor> tensor = {};
    std::shared_ptr<const Rows> rows = {};
    int64_t begin = 0;  ///< number of the first one in the original set

    const TensorType& type() const { return tensor ? tensor->type : rows->type(); }
  };
  struct AppliedMap {
    std::vector<size_t> columns;
    Map map;
  };

  Dataset mapped(std::vector<size_t> columns, Map f) const;
  bool is_mapped(size_t column) const;
  bool is_stored(size_t column) const {
    return stored_[column].tensor != nullptr || stored_[column].rows != nullptr;
  }
  void read_stored(size_t column, int64_t sample, std::span<float> to) const;
  void add_column(Column column, Stored values);
  const std::byte* bytes_of(size_t column, DType dtype) const;
  std::span<const std::byte> sample_bytes(size_t column, int64_t sample) const;
  void check_range(size_t column, int64_t sample, size_t elements) const;

  int64_t begin_ = 0;
  int64_t size_ = 0;
  std::vector<Column> columns_;
  std::vector<Stored> stored_;  // by column
  Reader reader_;
  std::vector<AppliedMap> maps_;
};

/// Samples for training and samples for testing.
struct Split {
  Dataset train;
  Dataset test;
};

}  // namespace qtape::data
