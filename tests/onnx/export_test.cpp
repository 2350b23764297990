// Integer programs as ONNX models: node order, and unsupported programs.
#include "qtape/onnx/export.h"

#include <doctest/doctest.h>
#include <onnx/onnx_pb.h>

#include <map>
#include <set>
#include <string>

#include "qtape/io/files.h"
#include "qtape/io/sha256.h"
#include "qtape/onnx/interpreter/interpreter.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/integer_programs.h"
#include "qtape/tests/support/small_nets.h"

namespace {

using namespace qtape;

onnx::GraphProto graph_of(const std::string& bytes) {
  onnx::ModelProto model;
  CHECK(model.ParseFromString(bytes));
  return model.graph();
}

/// Returns the first name that a node reads before it is defined, or that is defined twice.
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

/// True if a reason is one of those listed in the header.
bool is_known(const std::string& reason) {
  for (const char* known : {"8-bit codes, got 16 bits", "16 bits need opset 21",
                            "but ONNX's QuantizeLinear HalfEven", "adds products in 32 bits",
                            "sums have 32 bits"}) {
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
    const IntegerProgram program =
        test::Settled(test::any_net(seed), seed).program(Requantization::OnnxQdq);
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
  const onnx::GraphProto graph = graph_of(
      to_onnx(test::small_program(Requantization::OnnxQdq), {.form = OnnxForm::Integer}));
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
  const IntegerProgram program = test::small_program(Requantization::SingleRounding);
  CHECK(test::error_text<GraphError>([&] { (void)to_onnx(program); }) ==
        "ONNX computes OnnxQdq, the program is of SingleRounding: convert it to OnnxQdq");
  const IntegerProgram good = test::small_program(Requantization::OnnxQdq);
  CHECK(test::error_text<ArgumentError>([&] { (void)to_onnx(good, {.opset = 12}); }) ==
        "opset must be in 13..21, got 12");
  const IntegerProgram empty = program_from_json(
      R"({"format":"qtape","version":2,"requantization":"OnnxQdq","program":[
      {"label":"x","op":{"Input":{"shape":[0,4]}}},
      {"op":{"Quantize":{"grid":{"scale":1.0}}},"operands":[0]},
      {"op":"Dequantize","operands":[1]}],"outputs":[2]})");
  CHECK(test::error_text<GraphError>([&] {
          (void)to_onnx(empty);
        }).find("f32[0, 4] has no elements, which ONNX Runtime does not compute") !=
        std::string::npos);
  const test::Folder folder;
  write_file(folder.file("m.onnx"), "old");
  CHECK(test::error_text<GraphError>([&] { write_onnx(folder.file("m.onnx"), program); }) !=
        "no error");
  CHECK(read_file(folder.file("m.onnx"), 100) == "old");
  const int64_t bytes = write_onnx(folder.file("m.onnx"), good);
  CHECK(bytes == std::ssize(to_onnx(good)));
  CHECK(read_file(folder.file("m.onnx"), 1 << 20) == to_onnx(good));
}

TEST_CASE("onnx export: a model says what made it of which program") {
  const IntegerProgram program = test::small_program(Requantization::OnnxQdq);
  const test::Folder folder;
  save_program(folder.file("p.json"), program);
  const std::string text = read_file(folder.file("p.json"), 1 << 20);
  onnx::ModelProto model;
  CHECK(model.ParseFromString(to_onnx(program, {.form = OnnxForm::Integer})));
  CHECK(model.producer_name() == "qtape");
  CHECK(model.producer_version().find('.') != std::string::npos);
  std::map<std::string, std::string> metadata;
  for (const auto& each : model.metadata_props()) metadata[each.key()] = each.value();
  CHECK(metadata == std::map<std::string, std::string>{
                        {"qtape.version", model.producer_version()},
                        {"qtape.program_sha256", sha256_hex(std::as_bytes(std::span(text)))},
                        {"qtape.requantization", "OnnxQdq"},
                        {"qtape.form", "integer"}});
}

