#include "qtape/onnx/import.h"

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <set>

#include "qtape/core/printable.h"
#include "qtape/engine/files.h"
#include "qtape/onnx/importer.h"

namespace qtape {
namespace {

// What protobuf holds in one message.
constexpr int64_t largest_file = (int64_t{1} << 31) - 1;
constexpr int64_t first_opset = 9;
constexpr int64_t last_opset = 18;

int64_t opset_of(const onnx::ModelProto& model) {
  int64_t opset = 0;
  for (const auto& each : model.opset_import()) {
    if (each.domain().empty() || each.domain() == "ai.onnx") opset = each.version();
  }
  require<FormatError>(opset >= first_opset && opset <= last_opset,
                       "expected opset {} to {}, got {}", first_opset, last_opset, opset);
  return opset;
}

/// Whether filters go over one axis: then values of rank 3 have channels.
bool has_conv_over_one_axis(const onnx::GraphProto& graph) {
  std::set<std::string> filters;
  for (const auto& node : graph.node()) {
    if (node.op_type() == "Conv" && node.input_size() > 1) filters.insert(node.input(1));
  }
  return std::ranges::any_of(graph.initializer(), [&](const onnx::TensorProto& tensor) {
    return filters.contains(tensor.name()) && tensor.dims_size() == 3;
  });
}

void add_input(OnnxImporter& importer, const onnx::ValueInfoProto& input, bool channels) {
  const std::string name = printable(input.name());
  require<FormatError>(input.type().has_tensor_type() &&
                           input.type().tensor_type().has_shape() &&
                           input.type().tensor_type().shape().dim_size() >= 1,
                       "input '{}': expected a tensor with a shape", name);
  const auto& type = input.type().tensor_type();
  require<FormatError>(type.elem_type() == onnx::TensorProto::FLOAT,
                       "input '{}': expected floats, got type {}", name, type.elem_type());
  std::vector<int64_t> shape = {1};
  for (int k = 1; k < type.shape().dim_size(); ++k) {
    const auto& extent = type.shape().dim(k);
    require<FormatError>(extent.has_dim_value() && extent.dim_value() >= 1,
                         "input '{}': extent {} must be a number, got '{}'", name, k,
                         printable(extent.dim_param()));
    shape.push_back(extent.dim_value());
  }
  const int64_t declared = type.shape().dim(0).dim_value();
  const bool last = shape.size() == 4 || (shape.size() == 3 && channels);
  importer.add_input(input.name(), shape, declared, last);
}

/// Elements that nodes may make of a file of so many bytes.
int64_t most_elements(size_t bytes) {
  constexpr int64_t times = 4, least = 1 << 16;
  return times * static_cast<int64_t>(bytes) + least;
}

SavedModel import_graph(const onnx::ModelProto& model, size_t bytes) {
  const onnx::GraphProto& graph = model.graph();
  OnnxImporter importer(opset_of(model), most_elements(bytes));
  std::set<std::string> constants;
  for (const auto& tensor : graph.initializer()) {
    importer.add_constant(tensor.name(), read_constant(tensor));
    constants.insert(tensor.name());
  }
  require<FormatError>(graph.sparse_initializer_size() == 0, "sparse tensors are not read");
  const bool channels = has_conv_over_one_axis(graph);
  for (const auto& input : graph.input()) {
    if (!constants.contains(input.name())) add_input(importer, input, channels);
  }
  for (const auto& proto : graph.node()) {
    const OnnxNode node(proto);
    try {
      require<FormatError>(proto.domain().empty() || proto.domain() == "ai.onnx",
                           "operators of '{}' are not read", printable(proto.domain()));
      require<FormatError>(node.outputs() >= 1, "it has no outputs");
      importer.add_node(node);
    } catch (const Error& error) {
      fail<FormatError>("{}: {}", node.describe(), error.what());
    }
  }
  std::vector<std::string> outputs;
  for (const auto& output : graph.output()) outputs.push_back(output.name());
  require<FormatError>(!outputs.empty(), "the graph has no outputs");
  Graph result = importer.finish(outputs);
  Parameters parameters(result, 0);
  for (const auto& [name, tensor] : importer.values()) parameters.set(name, tensor);
  return {std::move(result), std::move(parameters), {}};
}

}  // namespace

SavedModel parse_onnx(std::string_view bytes, std::string_view name) {
  // What protobuf would print of broken files is in our own error.
  const google::protobuf::LogSilencer silence;
  try {
    onnx::ModelProto model;
    require<FormatError>(
        static_cast<int64_t>(bytes.size()) <= largest_file &&
            model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) &&
            model.has_graph(),
        "is no ONNX model");
    return import_graph(model, bytes.size());
  } catch (const Error& error) {
    fail<FormatError>("{}: {}", name, error.what());
  }
}

SavedModel import_onnx(const std::string& path) {
  return parse_onnx(read_file(path, largest_file), path);
}

}  // namespace qtape
