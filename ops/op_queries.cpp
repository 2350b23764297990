#include "qtape/ops/op_queries.h"

#include "qtape/ops/core/quantizer_op.h"
#include "qtape/ops/op_table.h"

namespace qtape {
namespace {

/// The contract of one type, for an Op that holds it.
struct Contract {
  OpTraits traits;
  std::vector<Slot> (*slots)(const Op&);
  TensorType (*output_type)(const Op&, Inputs);
  Keep (*keep)(const Op&);
  Footprint (*footprint)(const Op&, Inputs);
  int64_t (*shards_scratch)(const Op&, Inputs, const Shards&);
  int64_t (*bf16_scratch)(const Op&, Inputs);
  Kernel (*forward)(const Op&, const Binding&);
  Kernel (*backward)(const Op&, const Binding&);
  bool (*takes_gate)(const Op&);
  bool (*runs_on_codes)(const Op&);
  bool (*mixes_samples)(const Op&, Inputs);
};

template <class X>
int64_t shards_scratch_of(const Op& op, Inputs inputs, const Shards& shards) {
  if constexpr (requires { as<X>(op).shards_scratch(inputs, shards); }) {
    return as<X>(op).shards_scratch(inputs, shards);
  }
  return 0;
}

template <class X>
int64_t bf16_scratch_of(const Op& op, Inputs inputs) {
  if constexpr (Bf16Gradients<X>) return as<X>(op).bf16_scratch(inputs);
  return 0;
}

template <class X>
bool takes_gate_of(const Op& op) {
  if constexpr (TakesGate<X>) return as<X>(op).takes_gate();
  return false;
}

template <class X>
bool runs_on_codes_of(const Op& op) {
  if constexpr (OnCodes<X>) return as<X>(op).on_codes();
  return false;
}

template <class X>
constexpr Contract contract_of() {
  return {
      .traits = {.name = X::name,
                 .guarantee = guarantee_of<X>(),
                 .batch_reduction = batch_reduction_of<X>(),
                 .whole_batch = whole_batch_of<X>(),
                 .sign = sign_of<X>(),
                 .gate = Gate<X>,
                 .quantizer = Quantizer<X>,
                 .on_codes = OnCodes<X>},
      .slots = [](const Op& op) { return as<X>(op).slots(); },
      .output_type = [](const Op& op, Inputs inputs) { return as<X>(op).infer(inputs); },
      .keep = [](const Op& op) { return as<X>(op).keep(); },
      .footprint = [](const Op& op, Inputs inputs) { return as<X>(op).footprint(inputs); },
      .shards_scratch = &shards_scratch_of<X>,
      .bf16_scratch = &bf16_scratch_of<X>,
      .forward = [](const Op& op,
                    const Binding& binding) { return as<X>(op).forward(binding); },
      .backward = [](const Op& op,
                     const Binding& binding) { return as<X>(op).backward(binding); },
      .takes_gate = &takes_gate_of<X>,
      .runs_on_codes = &runs_on_codes_of<X>,
      .mixes_samples = [](const Op& op,
                          Inputs inputs) { return mixes_samples(as<X>(op), inputs); },
  };
}

const Contract& contract_of(const Op& op) {
  static constexpr auto contracts = op_table([]<class X>() { return contract_of<X>(); });
  return contracts[op.index()];
}

}  // namespace

const OpTraits& traits_of(const Op& op) { return contract_of(op).traits; }
std::string_view name_of(const Op& op) { return traits_of(op).name; }
std::vector<Slot> slots_of(const Op& op) { return contract_of(op).slots(op); }
TensorType output_type(const Op& op, Inputs inputs) {
  return contract_of(op).output_type(op, inputs);
}
Keep keep_of(const Op& op) { return contract_of(op).keep(op); }
Footprint footprint_of(const Op& op, Inputs inputs) {
  return contract_of(op).footprint(op, inputs);
}
int64_t shards_scratch(const Op& op, Inputs inputs, const Shards& shards) {
  return contract_of(op).shards_scratch(op, inputs, shards);
}
int64_t bf16_scratch(const Op& op, Inputs inputs) {
  return contract_of(op).bf16_scratch(op, inputs);
}
Kernel forward_kernel(const Op& op, const Binding& binding) {
  return contract_of(op).forward(op, binding);
}
Kernel backward_kernel(const Op& op, const Binding& binding) {
  return contract_of(op).backward(op, binding);
}
bool takes_gate(const Op& op) { return contract_of(op).takes_gate(op); }
bool runs_on_codes(const Op& op) { return contract_of(op).runs_on_codes(op); }
bool mixes_samples(const Op& op, Inputs inputs) {
  return contract_of(op).mixes_samples(op, inputs);
}

}  // namespace qtape
