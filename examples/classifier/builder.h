// Layers of classifiers, quantized according to a recipe.
#pragma once

#include <string>

#include "qtape/examples/classifier/training_settings.h"
#include "qtape/model/value.h"

namespace qtape::examples {

/// Adds a quantizer to the inputs of layers unless they have one already; weights are quantized
/// per output channel.
class Builder {
 public:
  explicit Builder(const TrainingSettings& recipe) : recipe_(recipe) {}

  /// Returns x quantized to `range`; x itself if it is or shows codes, or if activations are
  /// float.
  Value quantize(const Value& x, CodeRange range, const std::string& label) const {
    return quantized(x, recipe_, range, label);
  }

  /// Quantizes activations x >= 0 that are averaged by a global mean, or the mean itself.
  Value quantize_pooled(const Value& x, const std::string& label) const;

  /// Returns the options of a layer: with a folded batch norm if `norm`, else with Xavier
  /// initialization, with which LeNet reaches a higher accuracy than with Kaiming's.
  Layer layer(const std::string& label, bool norm) const;

  /// Convolution over images [h, w, c], padded to the size of the input. `range` is that of x;
  /// by default x >= 0.
  Value conv(const Value& x, int64_t out, int64_t kernel, int64_t stride,
             const std::string& label, CodeRange range = CodeRange::Unsigned) const;
  /// Depthwise convolution over images [h, w, c], padded to the size of the input.
  Value depthwise(const Value& x, int64_t kernel, int64_t stride, const std::string& label,
                  CodeRange range = CodeRange::Unsigned) const;
  /// Sum of two branches, each with a quantizer.
  Value residual(const Value& branch, const Value& skip, CodeRange skip_range,
                 const std::string& label) const;
  /// The mean of each channel, followed by a layer without activation.
  Value head(const Value& x, int64_t classes, const std::string& label) const;

 private:
  const TrainingSettings& recipe_;
};

/// Returns the graph of a classifier for batches of `recipe`, with logits and loss as outputs.
Graph classifier(const Value& logits, const TrainingSettings& recipe);

}  // namespace qtape::examples
