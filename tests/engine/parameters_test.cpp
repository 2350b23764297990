#include "qtape/engine/parameters.h"

#include <doctest/doctest.h>

#include <functional>
#include <optional>
#include <utility>

#include "qtape/engine/quantizers.h"
#include "qtape/engine/serialize.h"
#include "qtape/optim/optimizer.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/models.h"

using namespace qtape;
using test::error_text;

namespace {

template <class T>
concept Readable = requires(const ParameterEntry& entry) {
  entry.values<T>();
  entry.gradients<T>();
};
static_assert(Readable<float> && Readable<double> && !Readable<char> && !Readable<bool>);

constexpr std::string_view moved_from =
    "these parameters were moved from; use those that they were moved to";
constexpr std::string_view gone =
    "the parameters of this tape no longer exist: they were destroyed, or others were assigned "
    "to them";

/// A tape and an optimizer for training.
struct Training {
  Training(const test::Classifier& classifier, Parameters& parameters)
      : c(classifier),
        tape(classifier.graph, parameters, {.roots = {classifier.loss}, .threads = 1}),
        optimizer(parameters, Adam{}, {}, 1) {}

  void run(int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      test::feed(tape, c, i);
      tape.forward(mode::qat);
      tape.backward();
      optimizer.step(1e-2);
    }
  }

  const test::Classifier& c;
  Tape tape;
  Optimizer optimizer;
};

std::string trained_without_moves(const test::Classifier& c) {
  Parameters parameters(c.graph, 1);
  Training(c, parameters).run(0, 4);
  return parameters.sha256();
}

}  // namespace

TEST_CASE("parameters: values and gradients are given as their dtype alone") {
  Graph graph;
  graph.add(Parameter{.shape = {2, 3}}, {}, "w");
  graph.add(State{.dtype = DType::F64, .shape = {1}}, {}, "s");
  const Parameters parameters(graph, 1);
  const ParameterEntry& w = parameters.at("w");
  const ParameterEntry& s = parameters.at("s");
  CHECK(w.values<float>().size() == 6);
  CHECK(w.gradients<float>().size() == 6);
  CHECK(s.values<double>().size() == 1);
  CHECK(error_text<GraphError>([&] { (void)w.values<double>(); }) ==
        "'w' is f32[2, 3], accessed as f64");
  CHECK(error_text<GraphError>([&] { (void)w.gradients<int32_t>(); }) ==
        "'w' is f32[2, 3], accessed as s32");
  CHECK(error_text<GraphError>([&] { (void)s.values<float>(); }) ==
        "'s' is f64[1], accessed as f32");
  CHECK(error_text<GraphError>([&] { (void)s.gradients<double>(); }) ==
        "'s' is a state, which has no gradient");
}

TEST_CASE("parameters: tapes and optimizers follow them wherever they are moved") {
  const test::Classifier c = test::make_classifier();
  const std::string expected = trained_without_moves(c);
  std::optional<Parameters> first(std::in_place, c.graph, 1);
  Training training(c, *first);
  training.run(0, 1);
  const ParameterEntry weight = first->at("fc1.weight");
  Parameters second = std::move(*first);
  first.reset();
  training.run(1, 2);
  std::vector<Parameters> many;
  many.push_back(std::move(second));
  many.reserve(100);
  training.run(2, 3);
  SavedModel model{c.graph, std::move(many[0]), {}};
  many.clear();
  training.run(3, 4);
  CHECK(model.parameters.sha256() == expected);
  CHECK(&training.tape.parameters() == &model.parameters);
  CHECK(model.parameters.at("fc1.weight").value == weight.value);
  const auto read = training.tape.value<float>("fc1.weight");
  CHECK(read.data() == model.parameters.at("fc1.weight").values<float>().data());
}

