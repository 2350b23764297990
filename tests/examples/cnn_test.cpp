// Convolutional networks from training to integer programs.
#include <doctest/doctest.h>

#include <algorithm>

#include "qtape/data/generated/tones.h"
#include "qtape/examples/classifier/folding.h"
#include "qtape/examples/classifier/training.h"
#include "qtape/examples/train_cnn/network.h"
#include "qtape/examples/train_keywords/network.h"
#include "qtape/integer/training/exact.h"
#include "qtape/model/feed.h"
#include "qtape/model/passes/fold_batch_norm.h"

using namespace qtape;
using namespace qtape::examples;

namespace {

/// Trains a few steps, the last of them with frozen norms.
template <class S>
Model trained(S settings, const data::Split& data) {
  settings.recipe.epochs = 2;
  settings.recipe.batch = 16;
  settings.recipe.freeze_norms_after = data.train.size() / 16;
  Model model(make_network(settings, data.train), 1);
  FitOptions options = fit_options(settings.recipe, data.train.size());
  options.progress = false;
  (void)train(model, settings.recipe, data, options);
  return model;
}

std::vector<float> outputs(const Graph& graph, Parameters& parameters, const data::Dataset& set,
                           Mode mode, const Arithmetic& arithmetic) {
  Tape tape(graph, parameters, {.outputs = {graph.outputs()[0]}, .arithmetic = arithmetic});
  (void)Feed(inputs_of(tape), set).fill_from(0);
  tape.forward(mode);
  const auto y = tape.value<float>(graph.outputs()[0]);
  return {y.begin(), y.end()};
}

/// Checks that folded, frozen and integer forms of a trained network are bit-identical.
void check_alike(Model& model, const data::Dataset& test_set) {
  const Graph& graph = model.graph();
  Parameters& parameters = model.parameters();
  // A training step with frozen norms and observers, without dropout and observer updates.
  const Mode frozen{.train = true, .observe = false, .quantize = true};
  for (const auto& arithmetic : {Arithmetic{}, exact(Requantization::SingleRounding)}) {
    const auto wanted = outputs(graph, parameters, test_set, mode::eval, arithmetic);
    CHECK(outputs(graph, parameters, test_set, frozen, arithmetic) == wanted);
    const bool normed = std::ranges::any_of(graph.nodes(), [](const Node& node) {
      return std::holds_alternative<BatchNormCorrection>(node.op);
    });
    if (!normed) continue;
    SavedModel folded = fold_batch_norm(graph, parameters);
    CHECK(outputs(folded.graph, folded.parameters, test_set, mode::eval, arithmetic) == wanted);
  }
  if (const auto found = compare_folded(model, test_set, 2)) {
    CHECK(found->compared == test_set.size() * test_set.classes());
    CHECK(found->different == 0);
  }
  for (Requantization requantization : requantization::values) {
    const Verifier verifier = verify(model, test_set, requantization, 2);
    CAPTURE(to_string_view(requantization));
    CHECK(verifier.mismatches() == 0);
  }
}

}  // namespace

TEST_CASE("train_cnn: every network trains, folds and converts with the same bits") {
  const data::Split data = data::generate_digits(5, 64, 24);
  for (CnnModel kind :
       {CnnModel::LeNet, CnnModel::DSCNN, CnnModel::ResNet8, CnnModel::MobileNet}) {
    for (const auto& [weights, activations] : {std::pair{8, 8}, {4, 4}, {8, 16}}) {
      CAPTURE(to_string_view(kind));
      const int activation_bits = activations;
      CAPTURE(activation_bits);
      Model model = trained(
          CnnSettings{.model = kind,
                      .width = 25,
                      .recipe = {.weight_bits = weights, .activation_bits = activations}},
          data);
      check_alike(model, data.test);
    }
  }
}

TEST_CASE("train_keywords: a network over time trains, folds and converts with the same bits") {
  const data::Split data = data::generate_tones(5, 64, 24);
  Model model = trained(KeywordSettings{.channels = 12, .blocks = 2}, data);
  check_alike(model, data.test);
}
