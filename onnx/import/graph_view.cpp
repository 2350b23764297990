#include "qtape/onnx/import/graph_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "qtape/core/error.h"
#include "qtape/onnx/tensor_proto.h"

namespace qtape {
namespace {

/// Returns the inputs of a node, and the names that its branches read.
std::vector<std::string> inputs_of(const onnx::NodeProto& node, int depth = 0) {
  constexpr int max_depth = 8;
  std::vector<std::string> names(node.input().begin(), node.input().end());
  for (const auto& attribute : node.attribute()) {
    if (!attribute.has_g() || depth >= max_depth) continue;
    for (const onnx::NodeProto& inner : attribute.g().node()) {
      for (std::string& each : inputs_of(inner, depth + 1)) names.push_back(std::move(each));
    }
  }
  return names;
}

}  // namespace

bool nearly_equal(double a, double b) { return std::abs(a - b) <= 1e-4 * std::abs(b); }

OnnxGraphView::OnnxGraphView(onnx::GraphProto& graph) : graph_(graph) {
  for (const auto& each : graph.initializer()) tensors_[each.name()] = &each;
  for (int i = 0; i < graph.node_size(); ++i) {
    for (const std::string& each : graph.node(i).output()) producers_[each] = i;
    for (const std::string& each : inputs_of(graph.node(i))) ++readers_[each];
  }
  for (const auto& output : graph.output()) ++readers_[output.name()];
}

const onnx::NodeProto* OnnxGraphView::node_of(const std::string& name) const {
  const auto found = producers_.find(name);
  return found == producers_.end() ? nullptr : &graph_.node(found->second);
}

const onnx::NodeProto* OnnxGraphView::node_of(const std::string& name,
                                              std::string_view type) const {
  const onnx::NodeProto* node = node_of(name);
  if (node == nullptr) return nullptr;
  const bool own = node->domain().empty() || node->domain() == "ai.onnx";
  const bool reads = node->input_size() > 0 || type == "Constant";
  return own && reads && node->op_type() == type ? node : nullptr;
}

const onnx::TensorProto* OnnxGraphView::tensor(const std::string& name) const {
  if (const auto found = tensors_.find(name); found != tensors_.end()) return found->second;
  const onnx::NodeProto* node = node_of(name, "Constant");
  if (node == nullptr) return nullptr;
  for (const auto& each : node->attribute()) {
    if (each.name() == "value" && each.has_t()) return &each.t();
  }
  return nullptr;
}

std::optional<double> OnnxGraphView::number(const std::string& name) const {
  if (const onnx::NodeProto* node = node_of(name, "Constant")) {
    for (const auto& each : node->attribute()) {
      if (each.name() == "value_float") return double{each.f()};
    }
  }
  const onnx::TensorProto* found = tensor(name);
  if (found == nullptr || found->data_type() != onnx::TensorProto::FLOAT) return {};
  for (const int64_t extent : found->dims()) {
    if (extent != 1) return {};
  }
  if (found->data_location() == onnx::TensorProto::EXTERNAL) return {};
  try {
    return double{read_constant(*found).floats.at(0)};
  } catch (const Error&) {
    return {};
  }
}

std::optional<OnnxGraphView::Integers> OnnxGraphView::integers(const std::string& name) const {
  constexpr int most = 4096;
  if (const onnx::NodeProto* node = node_of(name, "Constant")) {
    for (const auto& each : node->attribute()) {
      if (each.name() == "value_int") return Integers{{each.i()}, 0};
      if (each.name() == "value_ints" && each.ints_size() <= most) {
        return Integers{{each.ints().begin(), each.ints().end()}, 1};
      }
    }
  }
  const onnx::TensorProto* found = tensor(name);
  if (found == nullptr || found->data_location() == onnx::TensorProto::EXTERNAL) return {};
  const int type = found->data_type();
  if (type != onnx::TensorProto::INT64 && type != onnx::TensorProto::INT32) return {};
  const int64_t first = found->dims_size() == 0 ? 1 : found->dims(0);
  if (found->dims_size() > 1 || first > most) return {};
  try {
    return Integers{read_constant(*found).integers, found->dims_size()};
  } catch (const Error&) {
    return {};
  }
}

void OnnxGraphView::multiply(OnnxFactors& product, const std::string& name,
                             const std::set<std::string>& whole, int depth) const {
  constexpr int max_depth = 6;
  constexpr size_t max_values = 8;
  if (product.values.size() > max_values) return;
  if (const auto constant = number(name)) {
    product.number *= *constant;
    return;
  }
  const auto both = [&](std::string_view type) {
    const std::vector<std::string> found = operands(name, type);
    const bool followed = !whole.contains(name) && depth < max_depth;
    return followed && found.size() == 2 ? found : std::vector<std::string>{};
  };
  for (const std::string& each : both("Mul")) multiply(product, each, whole, depth + 1);
  if (!both("Mul").empty()) return;
  if (const auto quotient = both("Div"); !quotient.empty()) {
    const auto divisor = number(quotient[1]);
    if (divisor && *divisor != 0) {
      product.number /= *divisor;
      return multiply(product, quotient[0], whole, depth + 1);
    }
  }
  if (const auto power = both("Pow"); !power.empty()) {
    const double times = number(power[1]).value_or(0);
    if (times == 2 || times == 3) {
      for (int k = 0; k < times; ++k) multiply(product, power[0], whole, depth + 1);
      return;
    }
  }
  product.values.push_back(name);
}

OnnxFactors OnnxGraphView::factors(const std::string& name,
                                   const std::set<std::string>& whole) const {
  OnnxFactors found;
  multiply(found, name, whole, 0);
  return found;
}

bool OnnxGraphView::is_product(const std::string& name, double factor,
                               std::vector<std::string> values) const {
  OnnxFactors found = factors(name, {values.begin(), values.end()});
  std::ranges::sort(found.values);
  std::ranges::sort(values);
  return found.values == values && nearly_equal(found.number, factor);
}

std::optional<std::string> OnnxGraphView::summand(const std::string& name,
                                                  double constant) const {
  const std::vector<std::string> sum = operands(name, "Add");
  for (size_t k = 0; sum.size() == 2 && k < 2; ++k) {
    const auto found = number(sum[k]);
    if (found && nearly_equal(*found, constant)) return sum[1 - k];
  }
  return {};
}

std::vector<std::string> OnnxGraphView::operands(const std::string& name,
                                                 std::string_view type) const {
  const onnx::NodeProto* node = node_of(name, type);
  if (node == nullptr) return {};
  return {node->input().begin(), node->input().end()};
}

onnx::NodeProto& OnnxGraphView::replace(int index, const std::string& type,
                                        const std::vector<std::string>& inputs) {
  onnx::NodeProto& node = *graph_.mutable_node(index);
  std::vector<std::string> before = inputs_of(node);
  for (const std::string& each : before) --readers_[each];
  node.set_op_type(type);
  node.clear_input();
  node.clear_attribute();
  for (const std::string& each : inputs) {
    node.add_input(each);
    ++readers_[each];
  }
  release(std::move(before));
  return node;
}

std::string OnnxGraphView::add_integers(const std::string& wanted,
                                        const std::vector<int64_t>& values) {
  std::string name = wanted;
  for (int k = 2;
       tensors_.contains(name) || producers_.contains(name) || readers_.contains(name); ++k) {
    name = fmt::format("{}.{}", wanted, k);
  }
  onnx::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(std::ssize(values));
  tensor.mutable_int64_data()->Add(values.begin(), values.end());
  tensors_[name] = &tensor;
  return name;
}

void OnnxGraphView::release(std::vector<std::string> names) {
  while (!names.empty()) {
    const std::string name = std::move(names.back());
    names.pop_back();
    const auto producer = producers_.find(name);
    if (producer == producers_.end() || readers_[name] > 0) continue;
    const onnx::NodeProto& node = graph_.node(producer->second);
    if (node.output_size() != 1 || !unread_.insert(producer->second).second) continue;
    for (const std::string& each : inputs_of(node)) {
      --readers_[each];
      names.push_back(each);
    }
  }
}

void OnnxGraphView::remove_unread() {
  if (unread_.empty()) return;
  auto& nodes = *graph_.mutable_node();
  int kept = 0;
  for (int i = 0; i < nodes.size(); ++i) {
    if (!unread_.contains(i)) nodes.SwapElements(kept++, i);
  }
  nodes.DeleteSubrange(kept, nodes.size() - kept);
}

}  // namespace qtape
