#include "qtape/examples/train_mlp/network.h"

#include <fmt/format.h>

#include "qtape/examples/classifier/builder.h"

namespace qtape::examples {
namespace {

/// Adds a layer with a quantizer on its input, unless that is quantized already.
Value dense(const Value& x, const TrainingSettings& recipe, int64_t out,
            const std::string& label) {
  return linear(x, out,
                {.weights = weight_quantizer(recipe),
                 .activations = activation_quantizer(recipe, CodeRange::Unsigned),
                 .label = label});
}

/// Adds Relu(Qa(fc(h)) + Qb(skip)) for h >= 0. The skip is h if the widths agree.
Value residual_layer(const Value& h, const TrainingSettings& recipe, int64_t width,
                     const std::string& label) {
  const bool direct = h.shape()[-1] == width;
  const Value x = quantized(h, recipe, CodeRange::Unsigned, label + ".input");
  const Value y = dense(x, recipe, width, label);
  const Value other = direct ? h : dense(x, recipe, width, label + ".skip");
  const Value branch = quantized(y, recipe, CodeRange::Full, label + ".branch");
  const Value skip =
      quantized(other, recipe, direct ? CodeRange::Unsigned : CodeRange::Full, label + ".skip");
  return relu(branch + skip);
}

/// Adds a separate layer for each half of the features of x, and concatenates their results.
Value split_layer(const Value& pixels, const TrainingSettings& recipe, int64_t width,
                  const std::string& label) {
  const int64_t features = pixels.shape()[-1];
  require<ArgumentError>(features >= 2,
                         "model Concat needs images of at least 2 pixels, got {}", features);
  const Value x = quantized(pixels, recipe, CodeRange::Unsigned, label + ".input");
  const auto half = [&](const Slice& slice, int64_t out, const std::string& name) {
    const Value y = relu(dense(node(slice, {x}), recipe, out, name));
    return quantized(y, recipe, CodeRange::Unsigned, name + ".output");
  };
  const Value upper = half({.axis = -1, .end = features / 2}, width / 2, label + ".upper");
  const Value lower =
      half({.axis = -1, .begin = features / 2}, width - width / 2, label + ".lower");
  return concat({upper, lower});
}

std::string layer_label(size_t i) { return fmt::format("fc{}", i + 1); }

/// Adds hidden layer i, including its activation.
Value hidden_layer(const Value& x, const MlpSettings& settings, size_t i) {
  const TrainingSettings& recipe = settings.recipe;
  const int64_t width = settings.layers[i];
  const std::string label = layer_label(i);
  if (settings.model == Architecture::Residual && i > 0) {
    return residual_layer(x, recipe, width, label);
  }
  if (settings.model == Architecture::Concat && i == 0) {
    return split_layer(x, recipe, width, label);
  }
  return relu(dense(x, recipe, width, label));
}

}  // namespace

void validate_network(const MlpSettings& s) {
  if (s.model == Architecture::Residual) {
    require<ArgumentError>(s.layers.size() >= 2,
                           "model Residual needs at least 2 hidden layers, got {}",
                           s.layers.size());
  }
  if (s.model == Architecture::Concat) {
    require<ArgumentError>(!s.layers.empty(),
                           "model Concat needs at least 1 hidden layer, got 0");
    require<ArgumentError>(s.layers[0] >= 2,
                           "model Concat needs a first hidden layer of width 2 or more, got {}",
                           s.layers[0]);
  }
}

Graph make_network(const MlpSettings& settings, const data::Dataset& dataset) {
  Network network;
  Value y = network.input("x", {dataset.columns()[0].sample.elements()});
  for (size_t i = 0; i < settings.layers.size(); ++i) y = hidden_layer(y, settings, i);
  y = dense(y, settings.recipe, dataset.classes(), layer_label(settings.layers.size()));
  return classifier(y, settings.recipe);
}

}  // namespace qtape::examples
