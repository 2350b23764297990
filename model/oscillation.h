// Weights of few bits that jump between two codes: damped, or frozen.
#pragma once

#include <optional>
#include <vector>

#include "qtape/engine/tape.h"

namespace qtape {

/// Nagel, Fournarakis, Bondarenko and Blankevoort, arXiv 2203.11086. Weights near the middle
/// between two codes jump back and forth in training, which keeps batch norms and other weights
/// from settling.
struct Oscillations {
  /// Of the term strength sum (w - fake(w))^2 over weights inside their range, which rises from
  /// 0 by half a cosine to this at the end of the run; 0: none. Finite and >= 0.
  double damping = 0;
  /// Weights whose code turned back in more than this part of the last steps stay, from then
  /// on, at the code that is nearest to their average; without one, none. In (0, 1).
  std::optional<double> freeze_above = std::nullopt;
  double momentum = 0.01;  ///< of the averages over steps, in (0, 1)

  bool any() const { return damping > 0 || freeze_above; }
};

/// Throws ArgumentError, which names it, for a setting out of its range.
void validate(const Oscillations& oscillations);

/// Follows the codes of all Parameters that a graph quantizes; weights that a batch norm is
/// folded into before are left alone.
class OscillationControl {
 public:
  /// Throws as `validate`.
  OscillationControl(const Graph& graph, const Oscillations& options);

  /// Adds the gradient of the damping term. `progress` in [0, 1] is how far the run is; scales
  /// are those of the last forward.
  void damp(const Tape& tape, double progress) const;
  /// Looks at the weights that a step gave, and puts the frozen ones back.
  void follow(const Tape& tape);

  int64_t frozen() const;
  /// Weights that turned back in more than `frequency` of the last steps.
  int64_t oscillating(double frequency) const;

  /// All that further steps depend on, for a checkpoint.
  Section save() const;
  /// Throws FormatError for a section of other weights.
  void load(const Section& section);

 private:
  struct Weight {
    NodeId quantizer;
    std::string label;
    CodeLimits limits;
    ChannelMap map;
    std::vector<float> code;       // of the last step
    std::vector<float> direction;  // of the last change: -1, 0 or 1
    std::vector<float> frequency;  // of turns
    std::vector<float> average;    // of the code
    std::vector<float> frozen;     // 1: for good, at the code `code`
  };

  Oscillations options_;
  std::vector<Weight> weights_;
  bool started_ = false;
};

}  // namespace qtape
