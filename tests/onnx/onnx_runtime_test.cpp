// ONNX Runtime in this process and by python3, and the level of verification that runs it.
#include "qtape/onnx/onnx_runtime.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "qtape/io/files.h"
#include "qtape/onnx/levels.h"
#include "qtape/programs/console/subprocess.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/integer_programs.h"
#include "qtape/tests/support/skip.h"

namespace {

using namespace qtape;

/// Returns the reason for which ONNX Runtime cannot run in one place; empty if it can.
template <class Make>
std::string obstacle(const Make& make) {
  try {
    (void)make();
  } catch (const OnnxRuntimeMissing& missing) {
    return missing.what();
  } catch (const Error&) {
    // It refuses the empty model.
  }
  return {};
}
std::string obstacle_in_process() {
  return obstacle([] { return onnx_runtime_in_process("", 1); });
}
std::string obstacle_of_python() {
  return obstacle([] { return onnx_runtime_of_python("", 1); });
}

/// A PATH without programs.
class EmptyPath {
 public:
  EmptyPath() {
    if (const char* before = std::getenv("PATH")) before_ = before;
    ::setenv("PATH", folder_.path().c_str(), 1);
  }
  EmptyPath(const EmptyPath&) = delete;
  EmptyPath& operator=(const EmptyPath&) = delete;
  ~EmptyPath() {
    if (before_) {
      ::setenv("PATH", before_->c_str(), 1);
    } else {
      ::unsetenv("PATH");
    }
  }

 private:
  test::Folder folder_;
  std::optional<std::string> before_;
};

/// A program with codes, sums and floats as outputs.
IntegerProgram small_program(OnnxForm form) {
  test::ProgramBuilder b(Requantization::OnnxQdq);
  const ProgramNodeId q = b.codes({4, 3}, test::whole_grid(DType::U8, 0.25, 7));
  const ProgramNodeId fc = b.linear(q, {{5, -3, 7, 1, 0, -8}, {0.5f, 0.125f}, {3, -4}}, "fc");
  const ProgramNodeId y = b.add(integer::Dequantize{}, {fc}, "y");
  return form == OnnxForm::Integer ? b.of({q, fc, y}) : b.of({q, y});
}

/// Returns an input of `small_program`.
Tensor input_of(uint64_t seed) {
  std::vector<float> values(12);
  test::fill_wild(values, seed);
  return Tensor::of<float>({4, 3}, values);
}

}  // namespace

TEST_CASE("onnx runtime: verification finds every integer of the reference") {
  const std::string missing = obstacle_in_process();
  if (!missing.empty() && !obstacle_of_python().empty()) {
    return test::skip("there is no ONNX Runtime: " + missing);
  }
  int64_t nets = 0;
  for (uint64_t seed = 0; seed < 24; ++seed) {
    CAPTURE(seed);
    test::Settled net(test::any_net(seed), seed);
    VerifyOptions options{.convert = {.requantization = Requantization::OnnxQdq}, .batch = 5};
    options.threads = seed % 2 == 0 ? 1 : 3;
    options.levels = {onnx_level, onnx_runtime_level};
    options.runners = onnx_levels();
    std::optional<Verifier> verifier;
    try {
      verifier.emplace(net.graph, net.parameters, options);
    } catch (const GraphError&) {
      continue;  // export_test.cpp checks the reasons
    }
    for (uint64_t run = 0; run < 2; ++run) {
      test::fill_wild(verifier->input(), 2 * seed + run);
      verifier->run(5);
    }
    CHECK(test::mismatch(*verifier) == "");
    for (const LayerComparison& layer : verifier->layers()) {
      CHECK(layer.differences.at(onnx_runtime_level) == 0);
    }
    const std::string report = verifier->report(onnx_runtime_level);
    CAPTURE(report);
    CHECK(report.starts_with("ONNX Runtime 1."));
    CHECK(report.ends_with(missing.empty() ? " in this process\n" : ": " + missing + "\n"));
    CHECK(verifier->report(onnx_level) == "");
    CHECK(verifier->report(Level::Exact) == "");
    ++nets;
  }
  CHECK(nets >= 8);
}

TEST_CASE("onnx runtime: in this process and by python3 it gives the same values") {
  for (const std::string& missing : {obstacle_in_process(), obstacle_of_python()}) {
    if (!missing.empty()) return test::skip("not in both places: " + missing);
  }
  for (const OnnxForm form : {OnnxForm::Integer, OnnxForm::Qdq}) {
    CAPTURE(to_string_view(form));
    std::vector<IntegerProgram> programs = {small_program(form)};
    if (form == OnnxForm::Qdq) {
      programs.push_back(test::Settled(test::conv_net(4), 4).program(Requantization::OnnxQdq));
    }
    for (const IntegerProgram& program : programs) {
      const std::string model = to_onnx(program, {.form = form});
      const auto here = onnx_runtime_in_process(model, 2);
      const auto python = onnx_runtime_of_python(model, 2);
      const TensorType type = program[ProgramNodeId{0}].value.type;
      for (uint64_t seed = 0; seed < 3; ++seed) {
        std::vector<float> values(static_cast<size_t>(type.elements()));
        test::fill_wild(values, seed);
        const std::vector<Tensor> inputs = {Tensor::of<float>(type.shape, values)};
        const std::vector<Tensor> outputs = here->run(inputs);
        CHECK(outputs.size() == program.outputs().size());
        CHECK(outputs == python->run(inputs));
      }
    }
  }
}

