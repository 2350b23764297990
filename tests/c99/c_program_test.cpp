// C programs: what a compiler of this machine makes of them gives the integers of the
// reference.
#include "qtape/c99/c_program.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "qtape/c99/c_library.h"
#include "qtape/c99/c_self_test.h"
#include "qtape/c99/cmsis_nn.h"
#include "qtape/c99/levels.h"
#include "qtape/deploy/verify.h"
#include "qtape/integer/program/channels_first.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/session.h"
#include "qtape/integer/program/signed_codes.h"
#include "qtape/io/files.h"
#include "qtape/programs/console/subprocess.h"
#include "qtape/tests/support/conformance.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/integer_programs.h"
#include "qtape/tests/support/skip.h"
#include "qtape/tests/support/small_nets.h"

namespace {

using namespace qtape;

/// Warnings are errors, because exported C must compile without warnings.
const CCompiler strict{.flags = {"-O1", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion",
                                 "-Wshadow", "-Wcast-align", "-Wcast-qual", "-Wundef",
                                 "-Wcomment", "-Werror"}};

constexpr const char* no_cmsis_nn = "QTAPE_CMSIS_NN names no CMSIS-NN";

struct Case {
  std::string name;
  IntegerProgram program;
};

/// Runs from the reference's codes of the inputs; false if the program does not accept codes.
bool run_from_codes(const IntegerProgram& program, const IntegerSession& reference,
                    const CUnit& unit, CSession& c) {
  if (!unit.written.takes_codes) return false;
  for (size_t i = 0; i < unit.written.inputs.size(); ++i) {
    for (const CStep& step : unit.written.steps) {
      if (!step.is_input || program[step.node].operands[0] != unit.written.inputs[i].node)
        continue;
      std::ranges::copy(reference.bytes(step.node), c.codes(i).begin());
    }
  }
  c.run_codes();
  return true;
}

/// Returns the differences between C and reference in `samples` runs on random inputs.
std::string difference(const Case& each, CSession& c, const CUnit& unit, int samples) {
  IntegerSession reference(each.program, {.reference = true});
  for (int sample = 0; sample < samples; ++sample) {
    for (size_t i = 0; i < unit.written.inputs.size(); ++i) {
      const auto x = reference.input(unit.written.inputs[i].node);
      test::fill_wild(x, static_cast<uint64_t>(1000 * sample) + i);
      std::ranges::copy(x, c.input(i).begin());
    }
    reference.run();
    c.run();
    for (const CStep& step : unit.written.steps) {
      const auto wanted = reference.bytes(step.node);
      const auto got = c.value(step.node);
      if (std::ranges::equal(wanted, got)) continue;
      const auto [a, b] = std::ranges::mismatch(wanted, got);
      return fmt::format("{}: {} differs at byte {} of {}", each.name,
                         each.program.describe(step.node), a - wanted.begin(), wanted.size());
    }
    for (bool from_codes : {false, true}) {
      if (from_codes && !run_from_codes(each.program, reference, unit, c)) continue;
      for (size_t i = 0; i < unit.written.outputs.size(); ++i) {
        if (!std::ranges::equal(reference.bytes(unit.written.outputs[i].node), c.output(i))) {
          return fmt::format("{}: output {} differs{}", each.name, i,
                             from_codes ? ", run from codes" : "");
        }
      }
    }
  }
  return "";
}

/// Returns the first difference of all cases.
std::string differences(const std::vector<Case>& cases, const CCompiler& compiler, int samples,
                        CKernels kernels = CKernels::Portable) {
  std::vector<CUnit> units;
  for (const Case& each : cases) {
    units.push_back({each.name, write_c_program(each.program, each.name, kernels)});
  }
  const CLibrary library(units, compiler);
  for (size_t i = 0; i < cases.size(); ++i) {
    CSession session(cases[i].program, units[i], library);
    std::string text = difference(cases[i], session, units[i], samples);
    if (!text.empty()) return text;
  }
  return "";
}

/// Returns the first difference of cases of one requantization, on CMSIS-NN.
std::string cmsis_differences(const std::vector<Case>& cases, int samples) {
  CCompiler compiler;
  add_cmsis_nn(compiler, cases[0].program.requantization());
  return differences(cases, compiler, samples, CKernels::CmsisNn);
}

/// Returns a case of a net with settled quantizers; requantizations alternate.
Case case_of(const Graph& graph, const std::string& kind, uint64_t seed, bool codes) {
  const auto outputs = codes ? graph.outputs().last(1) : graph.outputs();
  return {fmt::format("{}{}", kind, seed),
          test::Settled(graph, seed)
              .program({.requantization = requantization::values[seed % requantization::count],
                        .outputs = {outputs.begin(), outputs.end()},
                        .integer_outputs = codes})};
}

TEST_CASE("C programs: random nets give the integers of the reference, without a warning") {
  std::vector<Case> nets, convs, axes;
  for (uint64_t seed = 0; seed < 32; ++seed) {
    nets.push_back(case_of(test::random_net(seed + 1), "net", seed + 1, seed % 3 == 2));
    convs.push_back(case_of(test::conv_net(seed), "conv", seed, false));
    axes.push_back(case_of(test::axes_net(seed), "axes", seed, seed % 5 == 0));
    if (seed % 2 == 0) axes.back().program = channels_first(axes.back().program);
  }
  CHECK(differences(nets, strict, 20) == "");
  CHECK(differences(convs, strict, 8) == "");
  CHECK(differences(axes, strict, 8) == "");
}

TEST_CASE("C programs: they give every value of the conformance cases") {
  std::vector<CUnit> units;
  const std::vector<test::ConformanceCase> cases = test::conformance_cases();
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::string name = fmt::format("case{}", i);
    units.push_back({name, write_c_program(cases[i].program, name)});
  }
  const CLibrary library(units, strict);
  for (size_t i = 0; i < cases.size(); ++i) {
    const test::ConformanceCase& each = cases[i];
    CAPTURE(each.name);
    IntegerSession reference(each.program, {.reference = true});
    test::feed_inputs(reference, each.inputs);
    reference.run();
    CSession c(each.program, units[i], library);
    for (size_t k = 0; k < each.inputs.size(); ++k) {
      std::ranges::copy(each.inputs[k].data, c.input<std::byte>(k).begin());
    }
    c.run();
    for (const CStep& step : units[i].written.steps) {
      CAPTURE(each.program.describe(step.node));
      CHECK(std::ranges::equal(reference.bytes(step.node), c.value(step.node)));
    }
  }
}

