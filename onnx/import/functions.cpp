#include "qtape/onnx/import/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/core/printable.h"

namespace qtape {
namespace {

constexpr int max_nodes = 100'000;
constexpr int max_nested = 64;
constexpr int64_t max_times = 16;  // bytes of nodes, as a multiple of the file
constexpr int64_t few_bytes = 1 << 20;
constexpr int64_t first_stable_opset = 13;  // later opsets read the same nodes alike

// Fields of newer versions of ONNX than the headers may have.
constexpr int attribute_defaults_field = 11;
constexpr int function_overload_field = 13;
constexpr int node_overload_field = 8;

std::string domain_of(const std::string& domain) {
  return domain == "ai.onnx" ? std::string() : domain;
}

/// Returns the values of a field of bytes that the headers do not know.
template <class Message>
std::vector<std::string> unknown_field(const Message& message, int number) {
  std::vector<std::string> found;
  const auto& fields = message.GetReflection()->GetUnknownFields(message);
  for (int k = 0; k < fields.field_count(); ++k) {
    const auto& field = fields.field(k);
    const bool bytes = field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED;
    if (field.number() == number && bytes) found.push_back(field.length_delimited());
  }
  return found;
}

template <class Message>
std::string overload_of(const Message& message, int number) {
  if constexpr (requires { message.overload(); }) {
    return message.overload();
  } else {
    const std::vector<std::string> found = unknown_field(message, number);
    return found.empty() ? std::string() : found.back();
  }
}

template <class Function>
std::vector<onnx::AttributeProto> defaults_of(const Function& function) {
  std::vector<onnx::AttributeProto> defaults;
  if constexpr (requires { function.attribute_proto(); }) {
    defaults.assign(function.attribute_proto().begin(), function.attribute_proto().end());
  } else {
    for (const std::string& bytes : unknown_field(function, attribute_defaults_field)) {
      onnx::AttributeProto attribute;
      if (attribute.ParseFromString(bytes)) defaults.push_back(std::move(attribute));
    }
  }
  return defaults;
}

template <class Holder>
int64_t opset_of(const Holder& holder) {
  int64_t opset = 0;
  for (const auto& each : holder.opset_import()) {
    if (domain_of(each.domain()).empty()) opset = each.version();
  }
  return opset;
}

struct Function {
  const onnx::FunctionProto* body;
  std::vector<onnx::AttributeProto> defaults;

  std::string name() const { return printable(body->name()); }
  bool declares(const std::string& attribute) const {
    const auto& plain = body->attribute();
    return std::ranges::find(plain, attribute) != plain.end() || find(defaults, attribute);
  }

  template <class Attributes>
  static const onnx::AttributeProto* find(const Attributes& attributes,
                                          const std::string& name) {
    for (const onnx::AttributeProto& each : attributes) {
      if (each.name() == name) return &each;
    }
    return nullptr;
  }
};

struct Key {
  std::string domain, name, overload;
  auto operator<=>(const Key&) const = default;
};

class Inliner {
 public:
  explicit Inliner(onnx::ModelProto& model)
      : model_(model),
        opset_(opset_of(model)),
        bytes_left_(max_times * static_cast<int64_t>(model.ByteSizeLong()) + few_bytes) {
    for (const onnx::FunctionProto& each : model.functions()) {
      functions_.emplace(Key{domain_of(each.domain()), each.name(),
                             overload_of(each, function_overload_field)},
                         Function{&each, defaults_of(each)});
    }
    collect_names(model.graph());
  }

  std::map<int, std::string> run() {
    if (functions_.empty()) return {};
    std::map<int, std::string> reasons;
    for (onnx::NodeProto& node : *model_.mutable_graph()->mutable_node()) {
      const size_t before = nodes_.size();
      try {
        add(node);
      } catch (const FormatError& error) {
        nodes_.resize(before);
        calls_.clear();
        reasons.emplace(static_cast<int>(before), error.what());
        nodes_.push_back(std::move(node));
      }
    }
    auto& nodes = *model_.mutable_graph()->mutable_node();
    nodes.Clear();
    for (onnx::NodeProto& node : nodes_) *nodes.Add() = std::move(node);
    return reasons;
  }

 private:
  using Names = std::map<std::string, std::string>;  // of values, by the name in a body

  void collect_names(const onnx::GraphProto& graph) {
    for (const auto& each : graph.input()) names_.insert(each.name());
    for (const auto& each : graph.initializer()) names_.insert(each.name());
    for (const auto& node : graph.node()) {
      names_.insert(node.input().begin(), node.input().end());
      names_.insert(node.output().begin(), node.output().end());
    }
  }

  const Function* function_of(const onnx::NodeProto& node) const {
    const auto found = functions_.find(
        {domain_of(node.domain()), node.op_type(), overload_of(node, node_overload_field)});
    return found == functions_.end() ? nullptr : &found->second;
  }

  void spend(const onnx::NodeProto& node) {
    bytes_left_ -= static_cast<int64_t>(node.ByteSizeLong());
    require<FormatError>(bytes_left_ >= 0 && std::ssize(nodes_) < max_nodes,
                         "the bodies of its functions are too large for the file");
  }

