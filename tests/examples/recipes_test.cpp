// Quantizers for the networks of all programs, inserted in every supported way: all layers get
// them, with and without folded batch norms.
#include <doctest/doctest.h>

#include <set>

#include "qtape/data/generated/spectra.h"
#include "qtape/data/generated/tones.h"
#include "qtape/engine/quantizers.h"
#include "qtape/examples/train_autoencoder/network.h"
#include "qtape/examples/train_cnn/network.h"
#include "qtape/examples/train_keywords/network.h"
#include "qtape/examples/train_mlp/network.h"
#include "qtape/model/bit_search.h"
#include "qtape/model/fit.h"

using namespace qtape;
using namespace qtape::examples;

namespace {

/// A network without quantizers, its training data, and its layers.
struct Case {
  std::string name;
  Graph graph;
  data::Split data;
  std::set<std::string> layers;  // labels without `.weight`
};

/// Returns the labels of products with weights, from the quantizers of the network.
std::set<std::string> layers_of(const Graph& graph) {
  std::set<std::string> layers;
  for (NodeId id : quantizers(graph)) {
    const std::string& label = graph[id].label;
    const size_t end = label.find(".weight.quantized");
    if (end != std::string::npos) layers.insert(label.substr(0, end));
  }
  return layers;
}

template <class S>
Case case_of(const char* name, S settings, const data::Split& data) {
  settings.recipe.batch = 16;
  const std::set<std::string> layers = layers_of(make_network(settings, data.train));
  settings.recipe.weight_bits = settings.recipe.activation_bits = 0;
  return {name, make_network(settings, data.train), data, layers};
}

std::vector<Case> cases() {
  const data::Split digits = data::generate_digits(5, 64, 8);
  const data::Split tones = data::generate_tones(5, 64, 8);
  const data::SpectraSplit spectra = data::generate_spectra(5, 64, 8, 1);
  std::vector<Case> all;
  for (Architecture model : {Architecture::MLP, Architecture::Residual, Architecture::Concat}) {
    const MlpSettings settings{.model = model, .layers = {24, 16, 16}};
    all.push_back(case_of(to_string_view(model).data(), settings, digits));
  }
  for (CnnModel model :
       {CnnModel::LeNet, CnnModel::DSCNN, CnnModel::ResNet8, CnnModel::MobileNet}) {
    const CnnSettings settings{.model = model, .width = 25};
    all.push_back(case_of(to_string_view(model).data(), settings, digits));
  }
  all.push_back(case_of("keywords", KeywordSettings{.channels = 12, .blocks = 2}, tones));
  const autoencoder::Settings coder;
  data::Split sounds;
  sounds.train = spectra.train.samples;
  sounds.test = spectra.normal.samples;
  const std::vector<std::string> labels = autoencoder::layer_labels();
  all.push_back({"autoencoder",
                 autoencoder::float_network(coder),
                 sounds,
                 {labels.begin(), labels.end()}});
  return all;
}

/// Returns the number of code steps of a quantizer, by its label.
int64_t steps_of(const Model& model, const std::string& label) {
  const CodeLimits limits = grid_of(model.graph(), model.graph().at(label)).limits;
  return int64_t{limits.q_max} - limits.q_min;
}

/// Checks that every product has quantized weights and input, that biases are on the grid of
/// the accumulators, and that all levels give the same integers.
void check_all_quantized(const Model& model, const Case& test) {
  const Graph& graph = model.graph();
  CHECK(layers_of(graph) == test.layers);
  size_t products = 0;
  for (const Node& node : graph.nodes()) {
    const std::string_view op = name_of(node.op);
    if (op == "Conv1d" || op == "Conv2d" || op == "MatMul") {
      ++products;
      CHECK(is_quantizer(graph[node.operands[1]].op));
    }
    if (op == "AddBias") CHECK(name_of(graph[node.operands[1]].op) == "FakeQuantizeBias");
    if (op == "BatchNormCorrection") {
      CHECK(node.operands[4] == graph[node.operands[0]].operands[1]);
    }
  }
  CHECK(products == test.layers.size());
  for (const auto rounding : {Requantization::FloatMultiply, Requantization::SingleRounding}) {
    CHECK(verify(model, test.data.test, rounding, 2).mismatches() == 0);
  }
}

FitOptions one_epoch() {
  return {.epochs = 1, .batch = 16, .learning_rate = 1e-3, .threads = 1, .progress = false};
}

}  // namespace

TEST_CASE("recipes: all layers of the programs' networks get quantizers, whatever the recipe") {
  for (const Case& test : cases()) {
    CAPTURE(test.name);
    Model model(test.graph, 1);
    (void)fit(model, test.data.train, one_epoch());
    const std::vector<std::string> weights = layer_weights(model.graph());
    REQUIRE(weights.size() == test.layers.size());
    const std::vector<QuantizationRecipe> recipes = {
        {.weight_bits = 4, .activation_bits = 4, .weight_codes = CodeRange::Narrow},
        {.weight_bits = 4, .activation_bits = 4, .scales = ScaleOrigin::LSQ},
        {.weight_bits = 3,
         .activation_bits = 4,
         .ends_bits = 8,
         .weight_codes = CodeRange::Narrow},
        {.weight_codes = CodeRange::Narrow,
         .layers = {{.pattern = weights[1], .weight_bits = 2, .activation_bits = 5}}}};
    for (const QuantizationRecipe& recipe : recipes) {
      Model small = quantized(model, recipe, test.data.train, 64, 1);
      check_all_quantized(small, test);
      CHECK(without_quantizers(small.graph()) == model.graph());
      for (size_t i = 0; i < weights.size(); ++i) {
        const bool end = i == 0 || i + 1 == weights.size();
        int bits = end ? recipe.ends_bits.value_or(recipe.weight_bits) : recipe.weight_bits;
        if (!recipe.layers.empty() && i == 1) bits = 2;
        CHECK(steps_of(small, weights[i] + ".quantized") == (1 << bits) - 2);
      }
      (void)fit(small, test.data.train, one_epoch());
      check_all_quantized(small, test);
    }
  }
}

TEST_CASE("recipes: calibration and a search see all layers of the programs' networks") {
  for (const Case& test : cases()) {
    CAPTURE(test.name);
    Model model(test.graph, 1);
    (void)fit(model, test.data.train, one_epoch());
    Model calibrated = with_quantizers(model, calibrated_quantizers(8, 8));
    (void)calibrate(calibrated, test.data.train, {}, 64, 1);
    check_all_quantized(calibrated, test);
    int64_t elements = 0;
    for (const std::string& label : layer_weights(model.graph())) {
      elements += model.parameters().at(label).elements();
    }
    const BitSearch found = search_bits(model, test.data.train,
                                        {.budget = elements / 2,
                                         .candidates = {2, 8},
                                         .recipe = {.weight_codes = CodeRange::Narrow},
                                         .samples = 32,
                                         .threads = 1});
    CHECK(found.layers.size() == test.layers.size());
    const Model chosen = quantized(model, found.recipe, test.data.train, 64, 1);
    check_all_quantized(chosen, test);
    for (const LayerSearch& layer : found.layers) {
      const int bits = layer.chosen == 0 ? 2 : 8;
      CHECK(steps_of(chosen, layer.weight + ".quantized") == (1 << bits) - 2);
    }
  }
}
