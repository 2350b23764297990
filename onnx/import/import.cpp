#include "qtape/onnx/import.h"

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <set>

#include "qtape/core/out_of_memory.h"
#include "qtape/core/printable.h"
#include "qtape/io/files.h"
#include "qtape/onnx/import/importer.h"
#include "qtape/onnx/import/live_parts.h"

namespace qtape {
namespace {

// Maximum size of a protobuf message.
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

/// True if filters have one spatial axis: then values of rank 3 have channels.
bool has_conv_over_one_axis(const onnx::GraphProto& graph, const LiveParts& live,
                            const OnnxImporter& importer) {
  return std::ranges::any_of(live.nodes, [&](int i) {
    const OnnxNode node(graph.node(i));
    if (node.type() != "Conv" && node.type() != "ConvTranspose") return false;
    const OnnxConstant* filters = importer.find_constant(node.input(1));
    return filters != nullptr && filters->shape.rank() == 3;
  });
}

/// Returns the number of elements that nodes may create for a file with this number of bytes.
int64_t most_elements(size_t bytes) {
  constexpr int64_t times = 4, least = 1 << 16;
  return times * static_cast<int64_t>(bytes) + least;
}

/// Adds constants of the file, and constants that nodes compute from these. Returns the other
/// nodes.
std::vector<int> add_constants(OnnxImporter& importer, const onnx::GraphProto& graph,
                               const LiveParts& live) {
  for (const auto& tensor : graph.initializer()) {
    if (live.names.contains(tensor.name())) importer.add_tensor(tensor);
  }
  for (const auto& each : graph.sparse_initializer()) {
    const std::string& name = each.values().name();
    if (!live.names.contains(name)) continue;
    importer.refuse_tensor(
        name, fmt::format("tensor '{}': sparse tensors are not supported", printable(name)));
  }
  std::vector<int> others;
  for (const int i : live.nodes) {
    const OnnxNode node(graph.node(i));
    if (importer.reads_constants(node)) {
      importer.add_node(i, node);
    } else {
      others.push_back(i);
    }
  }
  return others;
}

/// Returns notes about everything that no output needs.
std::vector<std::string> left_out(const onnx::GraphProto& graph, const LiveParts& live,
                                  const std::set<std::string>& tensors) {
  std::vector<std::string> notes;
  for (const auto& input : graph.input()) {
    if (live.names.contains(input.name()) || tensors.contains(input.name())) continue;
    notes.push_back(
        fmt::format("input '{}' is left out: no output needs it", printable(input.name())));
  }
  const int64_t dead = graph.node_size() - std::ssize(live.nodes);
  if (dead > 0) {
    notes.push_back(fmt::format("{} node{} left out: no output needs {}", dead,
                                dead == 1 ? " is" : "s are", dead == 1 ? "it" : "them"));
  }
  return notes;
}

SavedModel import_graph(const onnx::ModelProto& model, size_t bytes,
                        std::vector<std::string>* notes) {
  const onnx::GraphProto& graph = model.graph();
  const LiveParts live = live_parts(graph);
  OnnxImporter importer(opset_of(model), most_elements(bytes), live.names);
  for (const auto& value : graph.value_info()) importer.declare(value);
  for (const auto& output : graph.output()) importer.declare(output);
  const std::vector<int> others = add_constants(importer, graph, live);
  const bool one_axis = has_conv_over_one_axis(graph, live, importer);
  std::set<std::string> tensors;
  for (const auto& tensor : graph.initializer()) tensors.insert(tensor.name());
  for (const auto& input : graph.input()) {
    const bool read = live.names.contains(input.name()) && !tensors.contains(input.name());
    if (read) importer.add_input(input, one_axis);
  }
  for (const int i : others) importer.add_node(i, OnnxNode(graph.node(i)));
  std::vector<std::string> outputs;
  for (const auto& output : graph.output()) outputs.push_back(output.name());
  require<FormatError>(!outputs.empty(), "the graph has no outputs");
  Graph result = importer.finish(outputs);
  if (notes != nullptr) *notes = left_out(graph, live, tensors);
  Parameters parameters(result, 0);
  for (const auto& [name, tensor] : importer.values()) parameters.set(name, tensor);
  return {std::move(result), std::move(parameters), {}};
}

}  // namespace

SavedModel parse_onnx(std::string_view bytes, std::string_view name,
                      std::vector<std::string>* notes) {
  // Protobuf's own messages are suppressed; our error replaces them.
  const google::protobuf::LogSilencer silence;
  try {
    onnx::ModelProto model;
    require<FormatError>(
        static_cast<int64_t>(bytes.size()) <= largest_file &&
            model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) &&
            model.has_graph(),
        "is not an ONNX model");
    return import_graph(model, bytes.size(), notes);
  } catch (const Error& error) {
    fail<FormatError>("{}: {}", name, error.what());
  }
}

SavedModel import_onnx(const std::string& path, std::vector<std::string>* notes) {
  return during("reading", path,
                [&] { return parse_onnx(read_file(path, largest_file), path, notes); });
}

}  // namespace qtape
