// Requantization within an exact forward: from the integers before a quantizer to its codes.
#pragma once

#include <functional>
#include <vector>

#include "qtape/integer/exact_forward.h"
#include "qtape/kernels/quantize/quantize.h"

namespace qtape {

using namespace kernels;

/// Codes of the quantizer's grid from those of `x`, a node that is_integer.
class ExactRequantization {
 public:
  using Find = std::function<ExactOperand(NodeId)>;

  ExactRequantization(const Graph& graph, const IntegerAnalysis& analysis, NodeId x,
                      const Grid& grid, Requantization requantization, int threads,
                      const Find& find);

  /// Whether this step's integers of x are there.
  bool is_exact() const;
  /// Writes q - zp to `codes` and (q - zp) s to `y`. False, and a fault in `status`, for scales
  /// that cannot be brought to one another.
  bool run(const QParams<float>& q, float* codes, float* y, NodeStatus& status);

 private:
  /// Where element i of a part goes: i / width * stride + offset + i % width.
  struct Part {
    IntegerKind kind = IntegerKind::Codes;
    const ExactValue* a = nullptr;
    const ExactValue* b = nullptr;  // Add
    double low = 0;
    double high = 0;
    int64_t elements = 0;
    int64_t width = 1;
    int64_t stride = 1;
    int64_t offset = 0;
    std::vector<ExactOperand> operands = {};  // what must be exact
    std::vector<Multiplier> multipliers = {};
    AddMultiplier sum = {};
  };

  void add_part(const Graph& graph, NodeId x, const IntegerForm& form, const Find& find);
  bool load(Part& part, const QParams<float>& q, NodeStatus& status) const;
  int32_t steps(const Part& part, int64_t i, size_t channel) const;
  void run_part(const Part& part, const QParams<float>& q, float* codes, float* y) const;

  Grid grid_;
  Requantization requantization_;
  int threads_;
  ExactOperand whole_;  // on the way from a Concat
  std::vector<Part> parts_;
};

}  // namespace qtape