TEST_CASE("C programs: on CMSIS-NN, where QTAPE_CMSIS_NN names it") {
  if (!CmsisNn::is_given()) return test::skip(no_cmsis_nn);
  for (Requantization requantization :
       {Requantization::SingleRounding, Requantization::DoubleRounding}) {
    std::vector<Case> cases;
    for (uint64_t seed = 0; seed < 120; ++seed) {
      test::Settled net(test::any_net(seed), seed);
      cases.push_back(
          {fmt::format("net{}", seed), with_signed_codes(net.program(requantization)).program});
    }
    CHECK(cmsis_differences(cases, 8) == "");
  }
}

/// x f32[1, 5, 5, 4] with s8 codes and a convolution to s8 codes, with these taps, this padding
/// at the ends and this number of groups.
IntegerProgram padded_program(int64_t groups, int64_t taps, int64_t stride, int64_t end) {
  test::ProgramBuilder b;
  const CodeGrid grid = test::whole_grid(DType::S8, 0.25, 7);
  const ProgramNodeId q = b.codes({1, 5, 5, 4}, grid);
  const int64_t terms = 4 / groups * taps * taps;
  test::Weights w{{}, std::vector<float>(4, 0.01f), {1, -2, 3, -4}};
  for (int64_t i = 0; i < 4 * terms; ++i)
    w.codes.push_back(static_cast<int8_t>(i * 37 % 251 - 125));
  const integer::Conv conv{.taps = {taps, taps},
                           .stride = {stride, stride},
                           .padding = Padding::Explicit,
                           .pads_end = {end, end},
                           .groups = groups};
  const ProgramNodeId products = b.conv(q, conv, terms, w, "products");
  return b.of({b.add(integer::Requantize{grid}, {products}, "y")});
}

TEST_CASE("C programs: padding behind the last row and column, in CMSIS-NN where it can") {
  std::vector<Case> cases;
  for (int64_t groups : {1, 2, 4}) {
    for (int64_t taps : {1, 2, 3}) {
      for (int64_t stride : {1, 2}) {
        for (int64_t end : {0, 1, 2}) {
          cases.push_back(
              {fmt::format("net{}", cases.size()), padded_program(groups, taps, stride, end)});
        }
      }
    }
  }
  CHECK(differences(cases, strict, 3) == "");
  if (!CmsisNn::is_given()) return test::skip(no_cmsis_nn);
  CHECK(cmsis_differences(cases, 3) == "");
}

/// x f32[1, 3] with s8 codes, a 1x1 convolution or a linear layer with this bias, and its s8
/// codes with this scale.
IntegerProgram product_program(Requantization requantization, bool conv, int32_t bias,
                               double scale) {
  test::ProgramBuilder b(requantization);
  const ProgramNodeId q = b.codes({1, 1, 3}, test::whole_grid(DType::S8, 0.25, 7));
  const test::Weights w{{5, -3, 2, 7, 0, -9}, {0.5f, 2.0f}, {bias, -bias}};
  const integer::Conv one{
      .taps = {1}, .stride = {1}, .dilation = {1}, .pads_begin = {0}, .pads_end = {0}};
  const ProgramNodeId products =
      conv ? b.conv(q, one, 3, w, "products") : b.linear(q, w, "products");
  const CodeGrid out = test::whole_grid(DType::S8, double{static_cast<float>(scale)}, 7);
  return b.of({b.add(integer::Requantize{out}, {products}, "y")});
}

