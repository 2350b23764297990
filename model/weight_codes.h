// Codes of weights that are multiplied by the factors of norms.
#pragma once

#include <string>
#include <vector>

#include "qtape/model/passes/weight_factor.h"

namespace qtape {

/// Keeps the codes of such weights while running statistics change: the scales that their
/// quantizers train or observe, one for each channel, change by the same ratio as the factors.
/// Otherwise each step of training would round all weights again. Scales for several channels
/// and fixed ones do not change. Changes of gamma are left to the optimizer: a ratio of
/// gammas near 0 would carry the scales away.
class WeightCodes {
 public:
  explicit WeightCodes(const Graph& graph);

  /// Remembers the running variances of a step, before its forward pass.
  void remember(const Parameters& parameters);
  /// Multiplies scales by the ratios of the factors for the current variances to those for the
  /// remembered ones; with `frozen`, only scales that are trained. Scales that mark a quantizer
  /// as having seen only zeros are unchanged.
  void keep(Parameters& parameters, bool frozen);

 private:
  struct Weight {
    std::string variance;
    double eps = 0;
    std::vector<float> before;          // variances
    std::vector<std::string> trained;   // names of parameters
    std::vector<std::string> observed;  // names of states
  };

  static void multiply(Parameters& parameters, const std::vector<std::string>& names,
                       const Weight& weight);

  std::vector<Weight> weights_;
};

}  // namespace qtape
