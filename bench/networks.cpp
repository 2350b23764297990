#include "qtape/bench/networks.h"

#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "qtape/data/generated/digits.h"
#include "qtape/examples/train_cnn/network.h"
#include "qtape/model/layers.h"

namespace qtape::bench {
namespace {

LayerOptions layer_options(bool quantized) {
  LayerOptions options;
  if (!quantized) return options;
  options.weight_quantizer = FakeQuantize{.axis = 0, .ste = Ste::ClippedIdentity};
  options.input_quantizer = FakeQuantize{
      .range = CodeRange::Unsigned, .ste = Ste::ClippedIdentity, .scale_mode = EMA{}};
  return options;
}

TrainedNetwork start(const std::string& name, const Shape& shape) {
  TrainedNetwork network{.name = name, .batch = shape[0], .graph = {}};
  network.graph.add(Input{.shape = shape}, {}, "x");
  network.graph.add(Input{.dtype = DType::S32, .shape = {shape[0]}}, {}, "labels");
  return network;
}

void finish(TrainedNetwork& network, NodeId logits) {
  Graph& graph = network.graph;
  const NodeId loss = graph.add(SoftmaxCrossEntropy{}, {logits, graph.at("labels")}, "loss");
  graph.set_outputs({loss});
}

TrainedNetwork make_cnn(examples::CnnModel model, bool quantized) {
  examples::CnnSettings settings{.model = model};
  if (!quantized) settings.recipe.weight_bits = settings.recipe.activation_bits = 0;
  const data::Dataset digits = data::generate_digits(1, 1, 0).train;
  TrainedNetwork network{.name = std::string(to_string_view(model)),
                         .batch = settings.recipe.batch,
                         .graph = examples::make_network(settings, digits)};
  network.graph.set_outputs({network.graph.at("loss")});
  return network;
}

using Make = std::function<TrainedNetwork(bool quantized)>;

const std::map<std::string, Make, std::less<>>& makers() {
  using examples::CnnModel;
  static const std::map<std::string, Make, std::less<>> all{
      {"mlp784-256-128-10",
       [](bool q) {
         return make_mlp(std::vector<int64_t>{784, 256, 128, 10}, 64, q);
       }},
      {"mlp784-1024-1024-10",
       [](bool q) {
         return make_mlp(std::vector<int64_t>{784, 1024, 1024, 10}, 256, q);
       }},
      {"cnn", [](bool q) { return make_small_cnn(64, q); }},
      {"lenet", [](bool q) { return make_cnn(CnnModel::LeNet, q); }},
      {"resnet8", [](bool q) { return make_cnn(CnnModel::ResNet8, q); }}};
  return all;
}

/// Removes and returns the number at the start of `text`; 0 if there is none.
int64_t take_number(std::string_view& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return error == std::errc{} ? number : 0;
}

/// Removes `c` from the start of `text`; false if `text` does not begin with it.
bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

/// Returns the network described by mlpA-LxB-C:N; nullopt for any other text.
std::optional<TrainedNetwork> make_described(std::string_view text, bool quantized) {
  constexpr int64_t most = 1 << 16;
  if (!text.starts_with("mlp")) return std::nullopt;
  text.remove_prefix(3);
  std::vector<int64_t> widths;
  do {
    int64_t width = take_number(text);
    const int64_t layers = take(text, 'x') ? std::exchange(width, take_number(text)) : 1;
    if (width < 1 || width > most || layers < 1 || layers > most) return std::nullopt;
    widths.insert(widths.end(), static_cast<size_t>(layers), width);
  } while (take(text, '-'));
  const int64_t batch = take(text, ':') ? take_number(text) : 0;
  if (!text.empty() || batch < 1 || batch > most || widths.size() < 2) return std::nullopt;
  return make_mlp(widths, batch, quantized);
}

}  // namespace

TrainedNetwork make_mlp(std::span<const int64_t> widths, int64_t batch, bool quantized) {
  TrainedNetwork network =
      start(fmt::format("mlp{}", fmt::join(widths, "-")), {batch, widths[0]});
  NodeId x = network.graph.at("x");
  LayerOptions options = layer_options(quantized);
  for (size_t i = 1; i < widths.size(); ++i) {
    options.out = widths[i];
    options.label = fmt::format("fc{}", i);
    x = linear(network.graph, x, options);
    if (i + 1 < widths.size()) x = network.graph.add(Relu{}, {x});
  }
  finish(network, x);
  return network;
}

TrainedNetwork make_small_cnn(int64_t batch, bool quantized) {
  TrainedNetwork network = start("cnn", {batch, 28, 28, 1});
  Graph& graph = network.graph;
  NodeId x = graph.at("x");
  LayerOptions options = layer_options(quantized);
  for (const int64_t channels : {16, 32}) {
    options.out = channels;
    options.label = fmt::format("conv{}", channels);
    x = graph.add(Relu{}, {conv2d(graph, x, {.padding = Padding::Same}, {3, 3}, options)});
    x = graph.add(MaxPool{.kernel = {2, 2}, .stride = {2, 2}}, {x});
  }
  options.out = 10;
  options.label = "fc";
  finish(network, linear(graph, graph.add(Flatten{}, {x}), options));
  return network;
}

std::vector<std::string> network_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : makers()) names.push_back(name);
  return names;
}

TrainedNetwork make_trained(std::string_view name, bool quantized) {
  const auto found = makers().find(name);
  std::optional<TrainedNetwork> network;
  if (found != makers().end()) network = found->second(quantized);
  if (!network) network = make_described(name, quantized);
  require<ArgumentError>(network.has_value(),
                         "network '{}': expected one of {} or mlpA-LxB-C:N", name,
                         fmt::join(network_names(), ", "));
  network->name = name;
  return *std::move(network);
}

void fill_pixels(std::span<float> x) {
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 256) / 255.0f;
}

void fill_batch(Tape& tape) {
  fill_pixels(tape.input<float>("x"));
  const auto labels = tape.input<int32_t>("labels");
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(i % 10);
}

}  // namespace qtape::bench
