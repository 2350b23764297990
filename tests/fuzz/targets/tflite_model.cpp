// Models of TensorFlow Lite, as models that are written, read and converted.
#include <algorithm>
#include <iterator>

#include "qtape/deploy/convert.h"
#include "qtape/engine/serialize.h"
#include "qtape/model/passes/last_softmax.h"
#include "qtape/tests/fuzz/seeds.h"
#include "qtape/tests/fuzz/target.h"
#include "qtape/tests/tflite/random_program.h"
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
  std::ranges::move(test::tflite_programs::written_programs(), std::back_inserter(all));
  return all;
}

const fuzz::Target target("tflite_model", read, models);

}  // namespace
