// Checkpoints, from which a run continues for two steps: resumed, or refused by an error.
#include "qtape/data/dataset.h"
#include "qtape/model/fit.h"
#include "qtape/model/model.h"
#include "qtape/tests/fuzz/memory_file.h"
#include "qtape/tests/fuzz/seeds.h"
#include "qtape/tests/fuzz/target.h"

namespace {

using namespace qtape;

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

/// Settings of the run that wrote a checkpoint, as a user would give them again.
FitOptions settings_in(std::string_view text) {
  const auto names = [&](std::string_view name) {
    return text.find(name) != std::string_view::npos;
  };
  FitOptions options{.epochs = 3,
                     .batch = 4,
                     .resume = true,
                     .threads = 1,
                     .progress = false,
                     .interruptible = false};
  if (names("\"Sgd\"")) options.optimizer = Sgd{.momentum = 0.9};
  if (names("\"StepDecay\"")) options.schedule = StepDecay{.every = 1};
  if (names("\"oscillations\"")) options.oscillations.freeze_above = 0.1;
  if (names("\"best\"")) {
    options.validation = samples();
    options.keep_best = true;
  }
  return options;
}

void resume(std::string_view text) {
  const fuzz::MemoryFile file(text);
  Model model = Model::load(file.path());
  const auto type = [](const Node& node) { return node.type; };
  require<Error>(fuzz::is_small(model.graph().nodes(), type), "the model is too large here");
  int steps = 0;
  FitOptions options = settings_in(text);
  options.stop = [&] { return ++steps == 2; };
  const FitResult result = fit(model, samples(), options);
  require<Error>(result.resumed_from > 0, "it has no state of a run");
}

const fuzz::Target target("checkpoint", resume,
                          [] { return fuzz::files("fuzz/corpus/checkpoint"); });

}  // namespace
