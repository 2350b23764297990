#include <fmt/format.h>

#include "qtape/engine/serialize.h"
#include "qtape/examples/data/digits.h"
#include "qtape/examples/data/evaluate.h"
#include "qtape/tools/qtape/commands.h"

namespace qtape::tool {
namespace {

data::Dataset test_images(const std::string& directory) {
  if (!directory.empty()) return data::read_idx_directory(directory).test;
  return data::example_digits(0).test;
}

}  // namespace

void replay(const ReplayOptions& options) {
  Model model = load_model(options.model);
  const data::Dataset images = test_images(options.data);
  data::Evaluator evaluator(model.graph, model.parameters, options.threads);
  const data::Evaluation result =
      evaluator.run(images, options.quantize ? mode::eval : mode::float_eval);
  fmt::print("{} images, accuracy {:.2f} %\noutputs sha256 {}\n", images.size(),
             result.accuracy, result.outputs_sha256);
}

}  // namespace qtape::tool
