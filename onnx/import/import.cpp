#include "qtape/onnx/import.h"

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "qtape/core/float_environment.h"
#include "qtape/core/out_of_memory.h"
#include "qtape/core/printable.h"
#include "qtape/engine/rewrite.h"
#include "qtape/io/files.h"
#include "qtape/onnx/arena_model.h"
#include "qtape/onnx/import/code_nodes.h"
#include "qtape/onnx/import/functions.h"
#include "qtape/onnx/import/importer.h"
#include "qtape/onnx/import/live_parts.h"
#include "qtape/onnx/import/module_paths.h"
#include "qtape/onnx/import/norm_patterns.h"
#include "qtape/onnx/import/patterns.h"
#include "qtape/onnx/import/quantized.h"

namespace qtape {
namespace {

// Maximum size of a protobuf message.
constexpr int64_t largest_file = (int64_t{1} << 31) - 1;
constexpr int64_t first_opset = 9;
constexpr int64_t last_opset = 23;

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

/// Returns the names of inputs with a fixed extent 1 on axis 1 and another on axis 0.
std::set<std::string> with_sequence_first(const onnx::GraphProto& graph) {
  std::set<std::string> names;
  for (const auto& input : graph.input()) {
    const auto& shape = input.type().tensor_type().shape();
    if (shape.dim_size() < 2) continue;
    const bool first = shape.dim(0).dim_value() > 1 && shape.dim(1).dim_value() == 1;
    if (first) names.insert(input.name());
  }
  return names;
}

/// Returns the names of the values that recurrent operators read as [steps, batch, features],
/// and of those of `with_sequence_first` if `sequence_first`.
std::set<std::string> read_by_steps(const onnx::GraphProto& graph, const LiveParts& live,
                                    bool sequence_first) {
  std::set<std::string> names;
  if (sequence_first) names = with_sequence_first(graph);
  for (const int i : live.nodes) {
    const OnnxNode node(graph.node(i));
    const bool recurrent =
        node.type() == "GRU" || node.type() == "LSTM" || node.type() == "RNN";
    if (recurrent && node.integer("layout", 0) == 0) names.insert(node.input(0));
  }
  return names;
}

/// Adds constants of the file, and constants that nodes compute from these. Returns the other
/// nodes.
std::vector<int> add_constants(OnnxImporter& importer, const onnx::GraphProto& graph,
                               const LiveParts& live, const std::map<int, std::string>& calls) {
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
    if (importer.reads_constants(node) && !calls.contains(i) && node.type() != "If") {
      importer.add_node(i, node);
    } else {
      others.push_back(i);
    }
  }
  return others;
}

/// True if at least one node casts the value to floats and all others only take its shape.
bool is_cast_to_floats(const onnx::GraphProto& graph, const LiveParts& live,
                       const std::string& name) {
  bool cast = false;
  for (const int i : live.nodes) {
    const onnx::NodeProto& each = graph.node(i);
    std::set<std::string> within;
    add_names_of_branches(each, within);
    if (within.contains(name)) return false;
    if (std::ranges::find(each.input(), name) == each.input().end()) continue;
    const OnnxNode node(each);
    if (node.type() == "Shape") continue;
    const int64_t type = node.type() == "Cast" ? node.integer("to", 0) : 0;
    if (type != onnx::TensorProto::FLOAT && type != onnx::TensorProto::DOUBLE) return false;
    cast = true;
  }
  return cast;
}

/// Declares inputs of integers as floats where nodes only read them as such. Returns a note for
/// each.
std::vector<std::string> declare_float_inputs(onnx::GraphProto& graph, const LiveParts& live,
                                              const std::set<std::string>& tensors) {
  constexpr int integers[] = {onnx::TensorProto::UINT8,  onnx::TensorProto::INT8,
                              onnx::TensorProto::UINT16, onnx::TensorProto::INT16,
                              onnx::TensorProto::INT32,  onnx::TensorProto::INT64};
  std::vector<std::string> notes;
  for (auto& input : *graph.mutable_input()) {
    if (!input.type().has_tensor_type()) continue;
    auto& type = *input.mutable_type()->mutable_tensor_type();
    const bool whole = std::ranges::count(integers, type.elem_type()) > 0;
    if (!whole || tensors.contains(input.name())) continue;
    if (!is_cast_to_floats(graph, live, input.name())) continue;
    const bool bytes = type.elem_type() == onnx::TensorProto::UINT8;
    type.set_elem_type(onnx::TensorProto::FLOAT);
    notes.push_back(
        fmt::format("input '{}' is read as f32: all nodes cast its integers to floats{}",
                    printable(input.name()),
                    bytes ? "; give it arrays of f32, as those of u8 are divided by 255" : ""));
  }
  return notes;
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

/// Returns `graph` without nodes that no output needs, except inputs, and its values.
SavedModel needed_part(const Graph& graph, const std::map<std::string, Tensor>& values) {
  const std::vector<bool> needed = needed_for(graph, graph.outputs());
  Graph result;
  rewrite(graph, result, [&](NodeId id, std::span<const NodeId> operands) {
    const Node& node = graph[id];
    const bool kept =
        needed[static_cast<size_t>(id.index)] || std::holds_alternative<Input>(node.op);
    return kept ? result.add(node.op, operands, node.label) : NodeId{};
  });
  Parameters parameters(result, 0);
  for (const auto& [name, tensor] : values) {
    if (result.find(name)) parameters.set(name, tensor);
  }
  return {std::move(result), std::move(parameters), {}};
}

/// Adds a norm of several nodes in the form with as many of them as fit the shapes, and the
/// other nodes by themselves.
void add_norm(OnnxImporter& importer, const onnx::GraphProto& graph,
              const NormPattern& pattern) {
  std::vector<int> rest = pattern.nodes;
  for (auto form = pattern.forms.rbegin(); form != pattern.forms.rend(); ++form) {
    if (!importer.add_if_supported(OnnxNode(form->node))) continue;
    rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(form->replaced));
    break;
  }
  std::ranges::sort(rest);
  for (const int i : rest) importer.add_node(i, OnnxNode(graph.node(i)));
}

std::set<std::string> tensor_names(const onnx::GraphProto& graph) {
  std::set<std::string> names;
  for (const auto& tensor : graph.initializer()) names.insert(tensor.name());
  return names;
}

/// Adds the nodes that constants do not decide.
void add_nodes(OnnxImporter& importer, const onnx::GraphProto& graph,
               const std::vector<int>& others, const std::map<int, std::string>& calls) {
  const NormPatterns patterns = find_norms(graph, others, importer);
  for (const int i : others) {
    if (patterns.merged.contains(i)) continue;
    if (const auto norm = patterns.norms.find(i); norm != patterns.norms.end()) {
      add_norm(importer, graph, norm->second);
      continue;
    }
    const OnnxNode node(graph.node(i));
    if (const auto call = calls.find(i); call != calls.end()) {
      importer.refuse_node(i, node, call->second);
    } else {
      importer.add_node(i, node);
    }
  }
}

/// Throws FormatError for initializers, inputs or results of nodes that share a name. An
/// initializer may be the default of an input.
void require_unique_names(const onnx::GraphProto& graph) {
  std::set<std::string> names;
  for (const auto& tensor : graph.initializer()) {
    require<FormatError>(names.insert(tensor.name()).second, "two initializers are named '{}'",
                         printable(tensor.name()));
  }
  for (const auto& input : graph.input()) names.insert(input.name());
  for (const auto& node : graph.node()) {
    for (const std::string& name : node.output()) {
      require<FormatError>(
          name.empty() || names.insert(name).second,
          "'{}' is the output of two nodes, or of a node and also an input or an "
          "initializer",
          printable(name));
    }
  }
}

/// How a file is read.
struct Reading {
  std::set<std::string> rounded = {};  ///< constants that are rounded, see OnnxImporter
  /// The batch of inputs whose axis 1 has the fixed extent 1 is there, as in exports with the
  /// sequence first.
  bool sequence_first = false;
};

SavedModel import_graph(onnx::ModelProto& model, int64_t bytes, OnnxDataFiles files,
                        std::vector<std::string>* notes, const OnnxImportOptions& options,
                        const Reading& reading) {
  const std::map<int, std::string> calls = inline_functions(model);
  if (!options.outputs.empty()) end_at(*model.mutable_graph(), options.outputs);
  // A file with calls that could not be inlined is refused.
  if (calls.empty()) {
    expand_code_operators(*model.mutable_graph(), opset_of(model));
    fuse_patterns(*model.mutable_graph());
  }
  const onnx::GraphProto& graph = model.graph();
  const LiveParts live = live_parts(graph);
  const std::set<std::string> tensors = tensor_names(graph);
  const std::vector<std::string> cast =
      declare_float_inputs(*model.mutable_graph(), live, tensors);
  OnnxImporter importer(opset_of(model), bytes, live.names, std::move(files), reading.rounded);
  for (const auto& value : graph.value_info()) importer.declare(value);
  for (const auto& output : graph.output()) importer.declare(output);
  const std::vector<int> others = add_constants(importer, graph, live, calls);
  const bool one_axis = has_conv_over_one_axis(graph, live, importer);
  const std::set<std::string> by_steps = read_by_steps(graph, live, reading.sequence_first);
  for (const auto& input : graph.input()) {
    const bool read = live.names.contains(input.name()) && !tensors.contains(input.name());
    if (read) importer.add_input(input, one_axis, by_steps);
  }
  add_nodes(importer, graph, others, calls);
  std::vector<std::string> outputs;
  for (const auto& output : graph.output()) outputs.push_back(output.name());
  require<FormatError>(!outputs.empty(), "the graph has no outputs");
  const Graph result = importer.finish(outputs);
  if (notes != nullptr) {
    *notes = left_out(graph, live, tensors);
    notes->insert(notes->end(), cast.begin(), cast.end());
    const std::vector<std::string>& codes = importer.notes();
    notes->insert(notes->end(), codes.begin(), codes.end());
  }
  const Graph rounded_biases = with_rounded_biases(result, importer.values(), notes);
  return needed_part(with_activations(rounded_biases, importer.values(), notes),
                     importer.values());
}

/// A file's bytes and the settings of its import.
struct Source {
  std::string_view bytes;
  const OnnxDataFiles& files;
  const OnnxImportOptions& options;

