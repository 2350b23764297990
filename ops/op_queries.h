// The contract of ops (core/op.h) for any op: what a template asks of a type, asked of a value.
// Compiled once for all ops, in place of a std::visit in each source that asks.
#pragma once

#include "qtape/ops/ops.h"

namespace qtape {

/// Declarations that hold for all values of an op's type.
struct OpTraits {
  std::string_view name;
  Guarantee guarantee;
  BatchReduction batch_reduction = BatchReduction::None;
  WholeBatch whole_batch = WholeBatch::Never;
  Sign sign = Sign::Any;
  bool gate = false;       ///< satisfies Gate
  bool quantizer = false;  ///< satisfies Quantizer
  bool on_codes = false;   ///< satisfies OnCodes
};
const OpTraits& traits_of(const Op& op);

/// Slots of `op`. Throws GraphError for attributes that leave their number open.
std::vector<Slot> slots_of(const Op& op);
/// Output type for operands of the types `inputs`. Throws GraphError if `op` rejects them.
TensorType output_type(const Op& op, Inputs inputs);
Keep keep_of(const Op& op);
Footprint footprint_of(const Op& op, Inputs inputs);
/// Bytes of scratch of a forward that runs once for all of `shards`, besides its footprint.
int64_t shards_scratch(const Op& op, Inputs inputs, const Shards& shards);
/// Bytes of scratch of a backward that multiplies in bf16; 0 for ops without Bf16Gradients.
int64_t bf16_scratch(const Op& op, Inputs inputs);
Kernel forward_kernel(const Op& op, const Binding& binding);
Kernel backward_kernel(const Op& op, const Binding& binding);

/// True if `op` is a quantizer that can mask gradients for a preceding Gate.
bool takes_gate(const Op& op);
/// True if the kernels of `op` compute on the codes of operand 0 and produce codes.
bool runs_on_codes(const Op& op);
/// See mixes_samples of core/op.h.
bool mixes_samples(const Op& op, Inputs inputs);

}  // namespace qtape
