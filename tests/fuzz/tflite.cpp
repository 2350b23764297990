// Models of TensorFlow Lite, as programs and as models: what can be written again can be read.
#include "qtape/deploy/convert.h"
#include "qtape/engine/serialize.h"
#include "qtape/integer/program/integer_program.h"
#include "qtape/model/passes/last_softmax.h"
#include "qtape/tests/fuzz/seeds.h"
#include "qtape/tests/fuzz/target.h"
#include "qtape/tflite/export.h"
#include "qtape/tflite/import.h"

namespace {

using namespace qtape;

/// Returns the file of the program in a file; empty if it is refused.
std::string written_again(std::string_view bytes) {
  try {
    return to_tflite(parse_tflite(bytes));
  } catch (const Error&) {
    return "";
  }
}

void read(std::string_view bytes) {
  const std::string written = written_again(bytes);
  if (!written.empty()) fuzz::accepted([&] { return parse_tflite(written); });
  const SavedModel model = parse_tflite_model(bytes);
  const std::string text = to_json(model.graph, model.parameters);
  const auto again = [&] { return model_from_json(text); };
  fuzz::require_equal(fuzz::accepted(again).graph == model.graph);
  (void)convert(without_last_softmaxes(model.graph), model.parameters,
                Requantization::DoubleRounding);
}

std::vector<std::string> models() {
  std::vector<std::string> all = fuzz::files("fuzz/corpus/tflite");
  std::ranges::move(
      fuzz::written_programs([](const IntegerProgram& program) { return to_tflite(program); }),
      std::back_inserter(all));
  return all;
}

const fuzz::Target target("tflite", read, models);

}  // namespace
