// Models of TensorFlow Lite: programs that are written and read again, and files with errors.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "qtape/io/files.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/tflite/random_program.h"
#include "qtape/tflite/export.h"
#include "qtape/tflite/import.h"
#include "qtape/tflite/import/layers.h"
#include "qtape/tflite/schema.h"

using namespace qtape;
using namespace qtape::tflite;
using namespace qtape::test::tflite_programs;
using test::error_text;

namespace {

std::string read_error(const TfliteModel& model) {
  return error_text<FormatError>([&] { (void)parse_tflite(model_bytes(model)); });
}

/// Returns the codes of a node for samples that use the whole range of the input.
std::vector<int32_t> codes_of(const IntegerProgram& program, std::string_view label) {
  return test::tflite_programs::codes_of(run(program), program.at(label));
}

}  // namespace

TEST_CASE("tflite: a program that is written and read has the same codes in every tensor") {
  const IntegerProgram program = all_layers();
  const IntegerProgram read = parse_tflite(to_tflite(program));
  CHECK(read.requantization() == Requantization::DoubleRounding);
  for (const std::string label : {"x.codes", "conv", "depthwise", "pointwise", "sum", "largest",
                                  "mean", "channels", "flat", "wide", "narrow", "softmax"}) {
    CAPTURE(label);
    CHECK(read[read.at(label)].value == program[program.at(label)].value);
    CHECK(codes_of(read, label) == codes_of(program, label));
  }
}

TEST_CASE("tflite: what is read is written with the same bytes") {
  const std::string bytes = to_tflite(all_layers());
  CHECK(to_tflite(parse_tflite(bytes)) == bytes);
}

TEST_CASE("tflite: random programs that are written and read have the same codes") {
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    CAPTURE(seed);
    const IntegerProgram program = random_program(seed, static_cast<Codes>(seed % 3));
    const IntegerProgram read = parse_tflite(to_tflite(program));
    for (const IntegerNode& node : program.nodes()) {
      if (!node.value.is_codes() || node.label.empty()) continue;
      CAPTURE(node.label);
      CHECK(read[read.at(node.label)].value.scales == node.value.scales);
      CHECK(codes_of(read, node.label) == codes_of(program, node.label));
    }
  }
}

TEST_CASE("tflite: poolings along one axis, and with padding that changes no maximum") {
  const auto pooled = [](Shape sample, MaxPool op, int32_t low) {
    Layers net(1, sample, 0.02, -5);
    net.add(integer::Requantize{{.scale = 0.02f, .zero_point = -5, .low = low}}, "limited");
    net.add(integer::Structure<MaxPool>{std::move(op)}, "largest");
    return net.finished();
  };
  const MaxPool row{.kernel = {3}, .stride = {2}};
  const MaxPool stem{.kernel = {3, 3},
                     .stride = {2, 2},
                     .padding = Padding::Explicit,
                     .pads_begin = {1, 1},
                     .pads_end = {1, 1}};
  for (const IntegerProgram& program :
       {pooled({1, 9, 3}, row, -128), pooled({1, 8, 8, 3}, stem, -5)}) {
    const IntegerProgram read = parse_tflite(to_tflite(program));
    CHECK(codes_of(read, "largest") == codes_of(program, "largest"));
  }
  CHECK(error_text<GraphError>([&] {
          (void)to_tflite(pooled({1, 8, 8, 3}, stem, -128));
        }).ends_with("codes of its border would change results"));
}

TEST_CASE("tflite: files that are cut or changed give an error or a program") {
  check_damaged(to_tflite(all_layers()),
                [](const std::string& bytes) { return parse_tflite(bytes); });
}

TEST_CASE(
    "tflite: inputs with limited codes are noted, and zero points before rounding refused") {
  const auto program = [](CodeGrid codes, ZeroPoint zero_point) {
    IntegerProgram made(Requantization::DoubleRounding);
    const integer::Quantize quantize{.grid = codes, .zero_point = zero_point};
    ProgramNodeId last = made.add(integer::Input{{1, 4}, true}, {}, "x");
    last = made.add(quantize, {last}, "codes");
    made.set_outputs({made.add(integer::Dequantize{}, {last}, "y")});
    return made;
  };
  const auto notes_of = [&](const CodeGrid& codes) {
    std::vector<std::string> notes;
    (void)to_tflite(program(codes, ZeroPoint::AfterRounding), &notes);
    return notes;
  };
  const CodeGrid whole{.scale = 0.5};
  CHECK(notes_of(whole)[0] == "input 'x': INT8, scale 0.5, zero point 0");
  const CodeGrid narrow{.scale = 0.5, .low = -127};
  CHECK(notes_of(narrow)[0] ==
        "input 'x': INT8, scale 0.5, zero point 0, limited to -127..127: limit the codes where "
        "they are made, as TensorFlow Lite Micro does not");
  const CodeGrid four{.dtype = DType::U8, .scale = 0.5, .low = 0, .high = 15};
  CHECK(notes_of(four)[0].find("zero point -128, limited to -128..-113: ") !=
        std::string::npos);
  CHECK(error_text<GraphError>(
            [&] { (void)to_tflite(program(four, ZeroPoint::BeforeRounding)); }) ==
        "Quantize 'codes': adds the zero point of unsigned codes before it rounds; "
        "expected signed codes");
}

