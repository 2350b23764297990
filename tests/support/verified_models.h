// Convolutional models with quantizers, checked at all levels of arithmetic.
#pragma once

#include <doctest/doctest.h>

#include <functional>

#include "qtape/c99/levels.h"
#include "qtape/core/random.h"
#include "qtape/deploy/verify.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/model/feed.h"
#include "qtape/model/model.h"
#include "qtape/model/quantization.h"
#include "qtape/model/recipe.h"
#include "qtape/onnx/levels.h"
#include "qtape/tests/support/integer_nets.h"

namespace qtape::test {

/// 64 random images.
inline data::Dataset noise() {
  const Random random(5, 1);
  std::vector<float> values(64 * 6 * 6 * 3);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = 2 * static_cast<float>(random.uniform(i)) - 1;
  }
  data::Dataset set;
  set.add("x", Tensor::of<float>({64, 6, 6, 3}, values));
  return set;
}

/// Returns a model of `build` applied to a convolution, quantized and calibrated.
inline Model net(const std::function<Value(const Value&)>& build) {
  Network network;
  const Value h = relu(conv2d(network.input("x", {6, 6, 3}), 4, {3, 3}, {.label = "conv"}));
  return quantized(Model(build(h), 2), {}, noise(), 64, 1);
}

inline Verifier verified(const Model& model, Requantization rounding, OnnxForm form,
                         const data::Dataset& samples = noise()) {
  VerifyOptions options;
  options.convert.requantization = rounding;
  options.batch = 32;
  options.threads = 1;
  options.levels = {Level::Float, Level::Exact, Level::Backend, c_level};
  if (rounding == Requantization::OnnxQdq) options.levels.push_back(onnx_level);
  options.runners = onnx_levels({.form = form});
  options.runners.merge(c_levels());
  Verifier verifier(model.graph(), model.parameters(), options);
  Feed feed(inputs_of(verifier), samples);
  feed.for_each_batch([&](int64_t, int64_t count) { verifier.run(count); });
  return verifier;
}

/// Checks that all levels give the same integers and floats, in the shape of the graph.
inline void check_all(const Model& model, const data::Dataset& samples = noise()) {
  for (const Requantization rounding : requantization::values) {
    const Verifier verifier = verified(model, rounding, OnnxForm::Integer, samples);
    CHECK(mismatch(verifier) == "");
    const IntegerProgram& program = verifier.program();
    const Graph graph = model.graph().with_batch(32);
    for (size_t i = 0; i < program.outputs().size(); ++i) {
      CHECK(program[program.outputs()[i]].value.type == graph[model.outputs()[i]].type);
    }
    CHECK(program_from_json(to_json(program)) == program);
    CHECK(program.with_batch(3).with_batch(32) == program);
  }
}

}  // namespace qtape::test
