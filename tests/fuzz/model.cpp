// Model files, which are written back as they were read.
#include "qtape/engine/serialize.h"
#include "qtape/tests/fuzz/reads.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return qtape::fuzz::reads(data, size, [](std::string_view bytes) {
    const qtape::SavedModel model = qtape::model_from_json(bytes);
    const std::string text = qtape::to_json(model.graph, model.parameters);
    const qtape::SavedModel again = qtape::model_from_json(text);
    qtape::fuzz::require_equal(qtape::to_json(again.graph, again.parameters) == text);
  });
}
