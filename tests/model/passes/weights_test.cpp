// Values of a model as named tensors.
#include "qtape/model/passes/weights.h"

#include <doctest/doctest.h>

#include <array>

#include "qtape/engine/graph.h"
#include "qtape/tests/support/errors.h"

using namespace qtape;
using test::error_text;

namespace {

Parameters small_parameters(uint64_t seed) {
  Graph graph;
  graph.add(Parameter{.shape = {2, 3}, .initializer = init::KaimingUniform{}}, {}, "fc.weight");
  graph.add(Parameter{.shape = {2}}, {}, "fc.bias");
  graph.add(State{.dtype = DType::F64, .shape = {}, .value = 3}, {}, "scale");
  return {graph, seed};
}

}  // namespace

TEST_CASE("weights: all values by name, and back") {
  const Parameters from = small_parameters(1);
  Parameters to = small_parameters(2);
  REQUIRE(from.sha256() != to.sha256());
  const NamedTensors values = named_values(from);
  REQUIRE(values.size() == 3);
  CHECK(values[0].name == "fc.weight");
  CHECK(values[2] == NamedTensor{"scale", Tensor::of<double>({}, std::array{3.0})});
  CHECK(set_values(to, values) == 3);
  CHECK(from.sha256() == to.sha256());
}

TEST_CASE("weights: what is not named is kept") {
  Parameters parameters = small_parameters(1);
  const Tensor weight = parameters.get("fc.weight");
  const Tensor bias = Tensor::of<float>({2}, std::array{5.0f, 6.0f});
  CHECK(set_values(parameters, {{"fc.bias", bias}}) == 1);
  CHECK(parameters.get("fc.bias") == bias);
  CHECK(parameters.get("fc.weight") == weight);
  CHECK(set_values(parameters, {}) == 0);
}

TEST_CASE("weights: what does not fit is refused and changes nothing") {
  Parameters parameters = small_parameters(1);
  const std::string before = parameters.sha256();
  const Tensor bias = Tensor::of<float>({2}, std::array{5.0f, 6.0f});
  const auto message = [&](const NamedTensor& wrong) {
    return error_text<GraphError>([&] {
      (void)set_values(parameters, {{"fc.bias", bias}, wrong});
    });
  };
  CHECK(message({"fc.weigth", bias}) ==
        "no parameter or state is called 'fc.weigth'; the nearest are 'fc.weight', 'fc.bias'");
  CHECK(message({"fc.weight", bias}) == "'fc.weight' is f32[2, 3], got f32[2]");
  CHECK(message({"scale", Tensor::of<float>({}, std::array{3.0f})}) ==
        "'scale' is f64[], got f32[]");
  CHECK(message({"scale", {.type = {DType::F64, {}}}}) == "'scale' needs 8 bytes, got 0");
  CHECK(message({"fc.bias", bias}) == "'fc.bias' appears twice");
  CHECK(parameters.sha256() == before);
}
