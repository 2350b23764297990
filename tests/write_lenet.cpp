// write_lenet FILE [norms|places]: writes an untrained LeNet for 28x28 images as an ONNX file
// in PyTorch's layout; with `norms`, its first three layers have batch norms, as in files that
// were exported in training mode; with `places`, the last images are multiplied by the index of
// their largest channel as a number, which has no integers.
#include <onnx/onnx_pb.h>

#include <cmath>
#include <fstream>

#include "qtape/core/random.h"
#include "qtape/qtape.h"

namespace {

using namespace qtape;

class Writer {
 public:
  Writer() {
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(17);
    auto* input = graph().add_input();
    input->set_name("x");
    auto* type = input->mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx::TensorProto::FLOAT);
    auto* shape = type->mutable_shape();
    shape->add_dim()->set_dim_param("batch");
    for (const int64_t extent : {1, 28, 28}) shape->add_dim()->set_dim_value(extent);
  }

  /// Sets `last` to the output of a new node with parameters `<label>.weight` and `.bias`.
  void layer(const char* op, const std::string& label, std::vector<int64_t> extents) {
    onnx::NodeProto& added = node(op, label);
    weight(label + ".weight", extents);
    weight(label + ".bias", {extents[0]});
    added.add_input(label + ".weight");
    added.add_input(label + ".bias");
    if (std::string_view(op) != "Gemm") return;
    auto& attribute = *added.add_attribute();
    attribute.set_name("transB");
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(1);
  }
  /// Adds a batch norm of `last` with statistics and factors `<label>.weight` and others.
  void norm(const std::string& label, int64_t channels) {
    onnx::NodeProto& added = node("BatchNormalization", label);
    for (const char* name : {".weight", ".bias", ".mean", ".variance"}) {
      weight(label + name, {channels}, std::string_view(name) == ".variance" ? 2 : 0);
      added.add_input(label + name);
    }
  }
  void pool() {
    onnx::NodeProto& added = node("MaxPool", {});
    for (const char* name : {"kernel_shape", "strides"}) {
      auto& attribute = *added.add_attribute();
      attribute.set_name(name);
      attribute.set_type(onnx::AttributeProto::INTS);
      attribute.add_ints(2);
      attribute.add_ints(2);
    }
  }
  void places() {
    const std::string x = last_;
    set(node("ArgMax", "place"), "axis", 1);
    set(node("Cast", "number"), "to", onnx::TensorProto::FLOAT);
    node("Mul", "product").add_input(x);
  }
  static void set(onnx::NodeProto& node, const char* name, int64_t value) {
    auto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(value);
  }
  onnx::NodeProto& node(const char* op, const std::string& label) {
    onnx::NodeProto& added = *graph().add_node();
    added.set_op_type(op);
    added.set_name(label);
    added.add_input(last_);
    last_ = fmt::format("value{}", graph().node_size());
    added.add_output(last_);
    return added;
  }
  void save(const std::string& path) {
    graph().add_output()->set_name(last_);
    std::ofstream file(path, std::ios::binary);
    require<IoError>(model_.SerializeToOstream(&file) && file.flush(), "{}: cannot write",
                     path);
  }

 private:
  onnx::GraphProto& graph() { return *model_.mutable_graph(); }
  /// Adds values uniform in +-1 / sqrt(terms) around `middle`, as in PyTorch's initialization.
  void weight(const std::string& name, const std::vector<int64_t>& extents, double middle = 0) {
    onnx::TensorProto& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    int64_t elements = 1;
    for (const int64_t each : extents) {
      tensor.add_dims(each);
      elements *= each;
    }
    const double bound = 1 / std::sqrt(static_cast<double>(elements / extents[0]) + 1);
    const Random random(1, static_cast<uint64_t>(graph().initializer_size()));
    for (int64_t i = 0; i < elements; ++i) {
      const double at = random.uniform(static_cast<uint64_t>(i));
      tensor.add_float_data(static_cast<float>(middle + (2 * at - 1) * bound));
    }
  }

  onnx::ModelProto model_;
  std::string last_ = "x";
};

}  // namespace

int main(int argc, char** argv) {
  return console::run_program("write_lenet", [&] {
    const std::string_view variant = argc == 3 ? argv[2] : "";
    const bool norms = variant == "norms", places = variant == "places";
    require<ArgumentError>(argc == 2 || norms || places,
                           "usage: write_lenet FILE [norms|places]");
    Writer writer;
    writer.layer("Conv", "conv1", {6, 1, 5, 5});
    if (norms) writer.norm("norm1", 6);
    writer.node("Relu", {});
    writer.pool();
    writer.layer("Conv", "conv2", {16, 6, 5, 5});
    if (norms) writer.norm("norm2", 16);
    writer.node("Relu", {});
    writer.pool();
    if (places) writer.places();
    writer.node("Flatten", {});
    writer.layer("Gemm", "fc1", {60, 256});
    if (norms) writer.norm("norm3", 60);
    writer.node("Relu", {});
    writer.layer("Gemm", "fc2", {10, 60});
    writer.save(argv[1]);
  });
}
