#include <fmt/format.h>

#include "qtape/engine/serialize.h"
#include "qtape/examples/data/evaluate.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/data.h"

namespace qtape::tool {
void replay(const ReplayOptions& options) {
  Model model = load_model(options.model);
  const data::Dataset images = load_data(options.data).test;
  data::Evaluator evaluator(model.graph, model.parameters, options.threads);
  const data::Evaluation result =
      evaluator.run(images, options.quantize ? mode::eval : mode::float_eval);
  fmt::print("{} images, accuracy {:.2f} %\noutputs sha256 {}\n", images.size(),
             result.accuracy, result.outputs_sha256);
}

}  // namespace qtape::tool
