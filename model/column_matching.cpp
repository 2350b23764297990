// Columns for inputs: by name, by answer, or the first that fits.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "qtape/core/printable.h"
#include "qtape/model/feed.h"

namespace qtape {
namespace {

Shape without_ones(const Shape& shape) {
  std::vector<int64_t> kept;
  for (const int64_t extent : shape.extents()) {
    if (extent != 1) kept.push_back(extent);
  }
  return Shape(kept);
}

/// True for a shape [1, ...] and the same one with its 1 last.
bool moves_first_one(const Shape& first, const Shape& last) {
  if (first.rank() == 0 || first[0] != 1 || last[-1] != 1) return false;
  return std::ranges::equal(first.extents().subspan(1),
                            last.extents().first(static_cast<size_t>(last.rank() - 1)));
}

/// True for shapes that differ only in extents of 1. With equally many axes, two of them larger
/// than 1, only a single channel may be first in one and last in the other: [8, 8, 1] is no
/// [8, 1, 8].
bool same_axes(const Shape& a, const Shape& b) {
  const Shape large = without_ones(a);
  if (large != without_ones(b)) return false;
  return a.rank() != b.rank() || large.rank() < 2 || a == b || moves_first_one(a, b) ||
         moves_first_one(b, a);
}

std::string describe(const data::Dataset& dataset) {
  std::string text;
  for (const data::Column& each : dataset.columns()) {
    text += fmt::format("{}{}{} {}", text.empty() ? "" : ", ", each.target ? "target " : "",
                        printable(each.name), to_string(each.sample));
  }
  return text.empty() ? "no columns" : text;
}

std::string describe(const FedInput& input) {
  const DType dtype = input.integers.empty() ? DType::F32 : DType::S32;
  return fmt::format("input '{}' {}", printable(input.label),
                     to_string(TensorType{dtype, input.sample}));
}

/// True unless the column is a target and the input is not of a loss.
bool may_fill(const data::Column& column, const FedInput& input) {
  return input.target || !column.target;
}

}  // namespace

bool fits(const data::Column& column, const FedInput& input) {
  const Shape& shape = column.sample.shape;
  if (!input.integers.empty()) {
    return !is_float(column.sample.dtype) && same_axes(shape, input.sample);
  }
  if (column.classes > 0) return false;
  if (same_axes(shape, input.sample)) return true;
  const bool flat = shape.rank() == 1 || input.sample.rank() == 1;
  return flat && shape.elements() == input.sample.elements();
}

namespace {

/// Columns of a data set, which inputs take one after another.
class Matching {
 public:
  Matching(std::span<const FedInput> inputs, const data::Dataset& dataset)
      : inputs_(inputs),
        dataset_(dataset),
        columns_(dataset.columns()),
        found_(inputs.size(), no_column),
        taken_(columns_.size(), false) {}

  std::vector<size_t> run() {
    for (size_t i = 0; i < inputs_.size(); ++i) take_name(i);
    for (size_t i = 0; i < inputs_.size(); ++i) take_answer(i);
    std::vector<size_t> guessed;
    // Inputs of losses come last: not every pass needs them.
    for (const bool target : {false, true}) {
      for (size_t i = 0; i < inputs_.size(); ++i) {
        if (inputs_[i].target != target || found_[i] != no_column) continue;
        if (target) take_first(i, true);
        take_first(i, false);
        require_found(i);
        if (!target && inputs_[i].needed) guessed.push_back(i);
      }
    }
    for (const size_t i : guessed) require_only(i);
    return std::move(found_);
  }

 private:
  void take(size_t i, size_t column) {
    found_[i] = column;
    taken_[column] = true;
  }

  void take_name(size_t i) {
    const FedInput& input = inputs_[i];
    const auto named = std::ranges::find_if(columns_, [&](const data::Column& each) {
      return each.name == input.label && may_fill(each, input);
    });
    if (named == columns_.end()) return;
    const bool fit = fits(*named, input);
    const bool floats = !input.integers.empty() && is_float(named->sample.dtype);
    require<ArgumentError>(fit || !input.needed, "{}: column {} has {} per sample{}",
                           describe(input), printable(named->name), to_string(named->sample),
                           floats ? ", expected integers" : "");
    if (fit) take(i, static_cast<size_t>(named - columns_.begin()));
  }

  void take_answer(size_t i) {
    const FedInput& input = inputs_[i];
    if (!input.target || input.answer.empty() || found_[i] != no_column) return;
    for (size_t k = 0; k < columns_.size(); ++k) {
      if (columns_[k].target && columns_[k].name == input.answer && is_free(k, input)) {
        return take(i, k);
      }
    }
  }

  bool is_free(size_t column, const FedInput& input) const {
    return !taken_[column] && fits(columns_[column], input);
  }

  bool has_axes(size_t column, const FedInput& input) const {
    return same_axes(columns_[column].sample.shape, input.sample);
  }

  /// Takes the first column with the axes of the input, or else the first one that fits.
  void take_first(size_t i, bool targets) {
    for (const bool same : {true, false}) {
      for (size_t k = 0; k < columns_.size() && found_[i] == no_column; ++k) {
        const bool free = columns_[k].target == targets && is_free(k, inputs_[i]);
        if (free && (!same || has_axes(k, inputs_[i]))) take(i, k);
      }
    }
  }

  void require_found(size_t i) const {
    const FedInput& input = inputs_[i];
    if (found_[i] != no_column || !input.needed) return;
    const auto labels = std::ranges::find_if(columns_, [&](const data::Column& each) {
      return each.classes > 0 && each.sample.elements() == input.sample.elements();
    });
    std::string remedy;
    if (input.target && input.integers.empty() && labels != columns_.end()) {
      remedy = fmt::format("; {} holds labels: give floats if they are values",
                           printable(labels->name));
    } else if (input.target) {
      remedy = "; the loss compares it with an output: add a target";
    }
    fail<ArgumentError>("{}: no column of the data fits it; the data have {}{}",
                        describe(input), describe(dataset_), remedy);
  }

  /// Throws if a column is left that fits the input as well as the one it took.
  void require_only(size_t i) const {
    const bool same = has_axes(found_[i], inputs_[i]);
    for (size_t k = 0; k < columns_.size(); ++k) {
      const bool worse = same && !has_axes(k, inputs_[i]);
      require<ArgumentError>(
          columns_[k].target || worse || !is_free(k, inputs_[i]),
          "{}: columns {} and {} fit it, and neither has its name: rename the one to read",
          describe(inputs_[i]), printable(columns_[found_[i]].name),
          printable(columns_[k].name));
    }
  }

  std::span<const FedInput> inputs_;
  const data::Dataset& dataset_;
  std::span<const data::Column> columns_;
  std::vector<size_t> found_;
  std::vector<bool> taken_;
};

}  // namespace

std::vector<size_t> columns_for(std::span<const FedInput> inputs,
                                const data::Dataset& dataset) {
  return Matching(inputs, dataset).run();
}

}  // namespace qtape
