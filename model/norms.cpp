#include "qtape/model/norms.h"

#include <algorithm>

#include "qtape/core/error.h"
#include "qtape/core/float_environment.h"
#include "qtape/model/feed.h"
#include "qtape/model/weight_codes.h"

namespace qtape {

namespace {

bool is_norm(const Node& node) { return is_any<BatchNorm, BatchNormCorrection>(node.op); }

}  // namespace

bool has_norms(const Graph& graph) { return std::ranges::any_of(graph.nodes(), is_norm); }

int64_t reestimate_norms(Model& model, const data::Dataset& dataset, int64_t batches,
                         int64_t batch, uint64_t seed, int threads) {
  const FloatEnvironment floats;
  const auto norms = std::ranges::count_if(model.graph().nodes(), is_norm);
  require<ArgumentError>(batches >= 0 && batch >= 1,
                         "expected batches of at least one sample, got {} of {}", batches,
                         batch);
  if (norms == 0) return 0;
  Tape tape(model.graph().with_batch(batch), model.parameters(),
            {.outputs = model.outputs(), .threads = threads});
  Feed feed(inputs_of(tape), dataset);
  data::EpochOrder order(dataset.size(), batch, seed);
  WeightCodes codes(model.graph());
  for (int64_t step = 0; step < batches; ++step) {
    feed.fill(order.at(step));
    codes.remember(model.parameters());
    tape.forward({.quantize = true, .batch_statistics = true});
    codes.keep(model.parameters(), false);
  }
  return norms;
}

}  // namespace qtape
