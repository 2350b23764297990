// The operator If, whose condition constants decide.
#include "qtape/onnx/import/importer.h"

namespace qtape {

const onnx::GraphProto* OnnxImporter::selected_branch(const OnnxNode& node) const {
  const OnnxConstant* condition = find_constant(node.input(0));
  if (node.type() != "If" || condition == nullptr || condition->is_float ||
      condition->integers.size() != 1) {
    return nullptr;
  }
  const onnx::GraphProto* branch =
      node.graph(condition->integers[0] != 0 ? "then_branch" : "else_branch");
  const bool fits = branch != nullptr && branch->output_size() == node.outputs();
  return fits ? branch : nullptr;
}

void OnnxImporter::add_branch(int64_t index, const OnnxNode& node,
                              const onnx::GraphProto& branch) {
  for (const auto& tensor : branch.initializer()) add_tensor(tensor);
  for (const auto& inner : branch.node()) {
    if (inner.output_size() == 0) continue;
    // Branches may use the same names.
    for (const std::string& name : inner.output()) {
      values_.erase(name);
      constants_.erase(name);
    }
    add_node(index, OnnxNode(inner));
  }
  for (int k = 0; k < node.outputs(); ++k) {
    const std::string& from = branch.output(k).name();
    if (const OnnxConstant* constant = find_constant(from)) {
      add_constant(node.output(k), *constant);
    } else if (const OnnxValue* value = find_value(from)) {
      give(node, OnnxValue(*value), k);
    } else {
      stand_in(node.output(k));
    }
  }
}

}  // namespace qtape
