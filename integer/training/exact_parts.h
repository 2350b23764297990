// Building blocks of the kernels of exact arithmetic: operands, integer ops and products.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/integer/training/exact_forward.h"

namespace qtape {

/// The integers of an operand. They are unavailable while a view between source and operand
/// changes values, as Dropout does in training.
struct ExactForward::Operand {
  ExactValue* source = nullptr;
  IntegerValue* value = nullptr;  // of the source, in the operand's shape
  std::byte* memory = nullptr;
  std::vector<const NodeStatus*> views = {};

  bool is_exact() const {
    return source->exact &&
           std::ranges::none_of(views, [](const NodeStatus* s) { return s->applied; });
  }
};

/// One integer op on a tape. Must stay in place, because kernels point to its values and op.
class ExactForward::Operation {
 public:
  Operation(IntegerOp made, std::vector<const IntegerValue*> inputs, IntegerValue result,
            std::vector<std::byte*> operands, std::byte* to, Requantization requantization,
            int threads, const WeightNumbers* weights = nullptr);

  IntegerValue& output() { return output_; }
  /// Sets the grid of the result, for ops that have one.
  void set_grid(const CodeGrid& grid);
  /// Sets the grid, and the code that the op writes if it has one, from the op that `op` emits
  /// for `numbers`.
  void refresh(const Op& op, const Numbers& numbers);
  /// Loads changed numbers and runs the kernel; returns the fault of loading, if any, without
  /// running.
  Fault run();

 private:
  IntegerOp op_;
  IntegerValue output_;
  IntegerBinding binding_;
  IntegerKernel kernel_;
};

/// A product with constant weights, including a bias added to its accumulators.
struct ExactForward::Product {
  Operand x;
  IntegerValue shaped;  // of x, in the shape that the product reads
  ExactValue* weight = nullptr;
  ScaleSource scales;           // of the weights
  const float* bias = nullptr;  // [n], or null
  int64_t outputs = 0;
  int64_t bound = 0;  // upper bound of |sum of products|
  WeightNumbers numbers;
  float loaded_input_scale = 0;
  std::vector<float> loaded_bias = {};
  std::unique_ptr<Operation> operation;  // null if only the bias reads the product

  /// True if integers are available in this step.
  bool is_ready() const;

  /// Loads the scales and biases of this step.
  Fault load();

  /// True if these scales and biases are already loaded.
  bool is_loaded(float s_x) const;
};

}  // namespace qtape