TEST_CASE("C programs: CMSIS-NN is called where its 32 bits hold what it computes alone") {
  for (Requantization requantization :
       {Requantization::SingleRounding, Requantization::DoubleRounding}) {
    std::vector<Case> cases;
    for (bool conv : {false, true}) {
      using Given = std::tuple<int32_t, double, bool>;
      for (const auto& given :
           {Given{100, 1.0, true}, Given{1 << 29, 1.0, true}, Given{2147483600, 1.0, false},
            Given{1 << 29, 0.01, false}, Given{100, 1e-12, false}, Given{100, 1e-9, false},
            Given{100, 1e12, true}}) {
        const auto bias = std::get<0>(given);
        const auto scale = std::get<1>(given);
        const auto called = std::get<2>(given);
        CAPTURE(bias);
        CAPTURE(scale);
        CAPTURE(conv);
        const std::string name = fmt::format("net{}", cases.size());
        cases.push_back({name, product_program(requantization, conv, bias, scale)});
        const std::string source =
            write_c_program(cases.back().program, name, CKernels::CmsisNn).source;
        CHECK((source.find("_wrapper_s8(") != std::string::npos) == called);
      }
    }
    CHECK(differences(cases, strict, 5) == "");
    if (CmsisNn::is_given()) CHECK(cmsis_differences(cases, 5) == "");
  }
  if (!CmsisNn::is_given()) test::skip(no_cmsis_nn);
}

TEST_CASE("C programs: labels are no names that the program, C or C++ have already") {
  const IntegerProgram from = product_program(Requantization::SingleRounding, false, 1, 1);
  std::vector<Case> cases;
  for (const std::vector<const char*>& labels :
       {std::vector{"net0_in0", "cmsis", "q", "net0_out0"},
        {"net1_step", "code", "dot_8", "x"},
        {"concept", "linux", "a", "NULL"},
        {"a b", "a_b", "a-b", "status"},
        {"context", "/* q */", "*/ /*", "arena"}}) {
    IntegerProgram program(from.requantization());
    for (const ProgramNodeId id : ids(from)) {
      const IntegerNode& node = from[id];
      program.add(node.op, node.operands, labels[at(id)]);
    }
    program.set_outputs({from.outputs().begin(), from.outputs().end()});
    cases.push_back({fmt::format("net{}", cases.size()), program});
  }
  CHECK(differences(cases, strict, 2) == "");
  const std::string header = write_c_program(cases[2].program, "net").header;
  CHECK(header.find("const float *concept_value, int8_t *NULL_value)") != std::string::npos);
}

TEST_CASE("C programs: self-tests of programs without steps compile") {
  const test::Folder folder;
  for (int32_t size : {1, 2}) {
    IntegerProgram program = test::first_nodes(test::small_program(), size);
    program.set_outputs({ProgramNodeId{size - 1}});
    const CProgram written = write_c_program(program, "net");
    write_file(folder.file("net.h"), written.header);
    write_file(folder.file("net.c"), written.source);
    const std::vector<float> x = {1, 2, 3, 4, 5, 6};
    const CSelfTestOptions test{.inputs = 9, .samples = {{Tensor::of<float>({2, 3}, x)}}};
    write_file(folder.file("net_test.c"), write_c_self_test(program, written, "net", test));
    std::vector<std::string> arguments = c_standard();
    arguments.insert(arguments.begin(), "cc");
    arguments.insert(arguments.end(), {"-o", folder.file("net")});
    arguments.insert(arguments.end(), strict.flags.begin(), strict.flags.end());
    arguments.insert(arguments.end(), {folder.file("net.c"), folder.file("net_test.c")});
    CHECK(run_program(arguments).output == "");
    const auto tested = run_program({folder.file("net")});
    if (test::not_started(tested.exit_code)) return;
    CHECK(tested.output == "net: 0 constants, 9 inputs, 1 samples: all as expected\n");
  }
}

TEST_CASE("C programs: verification runs them as a level, and counts what differs") {
  test::Settled net(test::conv_net(4), 4);
  for (Requantization requantization : requantization::values) {
    VerifyOptions options;
    options.convert.requantization = requantization;
    options.batch = 5;
    options.levels = {c_level};
    options.runners = c_levels();
    Verifier verifier(net.graph, net.parameters, options);
    CHECK(verifier.levels() == std::vector{Level::Reference, c_level});
    test::fill_wild(verifier.input(), 3);
    verifier.run(4);
    CHECK(test::mismatch(verifier) == "");
    int64_t told = 0;
    for (const LayerComparison& layer : verifier.layers()) {
      CHECK(!layer.differences.contains(Level::Float));
      told += layer.differences.contains(c_level) ? 1 : 0;
    }
    CHECK(told >= 2);
    CHECK_THROWS_AS((void)verifier.output(Level::Exact), ArgumentError);
  }
}