TEST_CASE("onnx runtime: its errors are thrown, and the session goes on") {
  if (!obstacle_in_process().empty()) return test::skip(obstacle_in_process());
  const auto refused = [](const std::string& model) {
    return test::error_text<Error>([&] { (void)onnx_runtime_in_process(model, 1); });
  };
  CHECK(refused("no model").starts_with("ONNX Runtime failed: "));
  const std::string model =
      to_onnx(small_program(OnnxForm::Integer), {.form = OnnxForm::Integer});
  const auto runtime = onnx_runtime_in_process(model, 1);
  const std::vector<Tensor> inputs = {input_of(1)};
  const std::vector<Tensor> outputs = runtime->run(inputs);
  const std::vector<Tensor> wrong = {Tensor::of<float>({4, 2}, std::vector<float>(8))};
  CHECK(test::error_text<Error>([&] {
          (void)runtime->run(wrong);
        }).starts_with("ONNX Runtime failed: Got invalid dimensions for input: x"));
  const std::vector<Tensor> integers = {Tensor::of<int32_t>({4, 3}, std::vector<int32_t>(12))};
  CHECK(test::error_text<Error>([&] {
          (void)runtime->run(integers);
        }).starts_with("ONNX Runtime failed: Unexpected input data type"));
  CHECK(test::error_text<Error>([&] { (void)runtime->run({}); }) ==
        "the number of inputs of the model is 1, got 0");
  CHECK(runtime->run(inputs) == outputs);
}

TEST_CASE("onnx runtime: the error names both places, the report the reason for python3") {
  const std::vector<std::string> nowhere = {"/nowhere/libonnxruntime.so.1", "/nowhere/b.so"};
  const std::string model =
      to_onnx(small_program(OnnxForm::Integer), {.form = OnnxForm::Integer});
  const std::string reason =
      onnx_runtime_libraries().empty()
          ? "qtape was built without onnxruntime_c_api.h"
          : "/nowhere/libonnxruntime.so.1: cannot open shared object file: No such file or "
            "directory; /nowhere/b.so: cannot open shared object file: No such file or directory";
  CHECK(test::error_text<OnnxRuntimeMissing>(
            [&] { (void)onnx_runtime_in_process(model, 1, nowhere); }) == reason);
  if (obstacle_of_python().empty()) {
    const std::string report = onnx_runtime(model, 1, nowhere)->report();
    CHECK(report.starts_with("ONNX Runtime 1."));
    CHECK(report.ends_with(" of python3: " + reason + "\n"));
  }
  const EmptyPath path;
  CHECK(test::error_text<OnnxRuntimeMissing>([&] { (void)onnx_runtime(model, 1, nowhere); }) ==
        "L7 ONNX Runtime needs libonnxruntime (Debian 13: libonnxruntime-dev) or python3 with "
        "onnxruntime and NumPy: " +
            reason);
}

TEST_CASE("onnx runtime: a library that is too old or another is refused with a reason") {
  if (onnx_runtime_libraries().empty()) return test::skip(obstacle_in_process());
  if (!has_program("cc")) return test::skip("there is no cc");
  const test::Folder folder;
  const auto library = [&](const std::string& name, const std::string& source) {
    write_file(folder.file(name + ".c"), source);
    const std::string path = folder.file(name + ".so");
    require_success(
        "cc", run_program({"cc", "-shared", "-fPIC", "-o", path, folder.file(name + ".c")}));
    return path;
  };
  const std::string old = library(
      "old",
      "static const void *api(unsigned version) { (void)version; return 0; }\n"
      "static const char *text(void) { return \"1.4.0\"; }\n"
      "static const struct { const void *(*api)(unsigned); const char *(*text)(void); } base = "
      "{api, text};\n"
      "const void *OrtGetApiBase(void) { return &base; }\n");
  const std::string other = library("other", "int none;\n");
  const std::string text = test::error_text<OnnxRuntimeMissing>([&] {
    (void)onnx_runtime_in_process("", 1, {old, other});
  });
  CAPTURE(text);
  CHECK(text.starts_with(old + ": is ONNX Runtime 1.4.0, expected at least 1."));
  CHECK(text.ends_with("; " + other + ": has no OrtGetApiBase"));
}
