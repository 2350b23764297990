// Cases of the leaves: what they hold before a step, and whether backward reaches them.
#include <limits>

#include "qtape/engine/quantizers.h"
#include "qtape/tests/support/op_case.h"

namespace qtape::test {
namespace {

/// Each element of the leaf holds `value`.
Array filled_with(const TensorType& type, double value) {
  return {type, Values(static_cast<size_t>(type.elements()), value)};
}

Tensor counted(const Shape& shape) {
  std::vector<float> values;
  for (int64_t i = 0; i < shape.elements(); ++i) values.push_back(static_cast<float>(i) - 7);
  return Tensor::of<float>(shape, values);
}

/// x times the weights that `leaf` holds, of shape [6, 5].
IntegerVerdict converts_as_weight(const Op& leaf) {
  return converts([leaf](Graph& graph) {
    const NodeId x = graph.add(Input{.shape = {4, 6}}, {}, "x");
    const NodeId w = graph.add(leaf, {}, "w");
    const FakeQuantize ema{.scale_mode = EMA{}};
    graph.set_outputs({graph.add(MatMul{}, {add_quantizer(graph, x, ema, "x"),
                                            add_quantizer(graph, w, FakeQuantize{}, "w")})});
    return w;
  });
}

}  // namespace

// What an Input holds is x[0]: the driver writes it.
std::vector<OpCase> leaf_cases() {
  const double inf = std::numeric_limits<double>::infinity();
  return {
      {.value = [](const OpUse&, Arrays x) { return x[0]; },
       .uses = {{Input{.dtype = DType::F64, .shape = {3, 4}}},
                {Input{.shape = {67}, .batch = false}},
                {Input{.dtype = DType::F16, .shape = {5}}},
                {Input{.dtype = DType::S32, .shape = {5}}}},
       .gradient = [](const OpUse&, Arrays, const Array& dy) -> std::vector<Values> {
         return {dy.values};
       },
       .integer = converts([](Graph& graph) {
         const NodeId x = graph.add(Input{.shape = {4, 6}}, {}, "x");
         graph.set_outputs({add_quantizer(graph, x, FakeQuantize{.scale_mode = EMA{}}, "x")});
         return x;
       }),
       .refusals = {{Input{.shape = {}}, {}, "a batched input needs rank >= 1, got a scalar"}}},
      {.value =
           [](const OpUse& use, Arrays) {
             const auto& op = std::get<Parameter>(use.op);
             const auto* fill = std::get_if<init::Fill>(&op.initializer);
             return filled_with({op.dtype, op.shape}, fill == nullptr ? 0 : fill->value);
           },
       .uses = {{Parameter{.dtype = DType::F64, .shape = {3}}},
                {Parameter{.shape = {2, 35}, .initializer = init::Fill{.value = 1.5}}}},
       .gradient = [](const OpUse&, Arrays, const Array& dy) -> std::vector<Values> {
         return {dy.values};
       },
       .integer =
           converts_as_weight(Parameter{.shape = {6, 5}, .initializer = init::KaimingNormal{}}),
       .refusals = {{Parameter{.dtype = DType::S32}, {}, "expected f32 or f64, got s32"}}},
      {.value =
           [](const OpUse& use, Arrays) {
             const auto& op = std::get<State>(use.op);
             return filled_with({op.dtype, op.shape}, op.value);
           },
       .uses = {{State{.dtype = DType::F64, .shape = {3}, .value = 0.1}},
                {State{.shape = {2, 35}}}},
       .integer = converts_as_weight(State{.shape = {6, 5}, .value = 0.3}),
       .refusals = {{State{.dtype = DType::S32}, {}, "expected f32 or f64, got s32"},
                    {State{.value = inf}, {}, "value must be finite, got inf"}}},
      {.value =
           [](const OpUse& use, Arrays) {
             const Tensor& tensor = std::get<Constant>(use.op).value;
             Array y{tensor.type, {}};
             for (int64_t i = 0; i < tensor.type.elements(); ++i) {
               y.values.push_back(static_cast<double>(i) - 7);
             }
             return y;
           },
       .uses = {{Constant{counted({4, 5})}}, {Constant{counted({0})}}},
       .integer = converts_as_weight(Constant{counted({6, 5})}),
       .refusals = {{Constant{Tensor{{DType::F32, {2}}, {}}},
                     {},
                     "value holds 0 bytes, f32[2] needs 8"}}},
  };
}

}  // namespace qtape::test
