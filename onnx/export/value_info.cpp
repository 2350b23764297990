#include "qtape/onnx/export/value_info.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/onnx/onnx_node.h"
#include "qtape/onnx/tensor_proto.h"

namespace qtape {
namespace {

constexpr int64_t batch = -1;

/// A value: its element type and its extents, of which one may be the batch.
struct Known {
  int32_t type = 0;
  std::vector<int64_t> shape = {};
};

class Inference {
 public:
  explicit Inference(onnx::GraphProto& graph) : graph_(graph) {
    for (const auto& tensor : graph.initializer()) {
      known_[tensor.name()] = {tensor.data_type(),
                               {tensor.dims().begin(), tensor.dims().end()}};
      if (tensor.data_type() == onnx::TensorProto::INT64) {
        numbers_[tensor.name()] = read_constant(tensor).integers;
      }
    }
    for (const auto& input : graph.input()) {
      const auto& type = input.type().tensor_type();
      Known value{type.elem_type(), {}};
      for (const auto& extent : type.shape().dim()) {
        value.shape.push_back(extent.has_dim_param() ? batch : extent.dim_value());
      }
      known_[input.name()] = value;
    }
    for (const auto& output : graph.output()) outputs_.insert(output.name());
  }

  void run() {
    for (const onnx::NodeProto& proto : graph_.node()) {
      const OnnxNode node(proto);
      node_ = &node;
      const Known value{type(), shape()};
      known_[node.output(0)] = value;
      if (!outputs_.contains(node.output(0))) write(node.output(0), value);
    }
  }

 private:
  bool is(std::initializer_list<std::string_view> types) const {
    return std::ranges::find(types, node_->type()) != types.end();
  }
  const Known& in(int k) const { return known_.at(node_->input(k)); }
  const std::vector<int64_t>& numbers(int k) const { return numbers_.at(node_->input(k)); }

  int32_t type() const {
    using Proto = onnx::TensorProto;
    if (is({"Cast"})) return static_cast<int32_t>(node_->integer("to", 0));
    if (is({"QuantizeLinear"})) return in(2).type;
    if (is({"DequantizeLinear"})) return Proto::FLOAT;
    return is({"ConvInteger", "MatMulInteger"}) ? Proto::INT32 : in(0).type;
  }

  std::vector<int64_t> shape() const {
    if (is({"Identity", "Cast", "Clip", "QuantizeLinear", "DequantizeLinear"})) {
      return in(0).shape;
    }
    if (is({"Add", "Sub", "Mul"})) return broadcast();
    if (is({"Conv", "ConvInteger", "MaxPool", "AveragePool"})) return windows();
    if (is({"Gemm"})) return {in(0).shape[0], in(1).shape[0]};
    if (is({"MatMul", "MatMulInteger"})) {
      std::vector<int64_t> shape = in(0).shape;
      shape.back() = in(1).shape.back();
      return shape;
    }
    if (is({"ReduceSum", "ReduceMax"})) return reduced();
    return moved();
  }

  /// Returns the shape after an operator that only moves elements.
  std::vector<int64_t> moved() const {
    std::vector<int64_t> shape = in(0).shape;
    if (is({"Reshape"})) return numbers(1);
    if (is({"Transpose"})) {
      const std::vector<int64_t> axes = node_->integers("perm").value();
      std::ranges::transform(axes, shape.begin(), [&](int64_t axis) {
        return in(0).shape[static_cast<size_t>(axis)];
      });
      return shape;
    }
    if (is({"Slice"})) {
      shape[static_cast<size_t>(numbers(3)[0])] = numbers(2)[0] - numbers(1)[0];
      return shape;
    }
    const auto axis = static_cast<size_t>(node_->integer("axis", 0));
    if (is({"Concat"})) {
      for (int k = 1; k < node_->inputs(); ++k) shape[axis] += in(k).shape[axis];
      return shape;
    }
    if (is({"Gather"})) {
      const auto at = shape.begin() + static_cast<std::ptrdiff_t>(axis);
      shape.insert(shape.erase(at), in(1).shape.begin(), in(1).shape.end());
      return shape;
    }
    check(is({"Pad"}), "{} has no shape here", node_->type());
    for (size_t k = 0; k < shape.size(); ++k) {
      const int64_t added = numbers(1)[k] + numbers(1)[k + shape.size()];
      if (added > 0) shape[k] += added;
    }
    return shape;
  }

  std::vector<int64_t> broadcast() const {
    std::vector<int64_t> a = in(0).shape, b = in(1).shape;
    if (a.size() < b.size()) a.swap(b);
    b.insert(b.begin(), a.size() - b.size(), 1);
    for (size_t k = 0; k < a.size(); ++k) a[k] = a[k] == 1 ? b[k] : a[k];
    return a;
  }

  std::vector<int64_t> windows() const {
    std::vector<int64_t> shape = in(0).shape;
    if (is({"Conv", "ConvInteger"})) shape[1] = in(1).shape[0];
    const size_t axes = shape.size() - 2;
    const std::vector<int64_t> ones(axes, 1);
    const auto kernel = node_->integers("kernel_shape").value_or(ones);
    const auto strides = node_->integers("strides").value_or(ones);
    const auto dilations = node_->integers("dilations").value_or(ones);
    const auto pads = node_->integers("pads").value_or(std::vector<int64_t>(2 * axes, 0));
    for (size_t k = 0; k < axes; ++k) {
      const int64_t span = (kernel[k] - 1) * dilations[k] + 1;
      shape[k + 2] = (shape[k + 2] + pads[k] + pads[k + axes] - span) / strides[k] + 1;
    }
    return shape;
  }

  std::vector<int64_t> reduced() const {
    const std::vector<int64_t> axes =
        node_->has("axes") ? node_->integers("axes").value() : numbers(1);
    const bool kept = node_->integer("keepdims", 1) != 0;
    std::vector<int64_t> shape;
    for (size_t k = 0; k < in(0).shape.size(); ++k) {
      const bool gone = std::ranges::find(axes, static_cast<int64_t>(k)) != axes.end();
      if (!gone) shape.push_back(in(0).shape[k]);
      if (gone && kept) shape.push_back(1);
    }
    return shape;
  }

  void write(const std::string& name, const Known& value) {
    onnx::ValueInfoProto& info = *graph_.add_value_info();
    info.set_name(name);
    auto& tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(value.type);
    tensor.mutable_shape();
    for (const int64_t extent : value.shape) {
      auto& written = *tensor.mutable_shape()->add_dim();
      if (extent == batch) {
        written.set_dim_param("batch");
      } else {
        written.set_dim_value(extent);
      }
    }
  }

  onnx::GraphProto& graph_;
  std::map<std::string, Known> known_;
  std::map<std::string, std::vector<int64_t>> numbers_;  // values of constants
  std::set<std::string> outputs_;
  const OnnxNode* node_ = nullptr;
};

}  // namespace

void add_value_info(onnx::GraphProto& graph) { Inference(graph).run(); }

}  // namespace qtape
