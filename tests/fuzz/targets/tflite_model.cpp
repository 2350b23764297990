// Models of TensorFlow Lite, as models that are written, read and converted.
#include "qtape/deploy/convert.h"
#include "qtape/engine/serialize.h"
#include "qtape/integer/program/integer_program.h"
#include "qtape/model/passes/last_softmax.h"
#include "qtape/tests/fuzz/seeds.h"
#include "qtape/tests/fuzz/target.h"
#include "qtape/tests/tflite/random_program.h"
#include "qtape/tests/tflite/tflite_programs.h"
#include "qtape/tflite/export.h"
#include "qtape/tflite/import.h"

namespace {

using namespace qtape;

void read(std::string_view bytes) {
  const SavedModel model = parse_tflite_model(bytes);
  const std::string text = to_json(model.graph, model.parameters);
  const auto again = [&] { return model_from_json(text); };
  fuzz::require_equal(fuzz::accepted(again).graph == model.graph);
  (void)convert(without_last_softmaxes(model.graph), model.parameters,
                Requantization::DoubleRounding);
}

std::vector<std::string> models() {
  std::vector<std::string> all = fuzz::files("fuzz/corpus/tflite_model");
  all.push_back(to_tflite(test::tflite_programs::all_layers()));
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    all.push_back(to_tflite(test::tflite_programs::random_program(
        seed, static_cast<test::tflite_programs::Codes>(seed % 3))));
  }
  return all;
}

const fuzz::Target target("tflite_model", read, models);

}  // namespace