TEST_CASE("tflite: all operators that are not supported are named at once") {
  TfliteModel model = parse_model(to_tflite(all_layers()));
  model.operators[0].op = Builtin::Sub;
  model.operators[2].version = 99;
  const std::string text = read_error(model);
  CHECK(
      text ==
      "2 problems: operators[0] SUB 'conv': the operator is not supported; operators[2] CONV_2D "
      "'pointwise': has version 99, expected 1 to 8");
}

TEST_CASE("tflite: tensors that operators cannot have") {
  const TfliteModel model = parse_model(to_tflite(all_layers()));
  const auto changed = [&](const auto& change) {
    TfliteModel copy = model;
    change(copy);
    return read_error(copy);
  };
  const auto weights = static_cast<size_t>(model.operators[0].inputs[1]);
  CHECK(changed([&](TfliteModel& m) { m.tensors[weights].zero_points[1] = 3; }) ==
        "operators[0] CONV_2D 'conv': weights 'conv/weights' have the zero point 3, "
        "expected 0");
  CHECK(changed([&](TfliteModel& m) { m.tensors[weights].scales[0] = 0; }).find("scale") !=
        std::string::npos);
  CHECK(changed([&](TfliteModel& m) { m.inputs = {}; }) == "there are no inputs");
  CHECK(changed([&](TfliteModel& m) { m.operators[0].inputs[1] = 1000; }) ==
        "subgraphs[0].operators[0].inputs: 1000 is not one of 23 tensors");
  CHECK(changed([&](TfliteModel& m) {
          m.tensors[0].type = TfliteType::UInt8;
        }).find("is UINT8, expected INT8") != std::string::npos);
}

TEST_CASE("tflite: programs that TensorFlow Lite Micro does not compute are refused by name") {
  Layers net(3, {1, 4, 4, 2}, 0.02, 0);
  net.add(integer::AvgPool{AvgPool{.kernel = {3, 1}}}, "sums");
  net.add(integer::Requantize{grid(0.03, 0)}, "means");
  CHECK(
      error_text<GraphError>([&] { (void)to_tflite(net.finished()); }) ==
      "Requantize 'means': divides by 3, expected a power of 2: TensorFlow Lite rounds 1/3 to "
      "f32");
  Layers narrow(3, {1, 4, 4, 2}, 0.02, 0);
  narrow.conv("conv", 2, {1, 1}, Padding::Valid, 1, grid(0.03, 0, -127));
  CHECK(error_text<GraphError>([&] {
          (void)to_tflite(narrow.finished());
        }).find("codes are limited to -127..127, expected -128..127") != std::string::npos);
  Layers means(3, {1, 4, 4, 2}, {.dtype = DType::U8, .scale = 0.5, .low = 0, .high = 255});
  integer::MeanPool pool;
  pool.kernel = {2, 2};
  means.add(pool, "pool");
  CHECK(error_text<GraphError>([&] { (void)to_tflite(means.finished()); }) ==
        "MeanPool 'pool': rounds means of unsigned codes, halves away from the code 0, but "
        "TensorFlow Lite Micro those of codes minus 128; expected signed codes");
  CHECK(error_text<GraphError>([&] {
          (void)to_tflite(IntegerProgram(Requantization::OnnxQdq));
        }).find("expected DoubleRounding") != std::string::npos);
}

TEST_CASE("tflite: docs/limits.md lists the operators") {
  const std::string page = read_file(fmt::format("{}/docs/limits.md", QTAPE_SOURCE), 1 << 20);
  const size_t begin = page.find("| operators of programs |");
  REQUIRE(begin != std::string::npos);
  const std::string row = page.substr(begin, page.find('\n', begin) - begin);
  std::ptrdiff_t listed = 0;
  for (const auto family : tflite::all_readers()) {
    for (const tflite::OperatorReader& each : family) {
      const std::string name = fmt::format("`{}`", tflite::name_of(each.op));
      CAPTURE(name);
      CHECK((row.find(name) != std::string::npos) == each.in_programs);
      listed += each.in_programs ? 1 : 0;
    }
  }
  CHECK(std::ranges::count(row, '`') == 2 * listed);
}
