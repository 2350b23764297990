// Exports to C with CMSIS-NN: the steps that it computes, and a library with another rounding.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "qtape/c99/cmsis_nn.h"
#include "qtape/c99/export_c.h"
#include "qtape/programs/console/subprocess.h"
#include "qtape/tests/support/folder.h"
#include "qtape/tests/support/integer_programs.h"
#include "qtape/tests/support/skip.h"

namespace {

using namespace qtape;

/// Returns a program of two convolutions with only s8 codes: a depthwise one with `taps` x
/// `taps` and padding that keeps the extent, then a 1 x 1 one.
IntegerProgram small_convolutions(Requantization requantization, int64_t taps, int bits) {
  test::ProgramBuilder b(requantization);
  const CodeGrid grid = test::whole_grid(DType::S8, 0.25, 3);
  const auto product = [&](ProgramNodeId from, int64_t extent, int64_t groups,
                           const char* label) {
    const int64_t terms = extent * extent * 4 / groups;
    test::Weights w{{}, {0.01f, 0.02f, 0.015f, 0.03f}, {1, -2, 3, -4}, bits};
    for (int64_t i = 0; i < 4 * terms; ++i)
      w.codes.push_back(static_cast<int8_t>(i * 5 % 15 - 7));
    const integer::Conv conv{.taps = {extent, extent},
                             .padding = Padding::Explicit,
                             .pads_begin = {(extent - 1) / 2, (extent - 1) / 2},
                             .pads_end = {extent / 2, extent / 2},
                             .groups = groups};
    return b.add(integer::Requantize{grid}, {b.conv(from, conv, terms, w, label)},
                 fmt::format("{}.codes", label));
  };
  const ProgramNodeId first = product(b.codes({1, 5, 5, 4}, grid), taps, 4, "depthwise");
  return b.of({product(first, 1, 1, "pointwise")});
}

TEST_CASE("exported C: steps say which function of CMSIS-NN computes them, or why none does") {
  const auto texts = [](const IntegerProgram& program) {
    std::vector<std::string> all;
    const CExport exported =
        export_c(program, {.kernels = CKernels::CmsisNn, .test = {.inputs = 1}});
    for (const CStep& step : exported.written.steps) {
      all.push_back(fmt::format("{}: {}", step.label, c_kernel_text(step)));
      CHECK(exported.files[1].text.find(" * " + all.back() + ".\n") != std::string::npos);
    }
    return all;
  };
  const std::vector<std::string> called = {"q: own C: CMSIS-NN is not called for Quantize",
                                           "depthwise: arm_depthwise_conv_wrapper_s8",
                                           "pointwise: arm_convolve_wrapper_s8"};
  CHECK(texts(small_convolutions(Requantization::SingleRounding, 3, 8)) == called);
  // Two columns of padding after a window: CMSIS-NN's general kernels instead of its 3 x 3
  // kernel.
  CHECK(texts(small_convolutions(Requantization::SingleRounding, 5, 8)) == called);
  const std::vector<std::string> floats = texts(test::small_program());
  CHECK(floats.back() ==
        "fc: own C: its sums do not become codes, the only output of CMSIS-NN");
}

/// Returns a 1 x 1 convolution of two channels, the first without weights, as converters leave
/// channels that are 0: a tiny scale and a large bias.
IntegerProgram dead_channel(float scale, int32_t bias) {
  test::ProgramBuilder b(Requantization::DoubleRounding);
  const CodeGrid grid = test::whole_grid(DType::S8, 0.25, 3);
  const test::Weights w{{0, 0, 100, -70}, {scale, 0.9f}, {bias, 5}, 8};
  const ProgramNodeId sums =
      b.conv(b.codes({1, 3, 3, 2}, grid), integer::Conv{.taps = {1, 1}}, 2, w, "conv");
  return b.of({b.add(integer::Requantize{grid}, {sums}, "conv.codes")});
}

std::string kernel_of_last(const IntegerProgram& program) {
  return c_kernel_text(export_c(program, {.kernels = CKernels::CmsisNn, .test = {.inputs = 1}})
                           .written.steps.back());
}

TEST_CASE("exported C: CMSIS-NN computes channels whose sums always become 0") {
  constexpr float least = 3e-10f;    // a right shift by 31
  constexpr float nothing = 1e-11f;  // a multiplier of 0
  constexpr int32_t large = 1 << 30;
  CHECK(kernel_of_last(dead_channel(nothing, large)) == "arm_convolve_wrapper_s8");
  CHECK(kernel_of_last(dead_channel(least, large)) == "arm_convolve_wrapper_s8");
  // Its result is 1, by a shift that CMSIS-NN has no mask for.
  CHECK(kernel_of_last(dead_channel(4.6e-10f, 2000000000)) ==
        "own C: its sums pass the 32 bits in which CMSIS-NN scales them");
  CHECK(kernel_of_last(dead_channel(0.4f, large)) == "arm_convolve_wrapper_s8");
  CHECK(kernel_of_last(dead_channel(0.9f, large)) ==
        "own C: its sums pass the 32 bits in which CMSIS-NN scales them");
}

TEST_CASE("exported C: bytes of weights are those that are stored") {
  const IntegerProgram program = small_convolutions(Requantization::SingleRounding, 3, 4);
  const auto bytes = [&](CKernels kernels) {
    return export_c(program, {.kernels = kernels, .test = {.inputs = 1}}).written.weight_bytes;
  };
  CHECK(bytes(CKernels::CmsisNn) == 52);
  // Includes the bytes after rows that products of 16 terms read.
  CHECK(bytes(CKernels::Portable) == 26 + 8);
}

/// x f32[1, 3] to s8 codes of a linear layer, or of x added to itself.
IntegerProgram rows_program(Requantization requantization, bool product) {
  test::ProgramBuilder b(requantization);
  const CodeGrid grid = test::whole_grid(DType::S8, 0.25, 7);
  const ProgramNodeId q = b.codes({1, 3}, grid);
  if (!product) return b.of({b.add(integer::Add{.grid = grid}, {q, q}, "sum")});
  const ProgramNodeId fc = b.linear(q, {{5, -3, 2, 7, 0, -9}, {0.05f, 0.2f}, {10, -20}}, "fc");
  return b.of({b.add(integer::Requantize{grid}, {fc}, "codes")});
}

/// Compiles all sources of CMSIS-NN for `requantization` to one object.
std::string library_for(const test::Folder& folder, Requantization requantization) {
  const CmsisNn library = CmsisNn::of_environment(requantization);
  const std::string object = folder.file(fmt::format("{}.o", to_string_view(requantization)));
  std::vector<std::string> arguments = {"cc", "-std=gnu99", "-O1", "-w",  "-ffunction-sections",
                                        "-r", "-nostdlib",  "-o",  object};
  arguments.insert(arguments.end(), library.flags.begin(), library.flags.end());
  arguments.insert(arguments.end(), library.sources.begin(), library.sources.end());
  require_success("cc", run_program(arguments));
  return object;
}

/// Returns the output of the self-test of `program`, linked to a library object.
std::string self_test(const IntegerProgram& program, const std::string& library) {
  const test::Folder folder;
  write_c(folder.path(), program,
          {.name = "net", .kernels = CKernels::CmsisNn, .test = {.inputs = 8}});
  std::vector<std::string> arguments = {"cc", "-std=c99", "-o", folder.file("test")};
  const CmsisNn flags = CmsisNn::of_environment(program.requantization());
  arguments.insert(arguments.end(), flags.flags.begin(), flags.flags.end());
  arguments.insert(arguments.end(), {folder.file("net.c"), folder.file("net_test.c"), library,
                                     "-Wl,--gc-sections"});
  require_success("cc", run_program(arguments));
  return run_program({folder.file("test")}).output;
}

TEST_CASE("exported C: a CMSIS-NN that rounds otherwise is told before anything runs") {
  if (!CmsisNn::is_given()) return test::skip("QTAPE_CMSIS_NN names no CMSIS-NN");
  const test::Folder folder;
  const std::string single = library_for(folder, Requantization::SingleRounding);
  const std::string twice = library_for(folder, Requantization::DoubleRounding);
  for (Requantization requantization :
       {Requantization::SingleRounding, Requantization::DoubleRounding}) {
    const bool once = requantization == Requantization::SingleRounding;
    for (const IntegerProgram& program :
         {small_convolutions(requantization, 3, 8), rows_program(requantization, true),
          rows_program(requantization, false)}) {
      CAPTURE(program[ProgramNodeId{2}].label);
      CHECK(self_test(program, once ? single : twice).find("all as expected") !=
            std::string::npos);
      CHECK(self_test(program, once ? twice : single) ==
            "net: status sample 0 index -1: expected 0, got 4\n");
    }
  }
  for (const float scale : {1e-11f, 3e-10f, 1e-7f, 0.4f}) {
    CAPTURE(scale);
    CHECK(self_test(dead_channel(scale, 1 << 30), twice).find("all as expected") !=
          std::string::npos);
  }
}

}  // namespace
