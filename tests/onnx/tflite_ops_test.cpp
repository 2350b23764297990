// Ops that have the arithmetic of TFLite's kernels as ONNX models.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <variant>

#include "qtape/core/random.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/session.h"
#include "qtape/onnx/export.h"
#include "qtape/onnx/interpreter/interpreter.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/integer_programs.h"

using namespace qtape;

namespace {

/// Returns the means of windows of codes of `dtype` and, of s8, their softmax.
IntegerProgram pooled(DType dtype) {
  test::ProgramBuilder b(Requantization::OnnxQdq);
  const ProgramNodeId x = b.codes({2, 5, 4, 3}, test::whole_grid(dtype, 0.25, 5));
  using M = integer::MeanPool;
  const M same{{.kernel = {3, 2}, .stride = {2, 1}, .padding = Padding::Same}};
  std::vector<ProgramNodeId> outputs = {b.add(M{}, {x}, "two"), b.add(same, {x}, "same")};
  const ProgramNodeId lines = b.add(integer::Reshape{{.shape = {2, 20, 3}}}, {x});
  outputs.push_back(b.add(M{{.kernel = {3}}}, {lines}, "lines"));
  if (dtype == DType::S8) {
    outputs.push_back(b.add(integer::Softmax{}, {outputs[1]}, "channels"));
    const ProgramNodeId row = b.add(integer::Reshape{{.shape = {2, 60}}}, {x});
    outputs.push_back(b.add(integer::Softmax{.beta = 0.3}, {row}, "row"));
  }
  return b.of(outputs);
}

std::vector<int64_t> integers_of(const OnnxArray& array) {
  return std::visit(
      [](const auto& data) {
        std::vector<int64_t> all;
        for (const auto each : data) all.push_back(static_cast<int64_t>(each));
        return all;
      },
      array.data);
}

TEST_CASE("onnx: means and softmax of codes are those of the reference, in both forms") {
  for (const DType dtype : {DType::S8, DType::U8}) {
    const IntegerProgram program = pooled(dtype);
    IntegerSession session(program, {.reference = true});
    const Random random(5, 1);
    const auto input = session.input("x");
    for (size_t i = 0; i < input.size(); ++i) {
      // Small codes, of which many means are halfway, beside some of all sizes.
      const uint64_t span = i % 7 == 0 ? 200 : 6;
      input[i] = (static_cast<float>(random.below(i, span)) - static_cast<float>(span / 2)) / 4;
    }
    session.run();
    for (const OnnxForm form : {OnnxForm::Integer, OnnxForm::Qdq}) {
      for (const int64_t opset : {first_onnx_opset, last_onnx_opset}) {
        OnnxInterpreter onnx(to_onnx(program, {.form = form, .opset = opset}));
        onnx.set("x", {{2, 5, 4, 3}, std::vector<float>(input.begin(), input.end())});
        onnx.run();
        const std::vector<std::string> names = onnx.outputs();
        for (size_t k = 0; k < names.size(); ++k) {
          const ProgramNodeId id = program.outputs()[k];
          std::vector<int64_t> expected;
          for (int64_t i = 0; i < program[id].value.type.elements(); ++i) {
            expected.push_back(session.integer(id, i));
          }
          CAPTURE(names[k]);
          CHECK(integers_of(onnx.value(names[k])) == expected);
        }
      }
    }
  }
}

TEST_CASE("onnx: means of codes of 16 bits are refused") {
  const std::string text = test::error_text<GraphError>([] {
    (void)to_onnx(pooled(DType::S16), {.form = OnnxForm::Qdq, .opset = last_onnx_opset});
  });
  CHECK(text.ends_with("ONNX adds 8-bit codes, got 16 bits"));
}

}  // namespace
