#include <doctest/doctest.h>
#include <fmt/format.h>

#include "qtape/core/random.h"
#include "qtape/engine/serialize.h"
#include "qtape/io/files.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/integer_programs.h"
#include "qtape/tests/support/models.h"

using namespace qtape;

namespace {

std::string error_of(const std::string& text) {
  return test::error_text<FormatError>([&] { (void)program_from_json(text); });
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

/// Returns the error for the small program's file with `from` replaced by `to`.
std::string damage(const std::string& from, const std::string& to) {
  return error_of(replaced(to_json(test::small_program()), from, to));
}

}  // namespace

TEST_CASE("integer program: text comes back as the program, and the program as the text") {
  const IntegerProgram small = test::small_program();
  CHECK(program_from_json(to_json(small)) == small);
  CHECK(to_json(program_from_json(to_json(small))) == to_json(small));
}

TEST_CASE("integer program: weights and biases that were touched break the certificate") {
  const std::string prefix =
      "/program/2: Linear %2 'fc' (%1 'q' u8[2, 3]): the certificate does not hold: ";
  CHECK(damage("Bf0CBwD3", "Bf0CBwD0").starts_with(prefix));
  CHECK(damage("ZAAAAOz///8=", "ZAAAAOv///8=").starts_with(prefix));
  CHECK(damage("\"pair_bound\":", "\"pair_bound\":1").starts_with(prefix));
}

TEST_CASE("integer program: faults in the text are named by a JSON pointer") {
  CHECK(error_of("") == "/: is not JSON: unexpected or missing text at byte 1");
  CHECK(error_of("[]") == "/: expected an object, got an array");
  CHECK(error_of("{}") == "/: \"format\" is missing");
  CHECK(damage("\"qtape\"", "\"onnx\"") == "/format: expected \"qtape\", got \"onnx\"");
  CHECK(damage("\"version\": 2", "\"version\": 1") == "/version: expected 2, got 1");
  CHECK(
      damage("\"requantization\"", "\"requantizations\"") ==
      "/requantizations: unknown key; expected one of format, outputs, program, requantization, version");
  CHECK(damage("\"requantization\": \"SingleRounding\",", "") ==
        "/: \"requantization\" is missing");
  CHECK(damage("\"SingleRounding\"", "\"Triple\"") ==
        fmt::format("/requantization: unknown value \"Triple\"; expected one of {}",
                    fmt::join(enum_names<Requantization>, ", ")));
  std::vector<std::string_view> ops;
  for_each_alternative<IntegerOp>([&]<class X>() { ops.push_back(X::name); });
  CHECK(damage("\"Dequantize\"", "\"Relu\"") ==
        fmt::format("/program/3/op: unknown value \"Relu\"; expected one of {}",
                    fmt::join(ops, ", ")));
  CHECK(damage("\"zero_point\":7", "\"zero_point\":7.5") ==
        "/program/1/op/Quantize/grid/zero_point: expected an integer, got 7.5");
  CHECK(damage("\"outputs\": [3]", "\"outputs\": [4]") ==
        "/outputs: node %4 does not exist; the program has 4 nodes");
  CHECK(damage("\"label\":\"x\"", "\"name\":\"x\"") ==
        "/program/0/name: unknown key; expected one of label, op, operands");
  CHECK(damage("\"storage_bits\":8", "\"storage_bits\":16") ==
        "/program/2: Linear %2 'fc' (%1 'q' u8[2, 3]): storage_bits must be 2, 4 or 8, got 16");
  CHECK(damage("[2,3],\"storage_bits\"", "[2,-3],\"storage_bits\"") ==
        "/program/2/op/Linear/weights/shape: extent -3 of shape [2, -3] is negative");
}

TEST_CASE("integer program: a model is no program, and a program no model") {
  const test::Classifier c = test::make_classifier();
  const Parameters parameters(c.graph, 1);
  CHECK(error_of(to_json(c.graph, parameters)) ==
        "/nodes: the file holds a model, not an integer program");
  CHECK(test::error_text<FormatError>([] {
          (void)model_from_json(to_json(test::small_program()));
        }) == "/program: the file holds an integer program, not a model");
}

TEST_CASE("integer program: files") {
  const test::Folder folder;
  const std::string path = folder.file("p.json");
  save_program(path, test::small_program());
  CHECK(load_program(path) == test::small_program());
  CHECK(read_file(path, 1 << 20) == to_json(test::small_program()));
  write_file(path, "{}");
  CHECK(test::error_text<FormatError>([&] { (void)load_program(path); }) ==
        path + ": /: \"format\" is missing");
  CHECK(test::error_text<IoError>([&] {
          (void)load_program(folder.file("none.json"));
        }).starts_with(folder.file("none.json") + ": "));
  IntegerProgram program;
  program.add(integer::Input{.shape = {1}}, {}, "\xff");
  CHECK(test::error_text<FormatError>([&] { (void)to_json(program); }) ==
        "/: the label '\\xff' is not UTF-8");
}

TEST_CASE("integer program: every truncation and every damaged byte is refused or harmless") {
  for (const std::string& text : {to_json(test::small_program()),
                                  to_json(test::Settled(test::random_net(301), 1).program())}) {
    for (size_t size = 0; size + 2 < text.size(); size += 5) {
      CHECK(error_of(text.substr(0, size)).starts_with("/"));
    }
    const Random random(1, 1);
    std::string odd;
    for (uint64_t i = 0; i < 2000; ++i) {
      std::string damaged = text;
      damaged[random.below(2 * i, text.size())] =
          static_cast<char>(random.below(2 * i + 1, 256));
      try {
        const IntegerProgram program = program_from_json(damaged);
        if (program_from_json(to_json(program)) != program) odd += damaged;
      } catch (const FormatError& error) {
        if (!std::string_view(error.what()).starts_with("/")) odd += error.what();
      }
    }
    CHECK(odd == "");
  }
}
