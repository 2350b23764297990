// Integer programs as ONNX models: what is written is a graph in order, and what is refused.
#include "qtape/onnx/export.h"

#include <doctest/doctest.h>
#include <onnx/onnx_pb.h>

#include <set>
#include <string>

#include "qtape/deploy/convert.h"
#include "qtape/engine/files.h"
#include "qtape/engine/parameters.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/integer_programs.h"

namespace {

using namespace qtape;

onnx::GraphProto graph_of(const std::string& bytes) {
  onnx::ModelProto model;
  CHECK(model.ParseFromString(bytes));
  return model.graph();
}

/// The first name that a node reads before anything gives it, or that is given twice.
std::string first_fault(const onnx::GraphProto& graph) {
  std::set<std::string> known;
  for (const auto& each : graph.initializer()) {
    if (!known.insert(each.name()).second) return each.name();
  }
  for (const auto& each : graph.input()) {
    if (!known.insert(each.name()).second) return each.name();
  }
  for (const auto& node : graph.node()) {
    for (const std::string& input : node.input()) {
      if (!input.empty() && !known.contains(input)) return input;
    }
    for (const std::string& output : node.output()) {
      if (!known.insert(output).second) return output;
    }
  }
  for (const auto& each : graph.output()) {
    if (!known.contains(each.name())) return each.name();
  }
  return "";
}

/// `small_program` for another requantization.
IntegerProgram small_program(Requantization requantization) {
  const IntegerProgram from = test::small_program();
  IntegerProgram program(requantization);
  for (const IntegerNode& node : from.nodes()) program.add(node.op, node.operands, node.label);
  program.set_outputs({from.outputs().begin(), from.outputs().end()});
  return program;
}

/// Whether a reason is one of those that the header lists.
bool is_known(const std::string& reason) {
  for (const char* known : {"these have 16", "16 bits need opset 21", "QuantizeLinear rounds",
                            "adds products in 32 bits", "sums have 32 bits"}) {
    if (reason.find(known) != std::string::npos) return true;
  }
  return false;
}

TEST_CASE("onnx export: random nets are graphs in order, or refused with their reason") {
  std::set<std::string> ops;
  const OnnxExportOptions ways[] = {
      {OnnxForm::Qdq, 13}, {OnnxForm::Qdq, 21}, {OnnxForm::Integer, 13}};
  int written[std::size(ways)] = {};
  for (uint64_t seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const Graph net = seed % 2 == 0 ? test::conv_net(seed) : test::random_net(seed);
    Parameters parameters(net, seed);
    test::settle(net, parameters, seed);
    const IntegerProgram program = convert(net, parameters, Requantization::OnnxQdq);
    for (size_t way = 0; way < std::size(ways); ++way) {
      try {
        const onnx::GraphProto graph = graph_of(to_onnx(program, ways[way]));
        CHECK(first_fault(graph) == "");
        for (const auto& node : graph.node()) ops.insert(node.op_type());
        ++written[way];
      } catch (const GraphError& error) {
        CAPTURE(error.what());
        CHECK(is_known(error.what()));
      }
    }
  }
  CHECK(written[0] >= 90);
  CHECK(written[1] >= written[0] + 50);
  CHECK(written[2] >= 60);
  for (const std::string op :
       {"QuantizeLinear", "MatMulInteger", "ConvInteger", "Concat", "Slice", "ReduceMax",
        "ReduceSum", "Clip", "DequantizeLinear", "Gemm", "Conv"}) {
    CAPTURE(op);
    CHECK(ops.contains(op));
  }
}

TEST_CASE("onnx export: constants hold the weights, shifted, and the batch has a name") {
  const onnx::GraphProto graph =
      graph_of(to_onnx(small_program(Requantization::OnnxQdq), {.form = OnnxForm::Integer}));
  const auto& weights = *std::ranges::find(graph.initializer(), "fc.weight",
                                           [](const auto& each) { return each.name(); });
  CHECK(weights.data_type() == onnx::TensorProto::UINT8);
  // {5, -3, 2; 7, 0, -9} as columns.
  const std::string bytes = weights.raw_data();
  CHECK(std::vector<uint8_t>(bytes.begin(), bytes.end()) ==
        std::vector<uint8_t>{133, 135, 125, 128, 130, 119});
  CHECK(graph.input(0).name() == "x");
  CHECK(graph.input(0).type().tensor_type().shape().dim(0).dim_param() == "batch");
  CHECK(graph.input(0).type().tensor_type().shape().dim(1).dim_value() == 3);
}

TEST_CASE("onnx export: what ONNX does not compute is refused, and files survive") {
  const IntegerProgram program = small_program(Requantization::SingleRounding);
  CHECK(test::error_text<GraphError>([&] { (void)to_onnx(program); }) ==
        "ONNX computes OnnxQdq, the program is of SingleRounding: convert to that one");
  const IntegerProgram good = small_program(Requantization::OnnxQdq);
  CHECK(test::error_text<ArgumentError>([&] { (void)to_onnx(good, {.opset = 12}); }) ==
        "opset must be in 13..21, got 12");
  const test::Folder folder;
  write_file(folder.file("m.onnx"), "old");
  CHECK(test::error_text<GraphError>([&] { export_onnx(folder.file("m.onnx"), program); }) !=
        "no error");
  CHECK(read_file(folder.file("m.onnx"), 100) == "old");
  export_onnx(folder.file("m.onnx"), good);
  CHECK(read_file(folder.file("m.onnx"), 1 << 20) == to_onnx(good));
}

}  // namespace
