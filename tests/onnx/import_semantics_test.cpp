// Import of operators whose results depend on opsets, layouts and shapes in ways that are easy
// to miss: each row is a model with its answer, or its refusal.
#include <doctest/doctest.h>

#include <cmath>
#include <utility>

#include "qtape/tests/onnx/onnx_model.h"

using namespace qtape;
using namespace qtape::test::onnx_models;

namespace {

/// Checks the answers of a model for samples x.
void check_answer(const std::string& what, const OnnxModel& model, const Numbers& x,
                  int64_t samples, const std::vector<double>& wanted) {
  CAPTURE(what);
  check_close(answer(model, x, samples), wanted);
}

OnnxModel average_pool(const char* padding, const Extents& kernel) {
  return OnnxModel({-1, 1, 1, 3})
      .node("AveragePool", {"x"})
      .with("kernel_shape", kernel)
      .with("auto_pad", padding)
      .with("ceil_mode", 1)
      .with("count_include_pad", 1);
}

/// Sizes by scales, with rows and columns of one channel.
OnnxModel resized(int64_t opset, float scale) {
  return OnnxModel({-1, 1, 1, 5}, opset).node("Resize", {"x", floats({4}, {1, 1, 1, scale})});
}

/// Steps before samples.
OnnxModel by_steps(const Extents& sample) {
  Extents extents = {-1};
  extents.insert(extents.end(), sample.begin(), sample.end());
  return OnnxModel(extents).transposed("x", {1, 0, 2}, "s");
}

/// The value [n, 3, 2] divided by the root of its mean square over `axis`.
OnnxModel over_root(int64_t axis) {
  return OnnxModel({-1, 2, 3})
      .transposed("x", {1, 0, 2}, "s")
      .node("ReduceMean", {"s"}, {"mean"})
      .with("axes", Extents{axis})
      .node("Sub", {"s", "mean"}, {"d"})
      .node("Pow", {"d", number(2)}, {"square"})
      .node("ReduceMean", {"square"}, {"variance"})
      .with("axes", Extents{axis})
      .node("Add", {"variance", number(1e-6f)}, {"sum"})
      .node("Sqrt", {"sum"}, {"root"})
      .node("Div", {"d", "root"});
}

/// x / (1 + mean of the squares of 3 channels), for [n, 2, 1, 2] as a row of 4 channels.
std::vector<double> responses(const Numbers& x) {
  std::vector<double> y;
  for (size_t i = 0; i < x.size(); ++i) {
    double squares = 0;
    for (size_t k = i == 0 ? 0 : i - 1; k <= i + 1 && k < x.size(); ++k) {
      squares += double{x[k]} * double{x[k]};
    }
    y.push_back(double{x[i]} / (1 + squares / 3));
  }
  return y;
}

}  // namespace

TEST_CASE("onnx: results that depend on opsets, layouts and shapes") {
  check_answer("rows of a sample stay with the batch on axis 1",
               OnnxModel({-1, 4, 2})
                   .node("Reshape", {"x", ints({-1, 2, 2})}, {"r"})
                   .transposed("r", {1, 0, 2}, "s")
                   .node("Reshape", {"s", ints({2, 0, 1, 2})}, {"a"})
                   .transposed("a", {1, 0, 2, 3}, "t")
                   .node("Reshape", {"t", ints({-1, 8})}),
               {1, 2, 3, 4, 5, 6, 7, 8}, 1, {1, 2, 3, 4, 5, 6, 7, 8});
  // Stored [h, w, c] = [1, 2, 2].
  check_answer("neighbours of a flattened value are those of ONNX",
               OnnxModel({-1, 2, 1, 2})
                   .node("Flatten", {"x"}, {"f"})
                   .node("LRN", {"f"})
                   .with("size", 3)
                   .with("alpha", 1.0f)
                   .with("beta", 1.0f),
               {1, 3, 2, 4}, 1, responses({1, 2, 3, 4}));
  for (const char* padding : {"SAME_UPPER", "SAME_LOWER"}) {
    check_answer("padding of SAME counts, also with ceil_mode", average_pool(padding, {1, 3}),
                 {3, 6, 9}, 1, {3, 6, 5});
  }
  check_answer("the largest element of all positions, for each channel",
               OnnxModel({-1, 2, 1, 3}).node("GlobalMaxPool", {"x"}), {1, 5, 3, -2, -4, -9}, 1,
               {3, 5});
  check_answer("the same along one axis", OnnxModel({-1, 2, 3}).node("GlobalMaxPool", {"x"}),
               {1, 5, 3, -2, -4, -9}, 1, {5, -2});
  check_answer("sizes of opset 10 that shrink round up", resized(10, 0.6f), {0, 1, 2, 3, 4}, 1,
               {0, 2, 4});
  check_answer("sizes of opset 10 that grow round down", resized(10, 1.5f), {0, 1, 2, 3, 4}, 1,
               {0, 0, 1, 2, 2, 3, 4});
  check_answer("a single sample aligns its last axes, so that each sample does",
               OnnxModel({1, 2, 3})
                   .node("ReduceSum", {"x", ints({1})}, {"s"})
                   .with("keepdims", 0)
                   .node("Mul", {"x", "s"}),
               {1, 2, 3, 4, 5, 6, 1, 1, 1, 1, 1, 1}, 2,
               {5, 14, 27, 20, 35, 54, 2, 2, 2, 2, 2, 2});
  check_answer("a value that only constant borders have is ignored by others",
               OnnxModel({-1, 2}, 10)
                   .node("Pad", {"x"})
                   .with("pads", Extents{0, 1, 0, 1})
                   .with("mode", "edge")
                   .with("value", 7.0f),
               {1, 2}, 1, {1, 1, 2, 2});
}