TEST_CASE(
    "C programs: memory is as large as what is in use at once, and no value lies outside") {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const Case each = case_of(test::conv_net(seed), "conv", seed, false);
    const CProgram written = write_c_program(each.program, each.name);
    CHECK(written.arena_bytes >= written.live_bytes);
    // Rounding up to 8 bytes, for at most four buffers at once.
    CHECK(written.arena_bytes <= written.live_bytes + 4 * c_alignment);
  }
}

TEST_CASE("C programs: names that are no C identifiers are refused") {
  const IntegerProgram program = case_of(test::random_net(1), "net", 1, false).program;
  const std::string long_name(64, 'a');
  const auto refused = [&](const std::string& name, const std::string& text) {
    CHECK(test::error_text<ArgumentError>([&] { (void)write_c_program(program, name); }) ==
          fmt::format("'{}' cannot be the prefix of C names: {}", name, text));
  };
  refused("", "it is empty");
  refused("3d", "it begins with a digit");
  refused("a-b", "it contains '-'");
  refused("String", "it is the name of a header of the C library");
  refused(long_name, "it has more than 63 characters");
  refused("_net", "names that begin with an underscore are reserved for compilers");
  refused("a_test", "names that end in _test are reserved for self-tests");
  refused("while", "it is a keyword of C or C++");
  refused("main", "it is the entry point of programs");
  CHECK(
      test::error_text<ArgumentError>([&] { (void)write_c_program(program, "n\xc3\xa9"); }) ==
      "'n\?\?' cannot be the prefix of C names: it contains characters other than ASCII letters, digits and underscores");
  CHECK(write_c_program(program, "Net_2").steps.size() > 0);
}

TEST_CASE("C programs: a compiler that is missing or fails says so") {
  const CUnit unit{
      "net", write_c_program(case_of(test::random_net(1), "net", 1, false).program, "net")};
  const auto error = [&](const CCompiler& compiler) {
    return test::error_text<Error>([&] { CLibrary(std::span(&unit, 1), compiler); });
  };
  if (test::emulated()) return test::skip("a program that cannot start, under an emulator");
  CHECK(error({.command = "no-such-compiler"}) ==
        "cannot run no-such-compiler: No such file or directory");
  CHECK(error({.flags = {"-DNET_H", "-O0"}}).starts_with("cc ended with 1: "));
}

}  // namespace

TEST_CASE("C programs: samples of self-tests that do not fit the inputs are refused") {
  const IntegerProgram program = test::small_program();
  const CProgram written = write_c_program(program, "net");
  const auto refusal = [&](GoldenSample sample) {
    return test::error_text<ArgumentError>([&] {
      (void)write_c_self_test(program, written, "net", {.samples = {std::move(sample)}});
    });
  };
  const std::vector<float> x(6);
  CHECK(refusal({}) == "a sample of a self-test: expected a tensor for each input, 1, got 0");
  CHECK(
      refusal({Tensor::of<float>({5}, std::span(x).first(5))}) ==
      "a sample of a self-test: input 'x' must be f32[2, 3] in 24 bytes, got f32[5] in 20 bytes");
  CHECK(
      refusal({Tensor{{DType::F32, {2, 3}}, {}}}) ==
      "a sample of a self-test: input 'x' must be f32[2, 3] in 24 bytes, got f32[2, 3] in 0 bytes");
}

TEST_CASE("C programs: inputs without a batch are the same for all samples") {
  const FakeQuantize grid{.scale_mode = Fixed{}};
  test::Net net({4, 3});
  const NodeId shared = net.add(Input{.shape = {3}, .batch = false}, {}, "shared");
  const NodeId a = net.quantized(net.x, grid, "a"), b = net.quantized(shared, grid, "b");
  const NodeId sum = net.quantized(net.add(Add{}, {a, b}), grid, "sum");
  net.graph.set_outputs({sum});
  const Parameters parameters = net.with_scales({{a, 0.5}, {b, 0.25}, {sum, 0.125}});
  Verifier verifier(net.graph, parameters,
                    {.batch = 4, .levels = {Level::Reference, c_level}, .runners = c_levels()});
  for (size_t i = 0; i < verifier.inputs().size(); ++i) {
    std::span<float> values = verifier.input(i);
    for (size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k);
  }
  verifier.run(4);
  CHECK(test::mismatch(verifier) == "");
}
