// Codes of 16 bits and weights of 4 bits in models of TensorFlow Lite.
#include <doctest/doctest.h>

#include "qtape/integer/program/session.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/tflite/random_program.h"
#include "qtape/tflite/export.h"
#include "qtape/tflite/import.h"
#include "qtape/tflite/schema.h"

using namespace qtape;
using namespace qtape::tflite;
using namespace qtape::test::tflite_programs;
using test::error_text;

namespace {

/// A convolution, a sum and a layer of codes of 16 bits.
IntegerProgram wide_layers(const CodeGrid& last = wide_grid(0.004)) {
  Layers net(4, {1, 5, 4, 3}, wide_grid(0.0001));
  net.conv("conv", 3, {3, 3}, Padding::Same, 1, wide_grid(0.0003));
  net.last = net.program.add(integer::Add{wide_grid(0.0005)}, {net.last, net.last}, "sum");
  net.flatten("flat");
  net.linear("fc", 4, false, last);
  return net.finished();
}

const TfliteTensor& tensor_of(const TfliteModel& model, std::string_view name) {
  return *std::ranges::find(model.tensors, name, &TfliteTensor::name);
}

template <class O>
const O& options_of(const TfliteModel& model, Builtin op) {
  return std::get<O>(std::ranges::find(model.operators, op, &TfliteOperator::op)->options);
}

/// Returns the error of reading `wide_layers` with a change.
template <class Change>
std::string changed_error(const Change& change) {
  TfliteModel model = parse_model(to_tflite(wide_layers()));
  change(model);
  return error_text<FormatError>([&] { (void)parse_tflite(model_bytes(model)); });
}

TfliteTensor& tensor_of(TfliteModel& model, std::string_view name) {
  return *std::ranges::find(model.tensors, name, &TfliteTensor::name);
}

}  // namespace

TEST_CASE("tflite: layers of 16 bits have the types of TensorFlow Lite") {
  const TfliteModel model = parse_model(to_tflite(wide_layers()));
  CHECK(tensor_of(model, "conv").type == TfliteType::Int16);
  CHECK(tensor_of(model, "conv/weights").type == TfliteType::Int8);
  CHECK(tensor_of(model, "conv/bias").type == TfliteType::Int64);
  CHECK(options_of<Conv2dOptions>(model, Builtin::Conv2d).bias_type == TfliteType::Int64);
  CHECK_FALSE(options_of<AddOptions>(model, Builtin::Add).shifts_int16);
  CHECK(options_of<FullyConnectedOptions>(model, Builtin::FullyConnected).bias_type ==
        TfliteType::Int64);
}

TEST_CASE("tflite: sums of 16-bit codes in 32 bits are refused by name") {
  CHECK(changed_error([](TfliteModel& model) {
          TfliteTensor& bias = tensor_of(model, "fc/bias");
          bias.type = TfliteType::Int32;
          model.buffers[bias.buffer].resize(16);
        }) ==
        "operators[3] FULLY_CONNECTED 'fc': biases 'fc/bias' are INT32, which sums INT16 codes "
        "in 32 bits, expected INT64");
  CHECK(changed_error([](TfliteModel& model) {
          model.operators[0].inputs[2] = -1;
          std::get<Conv2dOptions>(model.operators[0].options).bias_type = TfliteType::Int32;
        }) ==
        "operators[0] CONV_2D 'conv': sums INT16 codes in 32 bits (quantized_bias_type), "
        "expected 64");
  CHECK(changed_error([](TfliteModel& model) {
          auto& codes = model.buffers[tensor_of(model, "fc/bias").buffer];
          std::ranges::fill(codes, std::byte{1});
        }) ==
        "operators[3] FULLY_CONNECTED 'fc': biases 'fc/bias' have the code 72340172838076673, "
        "expected 32 bits");
}