TEST_CASE("onnx: what would mix samples or is ambiguous is refused") {
  refused(
      by_steps({2, 3})
          .floats("w", {3}, {1, 1, 1})
          .node("LayerNormalization", {"s", "w"})
          .with("axis", 1),
      "node 'the LayerNormalization' (LayerNormalization): input 0 has its batch on axis 1, "
      "expected axis 0");
  refused(over_root(1), "node 'the ReduceMean' (ReduceMean): axis 1 would join samples");
  refused(average_pool("SAME_UPPER", {1, 1}).with("strides", Extents{1, 3}),
          "node 'the AveragePool' (AveragePool): auto_pad with a stride of 3 and windows of 1 "
          "leaves out elements on both sides of 3: use pads");
  refused(OnnxModel({-1, 2})
              .floats("w", {2, 3}, Numbers(6, 1))
              .floats("c", {3, 1}, {1, 2, 3})
              .node("Gemm", {"x", "w", "c"}),
          "node 'the Gemm' (Gemm): input 2 must hold 3 floats in one row, got [3, 1]");
  refused(OnnxModel({-1, 2}, 20).node("Gelu", {"x"}).with("approximate", "Tanh"),
          "node 'the Gelu' (Gelu): the approximation Tanh is not supported");
  refused(OnnxModel({-1, 2}).floats("c", {1, 1, 1}, {1}).node("Max", {"x", "c"}),
          "node 'the Max' (Max): a number of rank 3 would add axes to [1, 2]");
  refused(OnnxModel({-1, 2}).floats("c", {1, 1, 1}, {3}).node("Pow", {"x", "c"}),
          "node 'the Pow' (Pow): the exponent must be one number, got [1, 1, 1]");
  refused(
      OnnxModel({-1, 2, 3})
          .node("ReduceSum", {"x", ints({1})}, {"s"})
          .with("keepdims", 0)
          .node("Mul", {"x", "s"}),
      "node 'the Mul' (Mul): inputs of [1, 2, 3] and [1, 3] would mix samples: reshape them to "
      "the same rank");
  refused(
      OnnxModel({-1, 1}).node("Relu", {"x"}, {"r"}).node("MatMul", {"x", "r"}),
      "node 'the MatMul' (MatMul): inputs of [1, 1] and [1, 1] would mix samples: expected equal "
      "ranks of at least 3");
  refused(OnnxModel({-1, 2000, 1})
              .floats("w", {1, 3, 1}, Numbers(3, 1))
              .node("GRU", {"x", "w", "w"})
              .with("hidden_size", 1)
              .with("layout", 1),
          "node 'the GRU' (GRU): its 2000 steps of 20 nodes make 40000, at most 32768 are "
          "supported: export shorter sequences");
}

TEST_CASE("onnx: a fixed batch of 1 on axis 1, where axis 0 would mix samples") {
  OnnxModel model({3, 1, 2});
  model.transposed("x", {1, 0, 2}, "s");
  model.node("ReduceSum", {"s", ints({1})}).with("keepdims", 0);
  std::vector<std::string> notes;
  const SavedModel read = model.imported(&notes);
  CHECK(read.graph[read.graph.at("x")].type.shape == Shape{1, 3, 2});
  check_close(answer(read, Numbers{1, 2, 3, 4, 5, 6, 1, 1, 2, 2, 3, 3}, 2), {9, 12, 6, 6});
  CHECK(notes == std::vector<std::string>{
                     "input 'x' has its samples along axis 1 in the file: the model "
                     "takes samples first"});
  // The first error is reported where axis 1 mixes samples as well.
  refused(OnnxModel({3, 1, 2})
              .node("ReduceSum", {"x", ints({0})}, {"a"})
              .node("ReduceSum", {"x", ints({1})}, {"b"})
              .node("Add", {"a", "b"}),
          "node 'the ReduceSum' (ReduceSum): axis 0 would join samples");
  // A batch of 3 that does not mix samples stays on axis 0.
  CHECK(answer_shape(OnnxModel({3, 1, 2}).node("Relu", {"x"})) == Shape{1, 1, 2});
}

TEST_CASE("onnx: outputs have distinct labels, those of the file first") {
  const SavedModel model = OnnxModel({-1, 4})
                               .node("Split", {"x", ints({1, 3})}, {"y", "x.2"})
                               .with("axis", 1)
                               .node("Relu", {"y"}, {"z"})
                               .output("x.2")
                               .output("y")
                               .output("z")
                               .imported();
  std::vector<std::string> labels;
  for (const NodeId id : model.graph.outputs()) labels.push_back(model.graph[id].label);
  CHECK(labels == std::vector<std::string>{"y", "x.2", "y.2", "z"});
}
