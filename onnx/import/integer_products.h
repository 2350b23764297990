// Products of codes whose sums in 32 bits become floats.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/onnx/import/named_nodes.h"

namespace qtape {

/// True for MatMulInteger and ConvInteger.
bool is_integer_product(const onnx::NodeProto& node);

class IntegerProducts {
 public:
  /// Scales of weights are added to `graph`.
  explicit IntegerProducts(onnx::GraphProto& graph);

  /// If `node` multiplies the sums of a MatMulInteger or ConvInteger of quantized values, cast
  /// to floats, by constant scales: adds a product of floats instead of it to `nodes`.
  /// Otherwise returns false.
  bool expand(const onnx::NodeProto& node, NamedNodes& nodes);

 private:
  /// Returns the node that computes `name` if it has inputs and this type, else null.
  const onnx::NodeProto* node_of(const std::string& name, std::string_view type = {}) const;
  /// Returns the product whose sums `name` is, cast to floats; or null.
  const onnx::NodeProto* product_of(const std::string& name) const;
  /// Returns the QuantizeLinear whose codes `name` holds; or null.
  const onnx::NodeProto* quantizer_of(const std::string& name) const;
  /// Returns the floats of a tensor of the file.
  std::optional<std::vector<float>> floats(const std::string& name) const;
  /// True unless the scales `name` of a product are one for each of another axis than that of
  /// its outputs.
  bool scales_outputs(const std::string& name, const onnx::NodeProto& product) const;
  /// Returns the name of the scales of weights whose sums have `scales`, or nothing.
  std::optional<std::string> weight_scales(const std::string& scales,
                                           const std::string& x_scale, NamedNodes& nodes);

  onnx::GraphProto& graph_;
  std::map<std::string, const onnx::NodeProto*> producers_;
  std::map<std::string, const onnx::TensorProto*> tensors_;
};

}  // namespace qtape
