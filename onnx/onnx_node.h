// A node of an ONNX graph, with type-checked access to its attributes.
#pragma once

#include <onnx/onnx_pb.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/core/printable.h"

namespace qtape {

class OnnxNode {
 public:
  explicit OnnxNode(const onnx::NodeProto& proto) : proto_(proto) {}

  const onnx::NodeProto& proto() const { return proto_; }
  const std::string& type() const { return proto_.op_type(); }
  /// Returns the domain; empty for ONNX's own operators.
  std::string domain() const { return proto_.domain() == "ai.onnx" ? "" : proto_.domain(); }
  int inputs() const { return proto_.input_size(); }
  int outputs() const { return proto_.output_size(); }
  /// Returns the name of an input; empty if it is omitted.
  std::string input(int k) const { return k < inputs() ? proto_.input(k) : std::string(); }
  const std::string& output(int k) const { return proto_.output(k); }

  /// Return attributes, or `fallback` if absent. Throw FormatError if the type does not match.
  int64_t integer(const char* name, int64_t fallback) const {
    const auto* found = find(name, onnx::AttributeProto::INT);
    return found == nullptr ? fallback : found->i();
  }
  float real(const char* name, float fallback) const {
    const auto* found = find(name, onnx::AttributeProto::FLOAT);
    return found == nullptr ? fallback : found->f();
  }
  std::string text(const char* name, const char* fallback) const {
    const auto* found = find(name, onnx::AttributeProto::STRING);
    return found == nullptr ? fallback : found->s();
  }
  std::optional<std::vector<int64_t>> integers(const char* name) const {
    const auto* found = find(name, onnx::AttributeProto::INTS);
    if (found == nullptr) return std::nullopt;
    return std::vector<int64_t>(found->ints().begin(), found->ints().end());
  }
  const onnx::TensorProto* tensor(const char* name) const {
    const auto* found = find(name, onnx::AttributeProto::TENSOR);
    return found == nullptr ? nullptr : &found->t();
  }
  const onnx::GraphProto* graph(const char* name) const {
    const auto* found = find(name, onnx::AttributeProto::GRAPH);
    return found == nullptr ? nullptr : &found->g();
  }
  std::optional<std::vector<float>> reals(const char* name) const {
    const auto* found = find(name, onnx::AttributeProto::FLOATS);
    if (found == nullptr) return std::nullopt;
    return std::vector<float>(found->floats().begin(), found->floats().end());
  }
  std::optional<std::vector<std::string>> texts(const char* name) const {
    const auto* found = find(name, onnx::AttributeProto::STRINGS);
    if (found == nullptr) return std::nullopt;
    return std::vector<std::string>(found->strings().begin(), found->strings().end());
  }
  bool has(const char* name) const {
    asked_.insert(name);
    for (const auto& each : proto_.attribute()) {
      if (each.name() == name) return true;
    }
    return false;
  }
  /// Throws FormatError unless an attribute is absent or equals `value`.
  void expect(const char* name, int64_t value) const {
    const int64_t found = integer(name, value);
    require<FormatError>(found == value, "attribute {} is {}, only {} is supported", name,
                         found, value);
  }
  /// Returns the names of the attributes that were never queried.
  std::vector<std::string> unread_attributes() const {
    std::vector<std::string> unread;
    for (const auto& each : proto_.attribute()) {
      if (!asked_.contains(each.name())) unread.push_back(each.name());
    }
    return unread;
  }

  const std::string& name() const { return proto_.name(); }
  /// Returns `node 'conv1' (Conv)`, or a text with its output if the node has no name.
  std::string describe() const {
    const std::string type = printable(proto_.op_type());
    if (!proto_.name().empty()) {
      return fmt::format("node '{}' ({})", printable(proto_.name()), type);
    }
    const std::string gives = proto_.output_size() > 0 ? proto_.output(0) : std::string();
    return fmt::format("the node of '{}' ({})", printable(gives), type);
  }

 private:
  const onnx::AttributeProto* find(const char* name,
                                   onnx::AttributeProto::AttributeType type) const {
    asked_.insert(name);
    for (const auto& each : proto_.attribute()) {
      if (each.name() != name) continue;
      require<FormatError>(each.type() == type, "attribute {} has the wrong type", name);
      return &each;
    }
    return nullptr;
  }

  const onnx::NodeProto& proto_;
  mutable std::set<std::string, std::less<>> asked_;
};

}  // namespace qtape