  SavedModel read(const Reading& reading, std::vector<std::string>* notes) const {
    ArenaModel owner;
    onnx::ModelProto& model = *owner;
    require<FormatError>(
        static_cast<int64_t>(bytes.size()) <= largest_file &&
            model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) &&
            model.has_graph(),
        "is not an ONNX model");
    require_unique_names(model.graph());
    require<FormatError>(!reading.sequence_first || !with_sequence_first(model.graph()).empty(),
                         "no input has its sequence first");
    return import_graph(model, static_cast<int64_t>(bytes.size()), files, notes, options,
                        reading);
  }

  /// Reads the file again for constants that turn out to be rounded.
  SavedModel read_rounded(bool sequence_first, std::vector<std::string>* notes) const {
    Reading reading{.sequence_first = sequence_first};
    while (true) {
      try {
        return read(reading, notes);
      } catch (OnnxUnrounded& found) {
        const std::string first = *found.names.begin();
        const size_t before = reading.rounded.size();
        reading.rounded.merge(found.names);
        require<FormatError>(reading.rounded.size() > before,
                             "tensor '{}': a node that reads it cannot have a QuantizeLinear "
                             "before it",
                             printable(first));
      }
    }
  }
};

SavedModel parse(const Source& source, std::string_view name, std::vector<std::string>* notes) {
  // Protobuf's own messages are suppressed; our error replaces them.
  const google::protobuf::LogSilencer silence;
  const FloatEnvironment floats;
  try {
    return source.read_rounded(false, notes);
  } catch (const Error& error) {
    try {
      return source.read_rounded(true, notes);
    } catch (const Error&) {
      // The first error is about the axes that the file names.
    }
    fail<FormatError>("{}: {}", name, error.what());
  }
}

}  // namespace

SavedModel parse_onnx(std::string_view bytes, std::string_view name,
                      std::vector<std::string>* notes, const OnnxImportOptions& options) {
  const OnnxDataFiles files({});
  return parse({bytes, files, options}, name, notes);
}

SavedModel import_onnx(const std::string& path, std::vector<std::string>* notes,
                       const OnnxImportOptions& options) {
  return during("reading", path, [&] {
    const OnnxDataFiles files(std::filesystem::path(path).parent_path().string(),
                              options.data_files);
    const std::string bytes = read_file(path, largest_file);
    return parse({bytes, files, options}, path, notes);
  });
}

}  // namespace qtape
