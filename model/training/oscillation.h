// Control of weights with few bits that oscillate between two codes, by damping or freezing.
#pragma once

#include <optional>
#include <vector>

#include "qtape/core/section.h"
#include "qtape/engine/tape.h"
#include "qtape/model/passes/weight_factor.h"

namespace qtape {

/// Nagel, Fournarakis, Bondarenko and Blankevoort, arXiv 2203.11086. Weights near the midpoint
/// of two codes jump back and forth in training, which keeps batch norms and other weights from
/// converging.
struct Oscillations {
  /// Strength of the term strength sum (w - fake(w))^2 over weights inside their range. It
  /// rises from 0 to this value at the end of the run by half a cosine; 0: no damping. Finite
  /// and >= 0.
  double damping = 0;
  /// Weights whose code reversed direction in more than this share of the recent steps are
  /// frozen at the code nearest to their average. In (0, 1); empty: no freezing.
  std::optional<double> freeze_above = std::nullopt;
  double momentum = 0.01;  ///< of the moving averages over steps, in (0, 1)

  bool any() const { return damping > 0 || freeze_above; }
};

/// Throws ArgumentError, which names the setting, for a setting out of range.
void validate(const Oscillations& oscillations);

/// Tracks the codes of all f32 Parameters that a graph quantizes, also of those that it first
/// multiplies by the factor of a batch norm.
class OscillationControl {
 public:
  /// Throws like `validate`.
  OscillationControl(const Graph& graph, const Oscillations& options);

  /// Remembers the factors of norms of a step, before its forward pass.
  void remember(const Parameters& parameters);
  /// Adds the gradient of the damping term. `progress` in [0, 1] is the progress of the run;
  /// scales and factors are those of the last forward pass.
  void damp(const Tape& tape, double progress) const;
  /// Tracks the weights after a step, and resets the frozen ones.
  void follow(const Tape& tape);

  int64_t frozen() const;

  /// Returns the complete state for a checkpoint.
  Section save() const;
  /// Throws FormatError for a section that belongs to other weights.
  void load(const Section& section);

 private:
  struct Weight {
    NodeId quantizer;
    WeightFactor factor;
    std::string label;
    CodeLimits limits;
    ChannelMap map;
    std::vector<float> code;       // of the last step
    std::vector<float> direction;  // of the last change: -1, 0 or 1
    std::vector<float> frequency;  // of reversals
    std::vector<float> average;    // of the code
    std::vector<float> frozen;     // 1: frozen permanently at `code`
  };
  /// Counts a reversal of element i, whose code is new, and freezes it if there are too many.
  void track(Weight& weight, size_t i, float code) const;

  Oscillations options_;
  std::vector<Weight> weights_;
  bool started_ = false;
};

}  // namespace qtape
