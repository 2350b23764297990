#include "qtape/onnx/import.h"

#include <fmt/format.h>

#include "qtape/core/printable.h"
#include "qtape/examples/shared/output_files.h"
#include "qtape/model/recipe.h"
#include "qtape/tools/qtape/commands.h"

namespace qtape::tool {

void import_model(const std::string& path, const std::string& output) {
  examples::OutputFiles files;
  files.expect("--output", output);
  const SavedModel model = import_onnx(path);
  for (const Node& node : model.graph.nodes()) {
    if (!std::holds_alternative<Input>(node.op)) continue;
    fmt::print(
        "input {}, a sample of it {}\n", printable(node.label),
        to_string(TensorType{node.type.dtype, Shape(node.type.shape.extents().subspan(1))}));
  }
  fmt::print("{} nodes, {} layers with weights, {} parameters\n", model.graph.size(),
             layer_weights(model.graph).size(), model.parameters.trainable_elements());
  files.save(output,
             [&](const std::string& name) { save_model(name, model.graph, model.parameters); });
  files.require_written();
}

}  // namespace qtape::tool