TEST_CASE("tflite: codes of 16 bits have the zero point 0, and weights of 8 bits") {
  CHECK(changed_error([](TfliteModel& model) {
          tensor_of(model, "sum").zero_points[0] = 5;
        }).find("tensor 'sum' has the zero point 5, expected 0, as INT16 requires") !=
        std::string::npos);
  CHECK(changed_error([](TfliteModel& model) {
          TfliteTensor& weights = tensor_of(model, "fc/weights");
          weights.type = TfliteType::Int4;
          model.buffers[weights.buffer].resize(120);
        }) ==
        "operators[3] FULLY_CONNECTED 'fc': weights 'fc/weights' are INT4, expected INT8 for "
        "codes of INT16");
  CHECK(changed_error(
            [](TfliteModel& model) { tensor_of(model, "fc").type = TfliteType::Int8; }) ==
        "operators[3] FULLY_CONNECTED 'fc': input 0 is INT16, expected INT8 as the output");
}

TEST_CASE("tflite: functions of 16-bit codes are refused by name") {
  for (const Builtin function : {Builtin::Logistic, Builtin::LeakyRelu, Builtin::HardSwish}) {
    CHECK(changed_error([&](TfliteModel& model) {
            TfliteOperator& op = model.operators[2];
            op = {.op = function, .inputs = op.inputs, .outputs = op.outputs, .options = {}};
          }).find("tensor 'sum' is INT16, expected INT8") != std::string::npos);
  }
}

TEST_CASE("tflite: a softmax of 16-bit codes is part of models, not of programs") {
  TfliteModel model = parse_model(to_tflite(wide_layers()));
  TfliteTensor answer = tensor_of(model, "fc");
  answer.name = "answer";
  answer.scales = {1.0f / 32768};
  model.tensors.push_back(answer);
  model.operators.push_back({.op = Builtin::Softmax,
                             .inputs = model.outputs,
                             .outputs = {static_cast<int32_t>(model.tensors.size()) - 1},
                             .options = SoftmaxOptions{.beta = 1}});
  model.outputs = model.operators.back().outputs;
  const std::string bytes = model_bytes(model);
  CHECK(error_text<FormatError>([&] { (void)parse_tflite(bytes); }) ==
        "operators[4] SOFTMAX 'answer': has codes of s16, expected s8");
  const SavedModel read = parse_tflite_model(bytes);
  CHECK(std::holds_alternative<qtape::Softmax>(read.graph[read.graph.answers()[0]].op));
}

TEST_CASE("tflite: multipliers of 16-bit codes from 128 on are refused") {
  CHECK(changed_error([](TfliteModel& model) {
          tensor_of(model, "conv").scales[0] = 1e-9f;
        }).find("its sums are multiplied by") != std::string::npos);
  CHECK(changed_error([](TfliteModel& model) {
          tensor_of(model, "conv").scales[0] = 2e-8f;
        }).find("its sums reach") != std::string::npos);
}

TEST_CASE("tflite: programs whose layers change the type of codes are refused") {
  CHECK(error_text<GraphError>([] { (void)to_tflite(wide_layers(grid(1, 0))); }) ==
        "Requantize 'fc': makes s8 of s16, but TensorFlow Lite Micro changes the type of codes "
        "in QUANTIZE alone");
  CodeGrid affine = wide_grid(0.004);
  affine.zero_point = 7;
  CHECK(
      error_text<GraphError>([&] { (void)to_tflite(wide_layers(affine)); }) ==
      "Requantize 'fc': codes of 16 bits have the zero point 7, expected 0: calibrate with --signed-activations");
}

TEST_CASE("tflite: weights of 4 bits are INT4 where there is a kernel, others are named") {
  Layers net(6, {1, 5, 4, 3}, 0.02, 3);
  net.weight_bits = 4;
  net.conv("conv", 5, {3, 3}, Padding::Same, 1, grid(0.05, -128));
  net.flatten("flat");
  net.linear("rounded", 6, true, grid(0.7, 0));
  net.linear("by output", 3, false, grid(0.7, 0));
  std::vector<std::string> notes;
  const IntegerProgram program = net.finished();
  const std::string bytes = to_tflite(program, &notes);
  const TfliteModel model = parse_model(bytes);
  const TfliteTensor& weights = tensor_of(model, "conv/weights");
  CHECK(weights.type == TfliteType::Int4);
  // 135 codes in pairs.
  CHECK(model.buffers[weights.buffer].size() == 68);
  CHECK(tensor_of(model, "rounded/weights").type == TfliteType::Int4);
  CHECK(tensor_of(model, "by output/weights").type == TfliteType::Int8);
  REQUIRE(notes.size() == 3);
  CHECK(notes[2] ==
        "by output: weights of 4 bits are written as INT8: TensorFlow Lite Micro has no "
        "FULLY_CONNECTED of INT4 with a scale for each output");
  const IntegerProgram read = parse_tflite(bytes);
  const auto& conv = std::get<integer::Conv>(read[read[read.at("conv")].operands[0]].op);
  CHECK(conv.weights.storage_bits == 4);
  CHECK(conv.weights.unpacked() ==
        std::get<integer::Conv>(program[program.at("conv/weights")].op).weights.unpacked());
}