/// A program that pools codes of `dtype` with windows that begin and end in padding as wide as
/// the kernel.
IntegerProgram dilated_pool(DType dtype) {
  test::ProgramBuilder b(Requantization::OnnxQdq);
  const ProgramNodeId q = b.codes(
      {2, 7, 6, 3}, {.dtype = dtype, .scale = 0.5, .zero_point = 3, .low = 1, .high = 120});
  const MaxPool pool{.kernel = {3, 2},
                     .stride = {2, 1},
                     .dilation = {2, 3},
                     .padding = Padding::Explicit,
                     .pads_begin = {3, 1},
                     .pads_end = {4, 2}};
  return b.of({b.add(integer::Structure<MaxPool>{pool}, {q}, "pool")});
}

TEST_CASE("onnx export: no pooling has padding as wide as its kernel") {
  for (const DType dtype : {DType::U8, DType::S8, DType::S16}) {
    const onnx::GraphProto graph = graph_of(to_onnx(dilated_pool(dtype), {.opset = 21}));
    CHECK(first_fault(graph) == "");
    int64_t pools = 0, pads = 0;
    std::string limited;
    for (const auto& node : graph.node()) {
      pads += node.op_type() == "Pad" ? 1 : 0;
      if (node.op_type() == "Clip") limited = node.output(0);
      if (node.op_type() != "MaxPool") continue;
      ++pools;
      CHECK(node.input(0) == limited);  // no Pad that a runtime could merge
      for (const auto& attribute : node.attribute()) {
        if (attribute.name() != "pads") continue;
        for (const int64_t pad : attribute.ints()) CHECK(pad == 0);
      }
    }
    CHECK(pools == 1);
    CHECK(pads == 1);
  }
}

TEST_CASE("onnx export: outputs have the names of layers, and parts those of what is near") {
  test::ProgramBuilder b(Requantization::OnnxQdq);
  const CodeGrid grid = test::whole_grid(DType::U8, 0.25, 7);
  const ProgramNodeId q = b.codes({2, 3}, grid, "x.quantized");
  const ProgramNodeId fc = b.linear(q, {{5, -3, 7}, {0.5f}, {3}}, "fc");
  const ProgramNodeId y = b.add(integer::Requantize{grid}, {fc});
  const ProgramNodeId sum = b.add(integer::Add{grid}, {y, y});
  const ProgramNodeId outputs[] = {b.add(integer::Dequantize{}, {fc}, "fc.value"),
                                   b.add(integer::Dequantize{}, {sum}, "sum.value")};
  const onnx::GraphProto graph = graph_of(to_onnx(b.of({outputs[0], outputs[1]})));
  CHECK(graph.output(0).name() == "fc");
  CHECK(graph.output(1).name() == "sum.value");
  std::set<std::string> names;
  for (const auto& node : graph.node()) names.insert(node.name());
  CHECK(names.contains("fc.sum"));
  CHECK(names.contains("fc.codes"));
  CHECK(names.contains("fc.add.sum"));
}

}  // namespace

TEST_CASE("ONNX: rows that join the batch with an axis run at any batch") {
  test::Net net({1, 4, 3});
  const FakeQuantize grid{.scale_mode = Fixed{}};
  const NodeId rows = net.add(Reshape{.shape = {-1, 3}}, {net.quantized(net.x, grid, "x")});
  const NodeId y = net.add(Reshape{.shape = {-1, 4, 2}}, {net.layer(rows, 2, "fc", grid)});
  net.graph.set_outputs({y});
  test::Settled of(net.graph, 3);
  const IntegerProgram program = of.program(Requantization::OnnxQdq);
  const auto answers = [&](int64_t batch, size_t sample) {
    OnnxInterpreter model(to_onnx(program, {.form = OnnxForm::Integer}));
    std::vector<float> x(static_cast<size_t>(batch) * 12);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 12) / 8;
    model.set(model.inputs()[0], {{batch, 4, 3}, x});
    model.run();
    const auto& all = std::get<std::vector<float>>(model.value(model.outputs()[0]).data);
    return std::vector<float>(all.begin() + static_cast<std::ptrdiff_t>(sample * 8),
                              all.begin() + static_cast<std::ptrdiff_t>(sample * 8 + 8));
  };
  CHECK(answers(3, 2) == answers(1, 0));
}
