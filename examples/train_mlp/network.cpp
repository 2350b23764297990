#include "qtape/examples/train_mlp/network.h"

#include <fmt/format.h>

#include "qtape/examples/classifier/builder.h"
#include "qtape/model/layers.h"

namespace qtape::examples {
namespace {

/// A layer whose input gets a quantizer.
NodeId usual_linear(Graph& graph, const Recipe& recipe, NodeId x, int64_t out,
                    const std::string& label) {
  return linear(graph, x,
                {.out = out,
                 .weight_quantizer = weight_quantizer(recipe),
                 .input_quantizer = activation_quantizer(recipe, CodeRange::Unsigned),
                 .label = label});
}

/// A layer whose input is quantized already.
NodeId inner_linear(Graph& graph, const Recipe& recipe, NodeId x, int64_t out,
                    const std::string& label) {
  return linear(graph, x,
                {.out = out, .weight_quantizer = weight_quantizer(recipe), .label = label});
}

/// Relu(Qa(fc(h)) + Qb(skip)) of h >= 0. The skip is h where the widths agree.
NodeId residual_layer(Graph& graph, const Recipe& recipe, NodeId h, int64_t width,
                      const std::string& label) {
  const bool direct = graph[h].type.shape[-1] == width;
  const NodeId x = quantized(graph, recipe, h, CodeRange::Unsigned, label + ".input");
  NodeId branch = inner_linear(graph, recipe, x, width, label);
  NodeId skip = direct ? h : inner_linear(graph, recipe, x, width, label + ".skip");
  branch = quantized(graph, recipe, branch, CodeRange::Full, label + ".branch");
  skip = quantized(graph, recipe, skip, direct ? CodeRange::Unsigned : CodeRange::Full,
                   label + ".skip");
  return graph.add(Relu{}, {graph.add(Add{}, {branch, skip})});
}

/// A layer of its own for each half of the features of x, and their results side by side.
NodeId split_layer(Graph& graph, const Recipe& recipe, NodeId x, int64_t width,
                   const std::string& label) {
  const int64_t features = graph[x].type.shape[-1];
  require<ArgumentError>(features >= 2,
                         "model Concat needs images of at least 2 pixels, got {}", features);
  x = quantized(graph, recipe, x, CodeRange::Unsigned, label + ".input");
  const auto half = [&](const Slice& slice, int64_t out, const std::string& name) {
    const NodeId part = graph.add(slice, {x});
    const NodeId y = graph.add(Relu{}, {inner_linear(graph, recipe, part, out, name)});
    return quantized(graph, recipe, y, CodeRange::Unsigned, name + ".output");
  };
  const NodeId upper = half({.axis = -1, .end = features / 2}, width / 2, label + ".upper");
  const NodeId lower =
      half({.axis = -1, .begin = features / 2}, width - width / 2, label + ".lower");
  return graph.add(Concat{.axis = -1}, {upper, lower});
}

std::string layer_label(size_t i) { return fmt::format("fc{}", i + 1); }

/// Hidden layer i, its activation included.
NodeId hidden_layer(Graph& graph, const MlpSettings& settings, NodeId x, size_t i) {
  const Recipe& recipe = settings.recipe;
  const int64_t width = settings.layers[i];
  const std::string label = layer_label(i);
  if (settings.model == Architecture::Residual && i > 0) {
    return residual_layer(graph, recipe, x, width, label);
  }
  if (settings.model == Architecture::Concat && i == 0) {
    return split_layer(graph, recipe, x, width, label);
  }
  return graph.add(Relu{}, {usual_linear(graph, recipe, x, width, label)});
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

Network make_network(const MlpSettings& settings, const data::Dataset& dataset) {
  Network network = start_network(settings.recipe, dataset);
  Graph& graph = network.graph;
  NodeId y = network.x;
  for (size_t i = 0; i < settings.layers.size(); ++i) {
    y = hidden_layer(graph, settings, y, i);
  }
  finish_network(network, usual_linear(graph, settings.recipe, y, dataset.classes,
                                       layer_label(settings.layers.size())));
  return network;
}

}  // namespace qtape::examples
