// Checkpoints, from which a run continues for two steps: resumed, or refused by an error.
#include "qtape/data/dataset.h"
#include "qtape/model/fit.h"
#include "qtape/model/model.h"
#include "qtape/tests/fuzz/memory_file.h"
#include "qtape/tests/fuzz/reads.h"

namespace {

using namespace qtape;

bool is_small(const Graph& graph) {
  int64_t elements = 0;
  for (const Node& node : graph.nodes()) {
    elements += node.type.shape.elements();
    if (elements > 20000) return false;
  }
  return true;
}

/// Samples for the checkpoints of the corpus.
data::Dataset samples() {
  const std::vector<float> x = {1, -2, 3, 0, 0.5F, -1, 2, 2, 0, -3, 1, 1,
                                0, 0,  1, 4, -1,   0,  1, 2, 3, -2, 0, 1};
  const std::vector<int32_t> labels = {0, 1, 1, 0, 1, 0, 0, 1};
  data::Dataset set;
  set.add("x", Tensor::of<float>({8, 3}, x));
  set.add_target("label", Tensor::of<int32_t>({8}, labels));
  return set;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  return fuzz::reads(bytes, size, [](std::string_view text) {
    const fuzz::MemoryFile file(text);
    Model model = Model::load(file.path());
    if (!is_small(model.graph())) return;
    int steps = 0;
    (void)fit(model, samples(),
              {.epochs = 3,
               .batch = 4,
               .resume = true,
               .threads = 1,
               .progress = false,
               .interruptible = false,
               .stop = [&] { return ++steps == 2; }});
  });
}
