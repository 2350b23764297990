#include "qtape/examples/classifier/folding.h"

#include <algorithm>
#include <bit>

#include "qtape/model/feed.h"
#include "qtape/model/passes/fold_batch_norm.h"

namespace qtape::examples {

std::optional<FoldedComparison> compare_folded(Model& model, const data::Dataset& dataset,
                                               int threads) {
  const auto folds = [](const Node& node) {
    return std::holds_alternative<BatchNormCorrection>(node.op);
  };
  if (std::ranges::none_of(model.graph().nodes(), folds)) return std::nullopt;
  const Model folded(fold_batch_norm(model.graph(), model.parameters()));
  const Tensor deployed = predict(folded, dataset, threads);
  Evaluator trained(model.graph(), model.parameters(), threads);
  Feed feed(inputs_of(trained.tape()), dataset);
  FoldedComparison result{.compared = deployed.type.elements()};
  const auto* got = reinterpret_cast<const uint32_t*>(deployed.data.data());
  feed.for_each_batch([&](int64_t, int64_t count) {
    // As in steps with frozen norms and observers.
    trained.tape().forward({.train = true, .observe = false, .quantize = true});
    const auto wanted = trained.tape().value<float>(model.answer());
    const size_t values =
        wanted.size() / static_cast<size_t>(feed.rows()) * static_cast<size_t>(count);
    for (size_t i = 0; i < values; ++i) {
      result.different += std::bit_cast<uint32_t>(wanted[i]) == *got++ ? 0 : 1;
    }
  });
  return result;
}

}  // namespace qtape::examples
