// Sensitivity: how much each quantizer alone costs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "qtape/engine/tape.h"

namespace qtape {

/// A score, say the accuracy, of a graph with some quantizers switched off. `Tape::status` of
/// the tape that it is given says which.
using Score = std::function<double(Tape& tape)>;

/// What one quantizer costs, as scores with it alone and without it alone.
struct NodeSensitivity {
  NodeId id;
  std::string label;
  double only_on = 0;   ///< score with this quantizer alone
  double only_off = 0;  ///< score with all quantizers but this
};

/// Scores of a graph, and what each quantizer has to do with them.
struct Sensitivity {
  double all_on = 0;                   ///< score with all quantizers
  double all_off = 0;                  ///< score with none
  std::vector<NodeSensitivity> nodes;  ///< in graph order
};

/// Scores the tape's graph with all quantizers, with none, and for each quantizer with it alone
/// and without it: 2 n + 2 scores. The switches are afterwards as they were. `on_score` hears
/// of finished and of all scores.
Sensitivity sensitivity(Tape& tape, const Score& score,
                        const std::function<void(int64_t done, int64_t all)>& on_score = {});

}  // namespace qtape
