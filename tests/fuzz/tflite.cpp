// Models of TensorFlow Lite, as programs and as models: what can be written again can be read.
#include "qtape/core/error.h"
#include "qtape/deploy/convert.h"
#include "qtape/engine/serialize.h"
#include "qtape/integer/program/integer_program.h"
#include "qtape/model/passes/last_softmax.h"
#include "qtape/tests/fuzz/reads.h"
#include "qtape/tflite/export.h"
#include "qtape/tflite/import.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace qtape;
  (void)fuzz::reads(data, size, [](std::string_view bytes) {
    const IntegerProgram program = parse_tflite(bytes);
    const std::string written = to_tflite(program);
    (void)parse_tflite(written);
  });
  return fuzz::reads(data, size, [](std::string_view bytes) {
    const SavedModel model = parse_tflite_model(bytes);
    const std::string text = to_json(model.graph, model.parameters);
    fuzz::require_equal(model_from_json(text).graph == model.graph);
    (void)convert(without_last_softmaxes(model.graph), model.parameters,
                  Requantization::DoubleRounding);
  });
}
