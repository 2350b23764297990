// Batch norms that stay in training: networks that compute the same, and what stays as it is.
#include "qtape/model/passes/training_norms.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "qtape/data/generated/digits.h"
#include "qtape/deploy/verify.h"
#include "qtape/model/evaluate.h"
#include "qtape/model/feed.h"
#include "qtape/model/fit.h"
#include "qtape/model/recipe.h"
#include "qtape/tests/support/small_fit.h"

using namespace qtape;
using test::quiet;

namespace {

const data::Split& digits() {
  static const data::Split split = data::example_digits(640);
  return split;
}

/// Norms after a convolution with a bias, after a Flatten and after an activation.
Model with_norms() {
  Network net;
  const Value conv = conv2d(net.input("x", {28, 28, 1}), 4, {5, 5});
  const Value pooled = max_pool(relu(batch_norm(conv, {}, "norm1")), {4, 4});
  const Value fc = linear(flatten(pooled), 16);
  const Value hidden = relu(batch_norm(reshape(fc, {16}), {}, "norm2"));
  return Model(linear(batch_norm(hidden, {}, "norm3"), 10), loss::cross_entropy);
}

std::vector<float> answers(Model& model, const Mode& mode) {
  Tape tape(model.graph().with_batch(32), model.parameters(), {.outputs = model.outputs()});
  Feed feed(inputs_of(tape), digits().test);
  (void)feed.fill_from(0);
  tape.forward(mode);
  const auto values = tape.value<float>(model.answer());
  return {values.begin(), values.end()};
}

void check_near(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-4));
}

template <class X>
int64_t count(const Graph& graph) {
  return std::ranges::count_if(
      graph.nodes(), [](const Node& node) { return std::holds_alternative<X>(node.op); });
}

}  // namespace

TEST_CASE("training norms: the network computes the same in evaluation and in training") {
  Model model = with_norms();
  (void)fit(model, digits().train, quiet(2));
  TrainingNorms found = with_training_norms(model.graph(), model.parameters());
  CHECK(found.folded == std::vector<std::string>{"norm1", "norm2", "norm3"});
  REQUIRE(found.model);
  CHECK(count<BatchNorm>(found.model->graph) == 0);
  CHECK(count<BatchNormCorrection>(found.model->graph) == 3);
  // The biases of both layers are gone; the norm after an activation has weights of its own.
  CHECK(model.parameters().trainable_elements() + 16 -
            found.model->parameters.trainable_elements() ==
        4 + 16);
  Model replaced(std::move(*found.model));
  check_near(answers(model, mode::eval), answers(replaced, mode::eval));
  const Mode training{.train = true, .batch_statistics = true};
  check_near(answers(model, training), answers(replaced, training));
  // The running statistics have moved alike.
  check_near(answers(model, mode::eval), answers(replaced, mode::eval));
}

TEST_CASE("training norms: quantized models keep them, and convert") {
  Model model = with_norms();
  (void)fit(model, digits().train, quiet(2));
  Model small = quantized(model, {.weight_bits = 4, .activation_bits = 4}, digits().train);
  CHECK(count<BatchNormCorrection>(small.graph()) == 3);
  CHECK(count<BatchNorm>(small.graph()) == 0);
  (void)fit(small, digits().train, quiet(2));
  CHECK(verify(small, digits().test).mismatches() == 0);
  CHECK(accuracy(small, digits().test) > accuracy(model, digits().test));
}

TEST_CASE("training norms: a norm with a gamma of 0 stays") {
  Model model = with_norms();
  model.parameters().set("norm1.gamma", Tensor::of<float>({4}, std::vector<float>{1, 0, 1, 1}));
  CHECK(with_training_norms(model.graph(), model.parameters()).folded ==
        std::vector<std::string>{"norm2", "norm3"});
  const Model plain = plain_model(model);
  CHECK(!with_training_norms(plain.graph(), plain.parameters()).model);
}
