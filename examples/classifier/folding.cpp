#include "qtape/examples/classifier/folding.h"

#include <algorithm>
#include <bit>

#include "qtape/engine/tape.h"
#include "qtape/examples/data/batches.h"
#include "qtape/examples/data/evaluate.h"
#include "qtape/model/fold_batch_norm.h"

namespace qtape::examples {

std::optional<FoldedComparison> compare_folded(const Network& network, Parameters& parameters,
                                               const data::Dataset& dataset, int threads) {
  const auto folds = [](const Node& node) {
    return std::holds_alternative<BatchNormCorrection>(node.op);
  };
  if (std::ranges::none_of(network.graph.nodes(), folds)) return std::nullopt;
  Model folded = fold_batch_norm(network.graph, parameters);
  data::Evaluator trained(network.graph, parameters, threads);
  data::Evaluator deployed(folded.graph, folded.parameters, threads);
  const NodeId first = network.graph.outputs()[0];
  const NodeId second = folded.graph.outputs()[0];
  FoldedComparison result;
  for (int64_t image = 0; image < dataset.size(); image += data::Evaluator::batch) {
    const auto x = trained.tape().input<float>("x");
    const int64_t count = data::fill_images(dataset, image, x);
    std::ranges::copy(x, deployed.tape().input<float>("x").begin());
    // As steps are in which norms and observers stand still.
    trained.tape().forward({.train = true, .observe = false, .quantize = true});
    deployed.tape().forward(mode::eval);
    const auto wanted = trained.tape().value<float>(first);
    const auto got = deployed.tape().value<float>(second);
    const size_t values = wanted.size() / data::Evaluator::batch * static_cast<size_t>(count);
    for (size_t i = 0; i < values; ++i) {
      const bool same = std::bit_cast<uint32_t>(wanted[i]) == std::bit_cast<uint32_t>(got[i]);
      result.different += same ? 0 : 1;
    }
    result.compared += static_cast<int64_t>(values);
  }
  return result;
}

}  // namespace qtape::examples
