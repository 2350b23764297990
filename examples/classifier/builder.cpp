#include "qtape/examples/classifier/builder.h"

namespace qtape::examples {

Layer Builder::layer(const std::string& label, bool norm) const {
  Layer layer{.weights = weight_quantizer(recipe_), .norm = norm, .label = label};
  if (!norm) layer.initializer = init::XavierUniform{};
  return layer;
}

Value Builder::conv(const Value& x, int64_t out, int64_t kernel, int64_t stride,
                    const std::string& label, CodeRange range) const {
  return conv2d(quantize(x, range, label + ".input"), out, {kernel, kernel}, layer(label, true),
                {.stride = {stride, stride}, .padding = Padding::Same});
}

Value Builder::depthwise(const Value& x, int64_t kernel, int64_t stride,
                         const std::string& label, CodeRange range) const {
  return depthwise_conv2d(quantize(x, range, label + ".input"), {kernel, kernel},
                          layer(label, true),
                          {.stride = {stride, stride}, .padding = Padding::Same});
}

Value Builder::residual(const Value& branch, const Value& skip, CodeRange skip_range,
                        const std::string& label) const {
  const Value a = quantize(branch, CodeRange::Full, label + ".branch");
  const Value b = quantize(skip, skip_range, label + ".skip");
  return node(Add{}, {a, b}, label);
}

Value Builder::head(const Value& x, int64_t classes, const std::string& label) const {
  const Value mean = global_avg_pool(quantize_pooled(x, label + ".features"));
  return linear(quantize_pooled(mean, label + ".input"), classes, layer(label, false));
}

Value Builder::quantize_pooled(const Value& x, const std::string& label) const {
  return quantized(x, pooled(recipe_), CodeRange::Unsigned, label);
}

Graph classifier(const Value& logits, const TrainingSettings& recipe) {
  const Value loss = loss::cross_entropy(logits);
  Graph graph = loss.graph();
  graph.set_outputs({logits.id(), loss.id()}, {loss.id()});
  return with_ends(graph, recipe).with_batch(recipe.batch);
}

}  // namespace qtape::examples