TEST_CASE("parameters: what they are assigned to and swapped with takes their tapes along") {
  const test::Classifier c = test::make_classifier();
  const std::string expected = trained_without_moves(c);
  Parameters a(c.graph, 1), b(c.graph, 2);
  Training of_a(c, a), of_b(c, b);
  of_a.run(0, 2);
  std::swap(a, b);
  of_a.run(2, 4);
  CHECK(b.sha256() == expected);
  CHECK(&of_a.tape.parameters() == &b);
  CHECK(&of_b.tape.parameters() == &a);
  a = std::move(b);
  CHECK(a.sha256() == expected);
  CHECK(&of_a.tape.parameters() == &a);
  CHECK(error_text<GraphError>([&] { of_b.tape.forward(mode::eval); }) == gone);
  Parameters& same = a;
  a = std::move(same);
  CHECK(a.sha256() == expected);
}

TEST_CASE("parameters: scales are set and read through a tape after a move") {
  const test::Classifier c = test::make_classifier();
  Parameters parameters(c.graph, 1);
  Tape tape(c.graph, parameters, {});
  test::feed(tape, c, 0);
  const Parameters moved = std::move(parameters);
  tape.forward(mode::observe);
  const NodeId input = c.graph.at("fc1.input.quantized");
  CHECK(qparams(c.graph, tape.parameters(), input)[0].scale > 0);
  CHECK(qparams(c.graph, moved, input) == qparams(c.graph, tape.parameters(), input));
}

TEST_CASE("parameters: once moved from they say so, until others are assigned to them") {
  const test::Classifier c = test::make_classifier();
  Parameters parameters(c.graph, 1);
  const std::vector<std::function<void()>> uses = {
      [&] { (void)parameters.entries(); },
      [&] { (void)parameters.find("fc1.weight"); },
      [&] { (void)parameters.get("fc1.weight"); },
      [&] { parameters.set("fc1.weight", {}); },
      [&] { parameters.zero_gradients(); },
      [&] { (void)parameters.sha256(); },
      [&] { (void)parameters.trainable_elements(); },
      [&] { (void)to_json(c.graph, parameters); },
      [&] { Tape(c.graph, parameters, {}); },
      [&] { Optimizer(parameters, Sgd{}); }};
  Parameters other = std::move(parameters);
  for (const auto& use : uses) CHECK(error_text<GraphError>(use) == moved_from);
  parameters = std::move(other);
  for (size_t i : {0u, 4u, 8u, 9u}) CHECK_NOTHROW(uses[i]());
}

TEST_CASE("parameters: a step after they are gone is an error and touches nothing") {
  const test::Classifier c = test::make_classifier();
  std::optional<Parameters> parameters(std::in_place, c.graph, 1);
  Training training(c, *parameters);
  training.run(0, 1);
  test::feed(training.tape, c, 1);
  training.tape.forward(mode::qat);
  const double loss = training.tape.scalar(c.loss);
  parameters.reset();
  const auto error = [](const auto& use) { return error_text<GraphError>(use); };
  CHECK(error([&] { training.tape.backward(); }) == gone);
  CHECK(error([&] { training.tape.forward(mode::eval); }) == gone);
  CHECK(error([&] { (void)training.tape.value<float>("fc1.weight"); }) == gone);
  CHECK(error([&] { (void)training.tape.parameters(); }) == gone);
  CHECK(error([&] { training.optimizer.step(0.1); }) ==
        "the parameters of this optimizer no longer exist: they were destroyed, or others were "
        "assigned to them");
  CHECK(training.optimizer.steps() == 1);
  CHECK(training.tape.step() == 2);
  CHECK(training.tape.scalar(c.loss) == loss);
}

TEST_CASE("parameters: a tape and an optimizer that were moved from say so") {
  const test::Classifier c = test::make_classifier();
  Parameters parameters(c.graph, 1);
  Training training(c, parameters);
  Tape tape = std::move(training.tape);
  const Optimizer optimizer = std::move(training.optimizer);
  CHECK(error_text<GraphError>([&] { training.tape.forward(mode::eval); }) ==
        "this tape was moved from; use the tape that it was moved to");
  CHECK(error_text<GraphError>([&] { training.optimizer.step(0.1); }) ==
        "this optimizer was moved from; use the optimizer that it was moved to");
  test::feed(tape, c, 0);
  tape.forward(mode::qat);
  CHECK(&tape.parameters() == &parameters);
}
