// Sensitivity: the individual cost of each quantizer.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "qtape/engine/tape.h"

namespace qtape {

/// A score, such as the accuracy, of a graph with some quantizers switched off. `Tape::status`
/// of the tape passed to it states which.
using Score = std::function<double(Tape& tape)>;

/// Cost of one quantizer: scores with only it on, and with only it off.
struct NodeSensitivity {
  NodeId id;
  std::string label;
  double only_on = 0;   ///< score with only this quantizer
  double only_off = 0;  ///< score with all quantizers except this one
};

/// Scores of a graph and the sensitivities of its quantizers.
struct Sensitivity {
  double all_on = 0;                   ///< score with all quantizers
  double all_off = 0;                  ///< score without quantizers
  std::vector<NodeSensitivity> nodes;  ///< in graph order
};

/// Computes the score of the tape's graph with all quantizers, with none, and, for each
/// quantizer, with only it and with all except it: 2 n + 2 scores. Restores the switches
/// afterwards. `on_score` receives the numbers of finished scores and of all scores.
Sensitivity sensitivity(Tape& tape, const Score& score,
                        const std::function<void(int64_t done, int64_t all)>& on_score = {});

}  // namespace qtape
