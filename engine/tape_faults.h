// Exchange of faults between ranks. Included only by .cpp files of the tape.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "qtape/engine/tape.h"

namespace qtape {

/// Lets all ranks know the fault of any of them, so that none waits for one that has stopped.
class Tape::RankFaults {
 public:
  struct Report {
    int64_t node = -1;  ///< none
    std::array<char, 248> text = {};
  };

  explicit RankFaults(int ranks);

  /// Returns the reports of all ranks; `own` may be no fault.
  std::span<const Report> gather(const Fault& own, size_t node, Exchange& exchange);

 private:
  std::vector<Report> all_;     // by rank
  std::vector<int64_t> bytes_;  // by rank
};

}  // namespace qtape