TEST_CASE("tflite: weights of 4 bits of one scale are INT4 where no product is rounded") {
  for (const float scale : {0.25f, 0.3f}) {
    Layers net(7, {1, 6}, grid(0.1, 0));
    integer::Linear op;
    op.weights = pack_weights(net.numbers.codes(12, 4), {2, 6}, 4, std::span(&scale, 1), {},
                              net.value());
    net.add(std::move(op), "fc");
    net.add(integer::Requantize{grid(0.7, 0)}, "next.quantized");
    std::vector<std::string> notes;
    const IntegerProgram program = net.finished();
    const std::string bytes = to_tflite(program, &notes);
    const TfliteModel model = parse_model(bytes);
    const TfliteTensor& weights = tensor_of(model, "fc/weights");
    CAPTURE(scale);
    CHECK((weights.type == TfliteType::Int4) == (scale == 0.25f));
    if (scale != 0.25f) {
      CHECK(notes.back() ==
            "fc: weights of 4 bits are written as INT8: TensorFlow Lite Micro would round the "
            "product of the scales of weights and operand to f32, unless one is a power of 2");
    }
    CHECK(to_tflite(parse_tflite(bytes)) == bytes);
  }
}

TEST_CASE("tflite: a layer that two quantizers round to one grid is written once") {
  Layers net(8, {1, 5, 4, 3}, grid(0.02, 3));
  net.conv("conv", 5, {3, 3}, Padding::Same, 1, grid(0.05, -128));
  const ProgramNodeId sums = net.program[net.last].operands[0];
  const ProgramNodeId again =
      net.program.add(integer::Requantize{grid(0.05, -128)}, {sums}, "again");
  net.last = net.program.add(integer::Add{grid(0.1, 0)}, {net.last, again}, "sum");
  const TfliteModel model = parse_model(to_tflite(net.finished()));
  CHECK(std::ranges::count(model.operators, Builtin::Conv2d, &TfliteOperator::op) == 1);
}

TEST_CASE("tflite: nodes after a refused one, and outputs that are sums, are listed as well") {
  Layers net(9, {1, 4}, grid(0.02, 3));
  const ProgramNodeId x = net.last;
  net.last = net.program.add(integer::Sub{grid(0.1, 0)}, {x, x});
  net.last = net.program.add(integer::Sub{grid(0.1, 0)}, {net.last, x});
  net.linear("fc", 2, false, grid(0.7, 0));
  net.program.set_outputs({net.last, net.program[net.last].operands[0]});
  const std::string none =
      "Sub is not written as an operator of TensorFlow Lite Micro: `qtape export c` writes all "
      "ops";
  CHECK(
      error_text<GraphError>([&] { (void)to_tflite(net.program); }) ==
      "3 problems: Sub %2 (%1 'x.codes' s8[1, 4], %1 'x.codes' s8[1, 4]), Sub 'fc/weights': " +
          none + "; output Linear 'fc/weights': is not codes; quantize it in the model");
}

TEST_CASE("tflite: options of a type that is not read are refused") {
  const std::string bytes = to_tflite(wide_layers());
  constexpr char unread = 101;
  int64_t found = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    if (bytes[at] != AddOptions::union_type) continue;
    std::string changed = bytes;
    changed[at] = unread;
    try {
      if (!parse_model(changed).operators[1].has_other_options) continue;
    } catch (const FormatError&) {
      continue;
    }
    ++found;
    CHECK(
        error_text<FormatError>([&] { (void)parse_tflite(changed); }) ==
        "operators[1] ADD 'sum': has options of another operator, expected those of number 11");
  }
  CHECK(found > 0);
}
