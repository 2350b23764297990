#include "qtape/onnx/export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <set>

#include "qtape/core/error.h"
#include "qtape/core/float_environment.h"
#include "qtape/core/reasons.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/output_names.h"
#include "qtape/io/files.h"
#include "qtape/io/sha256.h"
#include "qtape/onnx/export/onnx_writers.h"
#include "qtape/onnx/export/quant_node.h"

namespace qtape {
namespace {

class Exporter {
 public:
  Exporter(const IntegerProgram& program, const OnnxExportOptions& options)
      : p_{program, options.opset, OnnxWriter(options.opset), options.form} {
    if (p_.codes_in_floats()) p_.to.use_domain(qonnx_domain, 1);
    p_.find_batch_axes();
  }

  /// Returns the model, which names `original` as its program.
  std::string run(const IntegerProgram& original) {
    name_nodes();
    // Inputs and outputs are named like their nodes.
    for (ProgramNodeId id : input_ids(p_.program)) {
      p_.names[id.index] = p_.to.unique(p_.program.name(id));
      yielded_.insert(p_.names[id.index]);
    }
    for (ProgramNodeId id : p_.program.outputs()) {
      if (!p_.names.contains(id.index)) p_.names[id.index] = p_.to.unique(output_name(id));
    }
    for (const ProgramNodeId id : ids(p_.program)) {
      p_.values.push_back(listing_refused(id, [&] { return write_node(id); }));
    }
    for (ProgramNodeId id : p_.program.outputs()) {
      listing_refused(id, [&] { return write_output(id); });
    }
    check(refused_.size() <= 1, "{} nodes cannot be written: {}", refused_.size(),
          refused_.text());
    check(refused_.empty(), "{}", refused_.text());
    describe(original);
    return p_.to.bytes();
  }

 private:
  Written write_node(ProgramNodeId id) {
    const TensorType& type = p_.program[id].value.type;
    check(type.shape.elements() > 0, "{} has no elements, which ONNX Runtime does not compute",
          to_string(type));
    p_.check_codes(p_.program[id].value);
    p_.current = id;
    return write_onnx(p_.program[id].op, p_);
  }

  /// Returns the value that `write` gives. Its error is kept for the list of all, and the value
  /// has no meaning.
  template <class Write>
  Written listing_refused(ProgramNodeId id, const Write& write) {
    try {
      return write();
    } catch (const GraphError& error) {
      refused_.add(p_.program.describe(id), error.what());
      return {"refused"};
    }
  }

  std::string output_name(ProgramNodeId id) const {
    std::string label = output_label(p_.program, id);
    return label.empty() ? p_.bases[at(id)] : label;
  }

  void describe(const IntegerProgram& original) {
    const std::string text = to_json(original);
    p_.to.metadata("qtape.version", QTAPE_VERSION);
    p_.to.metadata("qtape.program_sha256", sha256_hex(std::as_bytes(std::span(text))));
    p_.to.metadata("qtape.requantization",
                   std::string(to_string_view(p_.program.requantization())));
    p_.to.metadata("qtape.form", std::string(to_string_view(p_.form)));
  }

  /// Determines name prefixes: the label of a node, or the nearest label among its operands and
  /// its op.
  void name_nodes() {
    std::vector<std::string> nearest;
    for (int32_t i = 0; i < p_.program.size(); ++i) {
      const IntegerNode& node = p_.program[ProgramNodeId{i}];
      const bool reads = !node.operands.empty();
      const std::string above = reads ? nearest[at(node.operands[0])] : fmt::format("n{}", i);
      nearest.push_back(node.label.empty() ? above : node.label);
      const bool own =
          !node.label.empty() || !reads || std::holds_alternative<integer::Requantize>(node.op);
      std::string operation(name_of(node.op));
      for (char& c : operation) {
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      }
      p_.bases.push_back(own ? nearest.back() : fmt::format("{}.{}", above, operation));
    }
  }

  Written write_output(ProgramNodeId id) {
    p_.current = id;
    check(
        !p_.in_floats() || !p_.program[id].value.is_accumulators() || p_.is_index(id),
        "has no accumulators because products are computed in floats: output floats or codes");
    const Written& x = p_.values[at(id)];
    const std::string last = p_.channels_last(x, p_.program[id].value.type.shape);
    onnx::NodeProto& made = p_.to.node("Identity", {last}, p_.named("output"));
    std::string& name = p_.names[id.index];
    // A value that is an output twice, or also an input, needs another name.
    if (!yielded_.insert(name).second) name = p_.to.unique(name);
    made.set_output(0, name);
    const TensorType type = p_.type_in_model(id);
    p_.to.output(name, type, p_.batch_extent(id));
    return {name};
  }

  OnnxProgram p_;
  std::set<std::string> yielded_;
  Reasons refused_;
};

}  // namespace

std::string to_onnx(const IntegerProgram& program, const OnnxExportOptions& options) {
  const FloatEnvironment floats;
  require<ArgumentError>(options.opset >= first_onnx_opset && options.opset <= last_onnx_opset,
                         "opset must be in {}..{}, got {}", first_onnx_opset, last_onnx_opset,
                         options.opset);
  require<GraphError>(program.requantization() == Requantization::OnnxQdq,
                      "ONNX computes OnnxQdq, the program is of {}: convert it to OnnxQdq",
                      to_string_view(program.requantization()));
  const bool fixed = options.form == OnnxForm::Qonnx && program.batch();
  const IntegerProgram single = fixed ? program.with_batch(1) : IntegerProgram();
  return Exporter(fixed ? single : program, options).run(program);
}

int64_t write_onnx(const std::string& path, const IntegerProgram& program,
                   const OnnxExportOptions& options) {
  const std::string bytes = to_onnx(program, options);
  write_file(path, bytes);
  return std::ssize(bytes);
}

}  // namespace qtape
