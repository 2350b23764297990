// Codes of weights that are multiplied by the factors of norms.
#pragma once

#include <vector>

#include "qtape/model/passes/weight_factor.h"

namespace qtape {

/// Keeps the codes of such weights while running statistics and gamma change: the scales that
/// their quantizers store, one for each channel, are multiplied by the same ratio. Otherwise
/// each step of training would round all weights anew. Scales for several channels, and scales
/// that nothing updates, stay as they are.
class WeightCodes {
 public:
  explicit WeightCodes(const Graph& graph);

  /// Remembers the factors of a step, before its forward pass.
  void remember(const Parameters& parameters);
  /// Multiplies scales by the ratios of the factors to those that were remembered; with
  /// `frozen`, only scales that are trained.
  void keep(Parameters& parameters, bool frozen);

 private:
  struct Weight {
    WeightFactor factor;
    std::vector<float> before;
    std::vector<std::string> trained;   // names of parameters
    std::vector<std::string> observed;  // names of states
  };

  static void multiply(Parameters& parameters, const std::vector<std::string>& names,
                       const Weight& weight);

  std::vector<Weight> weights_;
};

}  // namespace qtape
