#include "qtape/examples/classifier/training.h"

#include <fmt/format.h>

#include "qtape/integer/training/exact.h"

namespace qtape::examples {

RunResult train(Model& model, const TrainingSettings& recipe, const data::Split& data,
                FitOptions options) {
  Evaluator evaluator(model.graph(), model.parameters(), options.threads, exact(recipe.exact),
                      options.exchange);
  evaluator.compare(data.test);
  options.metric = Metric{
      .name = fmt::format("{} accuracy", scored_data(recipe)), .unit = " %", .measure = [&] {
        return evaluator.run(data.test).accuracy.value_or(0);
      }};
  RunResult result{.fit = fit(model, data.train, options)};
  if (result.fit.stopped) return result;
  result.test = evaluator.run(data.test);
  result.parameters_sha256 = model.parameters().sha256();
  return result;
}

}  // namespace qtape::examples
