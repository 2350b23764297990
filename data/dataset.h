// Data sets: samples with named columns, in memory or computed on demand.
#pragma once

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

/// Data sets, their files, their order and augmentation.
namespace qtape::data {

/// What each sample holds under one name.
struct Column {
  std::string name = {};
  TensorType sample = {};  ///< of one sample: u8[28, 28]; labels are s32[]
  bool target = false;     ///< what a model should answer, not what it is given
  /// Of labels, integers without axes that are targets: they are below it. 0 for all else.
  int64_t classes = 0;
};

/// Writes what `column` has for `sample`, both from 0, as floats; integers are exact up to
/// 2^24. Called by several threads at once.
using Reader = std::function<void(size_t column, int64_t sample, std::span<float> to)>;

/// Changes the numbers of one sample in place, as they are read as floats. `random` is a pure
/// function of the seed of a run, the epoch and the sample: what is drawn depends neither on
/// the order of samples nor on threads, and is the same for all columns of a sample. Called by
/// several threads at once.
using Map = std::function<void(std::span<float> values, const Random& random)>;

/// What the random numbers of maps are drawn for, beside the sample. `fit` gives its seed and
/// the epoch from 0; whatever else reads samples has the defaults.
struct Draw {
  uint64_t seed = 0;
  int64_t epoch = 0;
};

/// Samples of one kind. A value: copies share the samples, which never change.
class Dataset {
 public:
  Dataset() = default;
  /// `size` samples that `reader` computes.
  Dataset(int64_t size, std::vector<Column> columns, Reader reader);

  /// Adds a column: `values` [size, ...] of any dtype but f16 and bf16. Throws ArgumentError
  /// for a name in use, for another number of samples than the columns before have, and for
  /// `classes` that a label is not below.
  Dataset& add(std::string name, Tensor values);
  /// The same of what a model should answer. Integers without axes are labels of `classes`
  /// classes; 0: one more than the largest label.
  Dataset& add_target(std::string name, Tensor values, int64_t classes = 0);

  int64_t size() const { return size_; }
  std::span<const Column> columns() const { return columns_; }
  /// The column called `name`. Throws ArgumentError, which lists the names.
  size_t column(std::string_view name) const;
  /// The first column that is no target, and the first that is one.
  std::optional<size_t> input() const;
  std::optional<size_t> target() const;
  /// Whether samples are computed or mapped, not read from memory alone.
  bool computed() const { return reader_ != nullptr || !maps_.empty(); }
  /// Classes of the first target; 0 where it is no labels.
  int64_t classes() const;

  /// The samples [begin, end) of this set. Throws ArgumentError outside it.
  Dataset slice(int64_t begin, int64_t end) const;
  /// The first `count` samples, all where there are fewer.
  Dataset first(int64_t count) const { return slice(0, std::min(count, size_)); }
  /// The first samples and the others, `share` within [0, 1] of them before.
  std::pair<Dataset, Dataset> split(double share) const;

  /// This set with `f` applied to each sample as it is read, after the maps that it has: to
  /// the columns that are no targets. Augmentation of one's own, or normalization:
  ///
  ///   const data::Dataset louder = set.map([](std::span<float> x, const Random& random) {
  ///     const auto gain = static_cast<float>(0.8 + 0.4 * random.uniform(0));
  ///     for (float& each : x) each *= gain;
  ///   });
  Dataset map(Map f) const;
  /// The same for one column. Throws ArgumentError for an unknown one and for labels.
  Dataset map(std::string_view column, Map f) const;

  /// What `column` has for `sample`. Floats: u8 that is no target counts as pixels, 0 to 255
  /// become 0 to 1; all other numbers keep their values. Maps see these numbers. Integers:
  /// throws ArgumentError, which names column and sample, for numbers that s32 does not hold.
  void read(size_t column, int64_t sample, std::span<float> to, const Draw& draw = {}) const;
  void read(size_t column, int64_t sample, std::span<int32_t> to, const Draw& draw = {}) const;
  /// All values of a column in memory, sample after sample. Throws ArgumentError for another
  /// dtype and for columns that are computed or mapped.
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
  struct AppliedMap {
    std::vector<size_t> columns;
    Map map;
  };

  Dataset mapped(std::vector<size_t> columns, Map f) const;
  bool is_mapped(size_t column) const;
  void read_stored(size_t column, int64_t sample, std::span<float> to) const;
  void add_column(Column column, Tensor values);
  const std::byte* bytes_of(size_t column, DType dtype) const;
  const std::byte* sample_bytes(size_t column, int64_t sample) const;
  void check_range(size_t column, int64_t sample, size_t elements) const;

  int64_t begin_ = 0;
  int64_t size_ = 0;
  std::vector<Column> columns_;
  std::vector<std::shared_ptr<const Tensor>> tensors_;  // by column; empty where computed
  Reader reader_;
  std::vector<AppliedMap> maps_;
};

/// Samples to learn from and samples to be judged by.
struct Split {
  Dataset train;
  Dataset test;
};

}  // namespace qtape::data
