// Ranks: the processes that train together, and what they have to agree on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "qtape/data/dataset.h"
#include "qtape/ops/core/shards.h"

namespace qtape {

/// A property that must be equal on all ranks. `remedy` is the end of the message if it is not.
struct RankFact {
  std::string name;
  std::string value;
  std::string remedy;
};

/// Remedy for files that differ.
inline constexpr const char* same_files = "give all processes the same files";

/// Returns the number of samples and the hash of up to 4096 of them, which are spread evenly.
/// `name` is that of the samples.
std::vector<RankFact> data_facts(const std::string& name, const data::Dataset& dataset);
/// Returns the number of samples alone.
RankFact count_fact(const std::string& name, const data::Dataset& dataset);

/// The processes of a run, or this one alone.
class Ranks {
 public:
  explicit Ranks(Exchange* exchange)
      : exchange_(exchange),
        values_(static_cast<size_t>(count())),
        bytes_(values_.size(), static_cast<int64_t>(sizeof(int))) {}

  int count() const { return exchange_ == nullptr ? 1 : exchange_->ranks(); }
  /// True for the rank that writes files and messages.
  bool leads() const { return exchange_ == nullptr || exchange_->rank() == 0; }
  /// Returns the largest `value` of all ranks.
  int largest(int value) const;
  /// True if `value` is true on any rank.
  bool any(bool value) const { return largest(value ? 1 : 0) != 0; }
  /// Throws ArgumentError on all ranks, with the names and values of all facts that differ, and
  /// the ranks that have them.
  void require_equal(std::span<const RankFact> facts) const;

 private:
  std::vector<std::string> gather(const std::string& text) const;

  Exchange* exchange_;
  mutable std::vector<int> values_;  // by rank, for `largest`
  std::vector<int64_t> bytes_;       // by rank: those of a value
};

}  // namespace qtape
