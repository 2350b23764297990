// Building blocks of the kernels of exact arithmetic: operands, constant factors and integer
// ops.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/training/exact_forward.h"

namespace qtape {

/// The integers of an operand. They are unavailable while a view between source and operand
/// changes values, as Dropout does in training.
struct ExactForward::Operand {
  ExactValue* source = nullptr;
  std::vector<const NodeStatus*> views = {};

  bool is_exact() const {
    return source->exact &&
           std::ranges::none_of(views, [](const NodeStatus* s) { return s->applied; });
  }
};

/// Constant factors of a product, and the bias added to its sums.
struct ExactForward::Factors {
  const ExactValue* weight = nullptr;
  ScaleSource scales;           // of the weights
  const float* bias = nullptr;  // [n], or null
  int64_t outputs = 0;
  int64_t bound = 0;  // upper bound of |sum of products|
  WeightNumbers numbers;
  float loaded_input_scale = 0;
  std::vector<float> loaded_bias = {};

  /// True if weights and bias have codes in this step.
  bool is_ready() const;
  /// Loads the scales and biases of this step, and sets the dtype of the sums.
  Fault load(const IntegerValue& x, IntegerValue& sums);

 private:
  /// True if these scales and biases are already loaded.
  bool is_loaded(float s_x) const;
};

/// Values of the leaves of a norm, in the step.
struct ExactForward::NormLeaves {
  std::vector<std::span<const float>> values;

  /// True if all of them are finite, so that the norm has integers in this step.
  bool is_ready() const;
};

/// Sources of the integers that an op reads.
struct ExactForward::Inputs {
  std::vector<Operand> operands;
  std::optional<Factors> factors;
  NormLeaves norm;

  /// True if all integers are available in this step.
  bool is_ready() const {
    return std::ranges::all_of(operands, &Operand::is_exact) &&
           (!factors || factors->is_ready()) && norm.is_ready();
  }
};

/// An integer op bound to memory, with one kernel for each dtype that operand 0 may have. Must
/// stay in place, because kernels point to its op and its result.
class ExactForward::BoundOp {
 public:
  /// `sums`: operand 0 if it holds accumulators, which may be s32 in one step and s64 in
  /// another.
  BoundOp(IntegerOp made, IntegerValue result, IntegerBinding binding,
          IntegerValue* sums = nullptr);

  /// Loads changed numbers and runs the kernel; returns the fault of loading, if any, without
  /// running.
  Fault run();

  IntegerOp op;
  IntegerValue output;

 private:
  IntegerBinding binding_;
  std::vector<IntegerKernel> kernels_;
};

/// The op of a node, with numbers of the current step. Must stay in place.
class ExactForward::Operation {
 public:
  Operation(ExactForward& owner, const LoweredOp& lowered, IntegerValue result, std::byte* to);

  const IntegerValue& output() const { return bound_->output; }
  bool is_ready() const;
  /// Runs the op. `q`: scale and zero point of codes that it writes.
  Fault run(const QParams<float>& q);
  /// Returns the scale and zero point of operand 0, which must be codes.
  QParams<float> input_qparams() const;

 private:
  /// Adds the ops that bring the operands to the grid of the result.
  void add_pieces(IntegerBinding& binding);
  void bind(IntegerValue result, IntegerBinding binding);
  void load_shaped();
  /// Returns a fault for an index of no row of a table.
  Fault check_indices() const;
  Fault run_pieces(const QParams<float>& q);

  ExactForward& owner_;
  const LoweredOp& lowered_;
  Inputs inputs_;
  std::vector<const ExactValue*> indices_;
  std::vector<IntegerValue> shaped_;    // codes of operands, in the shapes of those
  std::vector<AlignedBuffer> buffers_;  // of the pieces
  std::vector<std::unique_ptr<Operation>> pieces_;
  Numbers numbers_;
  bool follows_grid_ = false;
  std::unique_ptr<BoundOp> bound_;
};

}  // namespace qtape
