// What the kernels of exact arithmetic are made of: operands, integer ops and products.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "qtape/integer/exact_forward.h"
#include "qtape/integer/integer_binding.h"
#include "qtape/integer/op_rules.h"

namespace qtape {

/// The integers of an operand. A view on the way from their source that changes values, as
/// Dropout does in training, takes them away while it does.
struct ExactForward::Operand {
  ExactValue* source = nullptr;
  IntegerValue* value = nullptr;  // of the source, in its shape
  std::byte* memory = nullptr;
  std::vector<const NodeStatus*> views = {};

  bool is_exact() const {
    return source->exact &&
           std::ranges::none_of(views, [](const NodeStatus* s) { return s->applied; });
  }
};

/// One integer op on a tape. Values and ops stay where they are while kernels point to them.
class ExactForward::Operation {
 public:
  Operation(IntegerOp made, std::vector<const IntegerValue*> inputs, IntegerValue result,
            std::vector<std::byte*> operands, std::byte* to, Requantization requantization,
            int threads, const WeightNumbers* weights = nullptr);

  IntegerValue& output() { return output_; }
  /// The grid that the op writes, where it has one.
  void set_grid(const CodeGrid& grid);
  /// The same from what `op` emits for `numbers`, and the code that it writes, where it has
  /// one.
  void refresh(const Op& op, const Numbers& numbers);
  /// Takes over what changed, and runs unless that is at fault.
  Fault run();

 private:
  IntegerOp op_;
  IntegerValue output_;
  IntegerBinding binding_;
  IntegerKernel kernel_;
};

/// A product with constant weights, and the bias in its accumulators.
struct ExactForward::Product {
  Operand x;
  IntegerValue shaped;  // of x, in the shape that the product takes
  ExactValue* weight = nullptr;
  ScaleSource scales;           // of the weights
  const float* bias = nullptr;  // [n], or null
  int64_t outputs = 0;
  int64_t bound = 0;  // no sum of products is further from 0
  WeightNumbers numbers;
  float loaded_input_scale = 0;
  std::vector<float> loaded_bias = {};
  std::unique_ptr<Operation> operation;  // none where only the bias reads it

  /// Whether this step has integers for it.
  bool is_ready() const;

  /// Scales and biases of this step.
  Fault load();

  /// Whether these scales and biases were taken over before.
  bool is_loaded(float s_x) const;
};

}  // namespace qtape
