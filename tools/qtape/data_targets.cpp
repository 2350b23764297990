#include "qtape/tools/qtape/data_targets.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include "qtape/core/printable.h"
#include "qtape/model/feed.h"
#include "qtape/model/targets.h"
#include "qtape/programs/console/standard_output.h"

namespace qtape::tool {
namespace {

/// The targets of a data set and the answers of a model.
class TargetCheck {
 public:
  TargetCheck(const data::Dataset& set, const std::string& place, const DataNeeds& needs)
      : set_(set), place_(place), needs_(needs) {
    std::vector<std::string> names;
    for (const data::WantedInput& each : needs.answers) names.push_back(each.name);
    targets_ = targets_of(set, names);
  }

  /// Throws ArgumentError for labels of samples that are not classes of their answer, or of any
  /// answer that they may belong to.
  void require_classes(size_t index) const {
    if (column(index).classes == 0) return;
    int64_t own = 0, most = 0;
    for (size_t i = 0; i < needs_.answers.size(); ++i) {
      const data::WantedInput& answer = needs_.answers[i];
      const int64_t classes = std::max({int64_t{2}, answer.classes, answer.sample.elements()});
      most = std::max(most, classes);
      if (targets_[i] == std::vector<size_t>{index}) own = classes;
    }
    if (most == 0) return;
    naming<ArgumentError>(place_,
                          [&] { qtape::require_classes(set_, index, own > 0 ? own : most); });
  }

  void require_fit(size_t index) const {
    require_classes(index);
    const data::Column& target = column(index);
    const auto of_loss = [&](const data::WantedInput& input) {
      return fits(target, as_fed(input));
    };
    if (is_of_answer(index)) return;
    if (std::ranges::any_of(needs_.others, of_loss)) {
      console::print("{}: '{}' fits an input of a loss, but no answer: it is not scored\n",
                     place_, printable(target.name));
      return;
    }
    refuse(target);
  }

  /// Names a target that may be meant as classes: numbers that are all 0 or 1, as labels of two
  /// classes are in PyTorch, and rows of zeros with a single 1.
  void note_classes(size_t index) const {
    const data::Column& target = column(index);
    if (target.classes > 0) return;
    const int64_t elements = target.sample.elements();
    const bool several = target.sample.shape.rank() == 1 && elements > 1;
    const bool one = elements == 1;
    const bool known = std::ranges::any_of(needs_.answers, [&](const auto& answer) {
      return holds_classes(target, {DType::F32, batched(answer)});
    });
    if (known || (!one && !several) || !looks_like_classes(index)) return;
    console::print("{}: {} are values; if they are classes, give {}\n", place_,
                   one ? "the numbers 0 and 1" : "rows with a single 1",
                   one ? "integers of shape [samples]"
                       : "the index of the 1, one integer for each sample");
  }

 private:
  const data::Column& column(size_t index) const { return set_.columns()[index]; }

  static FedInput as_fed(const data::WantedInput& input) {
    static float number = 0;
    static int32_t integer = 0;
    FedInput fed{.label = input.name, .sample = input.sample};
    if (input.dtype == DType::S32) {
      fed.integers = std::span(&integer, 1);
    } else {
      fed.floats = std::span(&number, 1);
    }
    return fed;
  }
  static Shape batched(const data::WantedInput& answer) {
    std::vector<int64_t> extents = {1};
    std::ranges::copy(answer.sample.extents(), std::back_inserter(extents));
    return Shape(extents);
  }
  /// True for integers that would be labels of positions if the channels of the answer were
  /// last.
  static bool needs_last(const data::Column& target, const data::WantedInput& answer) {
    return answer.channels_first && !is_float(target.sample.dtype) &&
           target.sample.shape.rank() + 1 == answer.sample.rank();
  }

  /// True for the values or classes of an answer. Throws ArgumentError for labels of positions
  /// that are not classes.
  bool is_of_answer(size_t index) const {
    const data::Column& target = column(index);
    for (const data::WantedInput& answer : needs_.answers) {
      if (needs_last(target, answer)) continue;
      const bool classes = holds_classes(target, {DType::F32, batched(answer)});
      if (classes && target.classes == 0) {
        naming<ArgumentError>(place_, [&] { require_places(index, answer.sample[-1]); });
      }
      if (classes || fits(target, as_fed(answer))) return true;
    }
    return needs_.answers.empty();
  }

  /// Throws ArgumentError for labels of positions that are none of `classes`.
  void require_places(size_t index, int64_t classes) const {
    std::vector<int32_t> labels(static_cast<size_t>(column(index).sample.elements()));
    for (int64_t sample = 0; sample < set_.size(); ++sample) {
      set_.read(index, sample, std::span(labels));
      for (const int32_t label : labels) {
        require<ArgumentError>(label >= 0 && label < classes,
                               "label {} of sample {} is outside 0..{}", label, sample,
                               classes - 1);
      }
    }
  }

  [[noreturn]] void refuse(const data::Column& target) const {
    std::string expected;
    for (const data::WantedInput& answer : needs_.answers) {
      require<ArgumentError>(
          !needs_last(target, answer),
          "{} has labels of positions, and the channels of '{}' are first, as "
          "with --layout nchw: labels need them last, as with nhwc",
          place_, printable(answer.name));
      expected += fmt::format("{}'{}' {}", expected.empty() ? "" : " or ", answer.name,
                              to_string(TensorType{DType::F32, answer.sample}));
    }
    require<ArgumentError>(
        target.classes == 0,
        "{} has a label for each sample, expected an answer with one axis of "
        "classes, or values or labels of positions for {}",
        place_, expected);
    fail<ArgumentError>(
        "{} has {} for each sample, expected one integer, or the values of an "
        "answer, {}, or an integer for each of its places",
        place_, to_string(target.sample), expected);
  }

  /// True if all samples of a target are 0 and 1 alone, with a single 1 if they have several
  /// elements.
  bool looks_like_classes(size_t index) const {
    std::vector<float> values(static_cast<size_t>(column(index).sample.elements()));
    for (int64_t sample = 0; sample < set_.size(); ++sample) {
      set_.read(index, sample, std::span(values));
      const auto ones = std::ranges::count(values, 1.0f);
      if (ones + std::ranges::count(values, 0.0f) != std::ssize(values)) return false;
      if (values.size() > 1 && ones != 1) return false;
    }
    return true;
  }

  const data::Dataset& set_;
  const std::string& place_;
  const DataNeeds& needs_;
  std::vector<std::vector<size_t>> targets_;  // by answer
};

}  // namespace

void check_targets(const data::Dataset& set, const std::string& place, const DataNeeds& needs) {
  const TargetCheck check(set, place, needs);
  const std::vector<size_t> targets = target_columns(set);
  for (const size_t index : targets) check.require_fit(index);
  for (const size_t index : targets) check.note_classes(index);
}

void check_classes(const data::Dataset& set, const std::string& place, const DataNeeds& needs) {
  const TargetCheck check(set, place, needs);
  for (const size_t index : target_columns(set)) check.require_classes(index);
}

}  // namespace qtape::tool
