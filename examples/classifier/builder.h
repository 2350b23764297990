// Layers of classifiers as a recipe wants them quantized.
#pragma once

#include <string>

#include "qtape/examples/classifier/recipe.h"
#include "qtape/model/value.h"

namespace qtape::examples {

/// Inputs of layers get a quantizer unless they have one already; weights are quantized per
/// output channel.
class Builder {
 public:
  explicit Builder(const Recipe& recipe) : recipe_(recipe) {}

  /// x after a quantizer of its `range`; x itself where it is or shows codes, and where
  /// activations are float.
  Value quantize(const Value& x, CodeRange range, const std::string& label) const {
    return quantized(x, recipe_, range, label);
  }

  /// The same of activations that a global mean is taken of, or of that mean: x >= 0.
  Value quantize_pooled(const Value& x, const std::string& label) const;

  /// A layer with a folded batch norm if `norm`, else with Xavier's weights, of which LeNet
  /// learns more than of Kaiming's.
  Layer layer(const std::string& label, bool norm) const;

  /// A convolution over images [h, w, c], padded to the size of the input. x >= 0 unless
  /// `range` says other.
  Value conv(const Value& x, int64_t out, int64_t kernel, int64_t stride,
             const std::string& label, CodeRange range = CodeRange::Unsigned) const;
  /// The same for each channel by itself.
  Value depthwise(const Value& x, int64_t kernel, int64_t stride, const std::string& label,
                  CodeRange range = CodeRange::Unsigned) const;
  /// The sum of two branches, each with a quantizer.
  Value residual(const Value& branch, const Value& skip, CodeRange skip_range,
                 const std::string& label) const;
  /// The mean of each channel, then a layer without an activation.
  Value head(const Value& x, int64_t classes, const std::string& label) const;

 private:
  const Recipe& recipe_;
};

/// The graph of a classifier for batches of `recipe`: its outputs are logits and loss.
Graph classifier(const Value& logits, const Recipe& recipe);

}  // namespace qtape::examples