  std::string new_name(const std::string& wanted) {
    std::string name = wanted;
    int& next = next_[wanted];
    while (!names_.insert(name).second) name = fmt::format("{}_{}", wanted, ++next);
    return name;
  }

  /// Adds a node, or the nodes of the function that it calls.
  void add(const onnx::NodeProto& node) {
    const Function* function = function_of(node);
    if (function == nullptr) {
      nodes_.push_back(node);
      return;
    }
    const auto again = std::ranges::find(calls_, function);
    require<FormatError>(again == calls_.end(), "function '{}' calls itself", function->name());
    require<FormatError>(std::ssize(calls_) < max_nested,
                         "more than {} functions call each other", max_nested);
    calls_.push_back(function);
    add_body(node, *function);
    calls_.pop_back();
  }

  void check_call(const onnx::NodeProto& call, const Function& function) const {
    const int inputs = function.body->input_size(), outputs = function.body->output_size();
    require<FormatError>(call.input_size() <= inputs,
                         "function '{}': the number of inputs is {}, expected at most {}",
                         function.name(), call.input_size(), inputs);
    require<FormatError>(call.output_size() <= outputs,
                         "function '{}': the number of outputs is {}, expected at most {}",
                         function.name(), call.output_size(), outputs);
    const int64_t opset = opset_of(*function.body);
    const bool alike =
        opset == 0 || opset == opset_ || std::min(opset, opset_) >= first_stable_opset;
    require<FormatError>(alike, "function '{}' is of opset {}, the model of {}",
                         function.name(), opset, opset_);
    for (const auto& each : call.attribute()) {
      require<FormatError>(function.declares(each.name()),
                           "function '{}' has no attribute '{}'", function.name(),
                           printable(each.name()));
    }
  }

  void add_body(const onnx::NodeProto& call, const Function& function) {
    check_call(call, function);
    const onnx::FunctionProto& body = *function.body;
    const std::string prefix = call.name().empty() ? body.name() : call.name();
    Names names;
    for (int k = 0; k < body.input_size(); ++k) {
      names[body.input(k)] = k < call.input_size() ? call.input(k) : std::string();
    }
    std::vector<std::pair<std::string, std::string>> copies;
    for (int k = 0; k < call.output_size(); ++k) {
      if (call.output(k).empty()) continue;
      const auto [place, free] = names.try_emplace(body.output(k), call.output(k));
      if (!free) copies.emplace_back(place->second, call.output(k));
    }
    for (const onnx::NodeProto& each : body.node()) {
      for (const auto& attribute : each.attribute()) {
        require<FormatError>(!attribute.has_g() && attribute.graphs_size() == 0,
                             "branches within functions are not supported");
      }
      onnx::NodeProto node = each;
      node.set_name(
          fmt::format("{}/{}", prefix, each.name().empty() ? each.op_type() : each.name()));
      for (auto& name : *node.mutable_input()) name = renamed(names, prefix, name);
      for (auto& name : *node.mutable_output()) name = renamed(names, prefix, name);
      set_attributes(node, call, function);
      spend(node);
      add(node);
    }
    for (const auto& [from, to] : copies) add_copy(from, to, prefix);
  }

  void add_copy(const std::string& from, const std::string& to, const std::string& prefix) {
    onnx::NodeProto copy;
    copy.set_op_type("Identity");
    copy.set_name(prefix + "/Identity");
    copy.add_input(from);
    copy.add_output(to);
    spend(copy);
    nodes_.push_back(std::move(copy));
  }

  std::string renamed(Names& names, const std::string& prefix, const std::string& name) {
    if (name.empty()) return name;
    const auto [place, added] = names.try_emplace(name);
    if (added) place->second = new_name(fmt::format("{}/{}", prefix, name));
    return place->second;
  }

  /// Replaces references to attributes of the function.
  static void set_attributes(onnx::NodeProto& node, const onnx::NodeProto& call,
                             const Function& function) {
    std::vector<onnx::AttributeProto> kept;
    for (const onnx::AttributeProto& each : node.attribute()) {
      const std::string& name = each.ref_attr_name();
      const onnx::AttributeProto* found = &each;
      if (!name.empty()) found = Function::find(call.attribute(), name);
      if (found == nullptr) found = Function::find(function.defaults, name);
      if (found == nullptr) continue;  // the operator's own default holds
      kept.push_back(*found);
      kept.back().set_name(each.name());
    }
    node.mutable_attribute()->Clear();
    for (onnx::AttributeProto& each : kept) *node.add_attribute() = std::move(each);
  }

  onnx::ModelProto& model_;
  int64_t opset_;
  int64_t bytes_left_;
  std::map<Key, Function> functions_;
  std::set<std::string> names_;
  std::map<std::string, int> next_;  // number of the last name, by the name wanted
  std::vector<const Function*> calls_;
  std::vector<onnx::NodeProto> nodes_;
};

}  // namespace

std::map<int, std::string> inline_functions(onnx::ModelProto& model) {
  return Inliner(model).run();
}

}  // namespace qtape
