#include "qtape/onnx/import/norm_patterns.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "qtape/onnx/attributes.h"

namespace qtape {
namespace {

/// A norm under construction.
struct Norm {
  std::string type;
  std::string x;
  std::vector<int64_t> axes = {};
  std::optional<float> eps = {};
  int64_t groups = 0;
  std::vector<int64_t> shape = {};  // of the result, where a node states it
  std::vector<int> nodes = {};      // the last one is the end
  std::string gamma = {};
  std::string beta = {};
};

class Finder {
 public:
  Finder(const onnx::GraphProto& graph, const std::vector<int>& nodes,
         const OnnxImporter& importer)
      : graph_(graph), importer_(importer) {
    for (const int i : nodes) {
      for (const std::string& each : graph.node(i).output()) producers_[each] = i;
      for (const std::string& each : graph.node(i).input()) readers_[each].push_back(i);
    }
    for (const auto& output : graph.output()) readers_[output.name()].push_back(-1);
  }

  NormPatterns run(const std::vector<int>& nodes) {
    for (const int i : nodes) {
      std::optional<Norm> norm = quotient(i);
      if (!norm) norm = unit(i);
      if (!norm) norm = grouped(i);
      if (norm) add(std::move(*norm));
    }
    return std::move(found_);
  }

 private:
  OnnxNode node(int i) const { return OnnxNode(graph_.node(i)); }

  /// Returns the node of that type which computes `name` for a single reader.
  std::optional<int> inner(const std::string& name, std::string_view type) const {
    const auto at = producers_.find(name);
    if (at == producers_.end() || !is(at->second, type)) return std::nullopt;
    const auto readers = readers_.find(name);
    if (readers == readers_.end() || readers->second.size() != 1) return std::nullopt;
    return at->second;
  }
  bool is(int i, std::string_view type) const {
    const OnnxNode each = node(i);
    return each.type() == type && each.domain().empty() && each.outputs() >= 1;
  }
  std::optional<float> number(const std::string& name) const {
    const OnnxConstant* constant = importer_.find_constant(name);
    if (constant == nullptr || constant->shape.elements() != 1) return std::nullopt;
    return constant->is_float ? constant->floats[0] : static_cast<float>(constant->integers[0]);
  }
  bool is_number(const std::string& name, float value) const {
    const std::optional<float> known = number(name);
    return known && *known == value;
  }
  std::optional<std::vector<int64_t>> integers(const std::string& name) const {
    const OnnxConstant* constant = importer_.find_constant(name);
    if (constant == nullptr || constant->is_float) return std::nullopt;
    return constant->integers;
  }
  /// True if all elements of a constant are `value`.
  bool is_filled(const std::string& name, float value) const {
    const OnnxConstant* constant = importer_.find_constant(name);
    return constant != nullptr && constant->is_float &&
           std::ranges::all_of(constant->floats, [&](float each) { return each == value; });
  }

  /// Returns the operand and axes of a reduction that keeps its axes.
  std::optional<std::vector<int64_t>> reduced_axes(int i) const {
    const OnnxNode each = node(i);
    if (each.integer("keepdims", 1) != 1) return std::nullopt;
    if (each.integer("noop_with_empty_axes", 0) != 0) return std::nullopt;
    auto axes = each.integers("axes");
    if (!axes && each.inputs() > 1) axes = integers(each.input(1));
    if (axes && axes->empty()) return std::nullopt;
    return axes;
  }

  /// Returns the operand of the square `name`, and its node.
  std::optional<std::pair<std::string, int>> square(const std::string& name) const {
    if (const auto pow = inner(name, "Pow"); pow && is_number(node(*pow).input(1), 2)) {
      return std::pair(node(*pow).input(0), *pow);
    }
    const auto mul = inner(name, "Mul");
    if (!mul || node(*mul).input(0) != node(*mul).input(1)) return std::nullopt;
    return std::pair(node(*mul).input(0), *mul);
  }

  /// Matches a root of a mean square plus eps: adds nodes, axes and eps, and sets x to what is
  /// squared.
  bool root(const std::string& name, Norm& norm) const {
    const auto sqrt = inner(name, "Sqrt");
    if (!sqrt) return false;
    const auto sum = inner(node(*sqrt).input(0), "Add");
    if (!sum) return false;
    for (const int k : {0, 1}) {
      const std::optional<float> eps = number(node(*sum).input(1 - k));
      const auto mean = inner(node(*sum).input(k), "ReduceMean");
      if (!eps || !mean || !(*eps > 0)) continue;
      const auto axes = reduced_axes(*mean);
      const auto squared = square(node(*mean).input(0));
      if (!axes || !squared) continue;
      norm.x = squared->first;
      norm.axes = *axes;
      norm.eps = eps;
      norm.nodes = {squared->second, *mean, *sum, *sqrt};
      return true;
    }
    return false;
  }

  /// Matches the reciprocal of a root.
  bool inverse_root(const std::string& name, Norm& norm) const {
    std::optional<int> made = inner(name, "Reciprocal");
    std::string of = made ? node(*made).input(0) : std::string();
    if (!made) {
      made = inner(name, "Div");
      if (!made || !is_number(node(*made).input(0), 1)) return false;
      of = node(*made).input(1);
    }
    if (!root(of, norm)) return false;
    norm.nodes.push_back(*made);
    return true;
  }

  /// Matches d / sqrt(mean d^2 + eps) that ends at node i, where d may be x minus its mean.
  std::optional<Norm> quotient(int i) const {
    Norm norm{.type = "RMSNormalization"};
    const OnnxNode end = node(i);
    bool matches = is(i, "Div") && root(end.input(1), norm) && norm.x == end.input(0);
    for (int k = 0; k < 2 && !matches && is(i, "Mul"); ++k) {
      matches = inverse_root(end.input(1 - k), norm) && norm.x == end.input(k);
    }
    if (!matches) return std::nullopt;
    norm.nodes.push_back(i);
    center(norm);
    return norm;
  }

  /// Makes a layer norm of a norm whose operand is x minus its mean.
  void center(Norm& norm) const {
    const auto at = producers_.find(norm.x);
    if (at == producers_.end() || !is(at->second, "Sub")) return;
    const OnnxNode sub = node(at->second);
    const auto mean = inner(sub.input(1), "ReduceMean");
    if (!mean || node(*mean).input(0) != sub.input(0)) return;
    if (reduced_axes(*mean) != norm.axes) return;
    const std::vector<int>& readers = readers_.at(norm.x);
    const auto inside = [&](int each) { return std::ranges::count(norm.nodes, each) > 0; };
    if (!std::ranges::all_of(readers, inside)) return;
    norm.type = "LayerNormalization";
    norm.x = sub.input(0);
    norm.nodes.insert(norm.nodes.begin(), {*mean, at->second});
  }

  /// Matches x / max(|x|, eps) that ends at node i.
  std::optional<Norm> unit(int i) const {
    if (!is(i, "Div")) return std::nullopt;
    Norm norm{.type = "LpNormalization", .x = node(i).input(0), .nodes = {i}};
    std::string name = node(i).input(1);
    if (const auto expand = inner(name, "Expand")) {
      if (!same_shape(node(*expand).input(1), norm)) return std::nullopt;
      name = node(*expand).input(0);
      norm.nodes.insert(norm.nodes.begin(), *expand);
    }
    if (const auto limit = limited(name)) {
      if (!(limit->second > 0)) return std::nullopt;
      norm.eps = limit->second;
      name = node(limit->first).input(number(node(limit->first).input(0)) ? 1 : 0);
      norm.nodes.insert(norm.nodes.begin(), limit->first);
    }
    const auto length = inner(name, "ReduceL2");
    if (!length || node(*length).input(0) != norm.x) return std::nullopt;
    const auto axes = reduced_axes(*length);
    if (!axes) return std::nullopt;
    norm.axes = *axes;
    norm.nodes.insert(norm.nodes.begin(), *length);
    return norm;
  }

  /// Returns the node that limits `name` from below, and the limit.
  std::optional<std::pair<int, float>> limited(const std::string& name) const {
    if (const auto clip = inner(name, "Clip")) {
      const OnnxNode each = node(*clip);
      const float open = std::numeric_limits<float>::max();
      const float most =
          each.input(2).empty() ? each.real("max", open) : number(each.input(2)).value_or(0);
      const auto least = each.input(1).empty() ? std::optional(each.real("min", -open))
                                               : number(each.input(1));
      if (!least || most < open) return std::nullopt;
      return std::pair(*clip, *least);
    }
    const auto most = inner(name, "Max");
    if (!most || node(*most).inputs() != 2) return std::nullopt;
    for (const int k : {0, 1}) {
      if (const auto least = number(node(*most).input(k))) return std::pair(*most, *least);
    }
    return std::nullopt;
  }

  /// True if `name` is the shape of x, computed or constant; a constant is checked on import.
  bool same_shape(const std::string& name, Norm& norm) const {
    if (const auto known = integers(name)) {
      norm.shape = *known;
      return true;
    }
    const auto at = producers_.find(name);
    if (at == producers_.end() || !is(at->second, "Shape")) return false;
    const OnnxNode shape = node(at->second);
    return shape.input(0) == norm.x && !shape.has("start") && !shape.has("end");
  }

  /// Matches a group norm that is an instance norm of [n, groups, ...], at node i.
  std::optional<Norm> grouped(int i) const {
    if (!is(i, "Reshape")) return std::nullopt;
    const auto norm = inner(node(i).input(0), "InstanceNormalization");
    if (!norm || !is_filled(node(*norm).input(1), 1) || !is_filled(node(*norm).input(2), 0)) {
      return std::nullopt;
    }
    const auto before = inner(node(*norm).input(0), "Reshape");
    if (!before) return std::nullopt;
    const auto groups = integers(node(*before).input(1));
    if (!groups || groups->size() != 3 || (*groups)[1] < 1 || (*groups)[2] != -1) {
      return std::nullopt;
    }
    Norm made{.type = "GroupNormalization",
              .x = node(*before).input(0),
              .eps = node(*norm).real("epsilon", 1e-5f),
              .groups = (*groups)[1],
              .nodes = {*before, *norm, i}};
    if (!same_shape(node(i).input(1), made)) return std::nullopt;
    return made;
  }

  /// Returns the only reader of `name` if it is a node of that type.
  std::optional<int> only_reader(const std::string& name, std::string_view type) const {
    const auto readers = readers_.find(name);
    if (readers == readers_.end() || readers->second.size() != 1) return std::nullopt;
    const int i = readers->second[0];
    return i >= 0 && is(i, type) ? std::optional(i) : std::nullopt;
  }

  /// Adds the only reader of the norm if it applies an operator to it and a constant of its
  /// channels, and returns the name of the constant. A cast to f32 may come between.
  std::string apply(std::string_view type, Norm& norm) const {
    std::vector<int> added;
    std::string name = output(norm);
    const auto cast = only_reader(name, "Cast");
    if (cast && node(*cast).integer("to", 0) == onnx::TensorProto::FLOAT) {
      added.push_back(*cast);
      name = graph_.node(*cast).output(0);
    }
    const std::optional<int> i = only_reader(name, type);
    if (!i) return {};
    const std::string other = node(*i).input(node(*i).input(0) == name ? 1 : 0);
    const OnnxConstant* constant = importer_.find_constant(other);
    if (constant == nullptr || !constant->is_float) return {};
    if (!is_of_channels(constant->shape, norm)) return {};
    added.push_back(*i);
    norm.nodes.insert(norm.nodes.end(), added.begin(), added.end());
    return other;
  }
  const std::string& output(const Norm& norm) const {
    return graph_.node(norm.nodes.back()).output(0);
  }

  /// True if a constant has numbers for the normalized axes alone, or for the channels of
  /// groups.
  static bool is_of_channels(const Shape& shape, const Norm& norm) {
    const auto rank = static_cast<int64_t>(shape.rank());
    for (int64_t k = 0; k < rank; ++k) {
      if (shape[static_cast<int>(k)] == 1) continue;
      const bool suffix = std::ranges::count(norm.axes, k - rank) > 0;
      // Positive axes: those of an image [n, c, h, w], or of [n, c, l].
      const bool first = norm.axes == std::vector<int64_t>{1} || norm.groups > 0;
      const bool channels = first && rank > 1 && (k == 0 || (k == 1 && shape[0] == 1));
      if (!suffix && !channels) return false;
    }
    return true;
  }

  /// Adds the norm, with the factor and the bias that follow it.
  void add(Norm norm) {
    NormPattern pattern;
    const auto add_form = [&] {
      pattern.forms.push_back({.node = proto(norm), .replaced = norm.nodes.size()});
    };
    add_form();
    if (norm.type != "LpNormalization") norm.gamma = apply("Mul", norm);
    if (!norm.gamma.empty()) add_form();
    const bool biased = norm.type == "LayerNormalization" || norm.type == "GroupNormalization";
    if (biased) norm.beta = apply("Add", norm);
    if (!norm.beta.empty()) add_form();
    if (std::ranges::any_of(norm.nodes, [&](int i) { return is_taken(i); })) return;
    found_.merged.insert(norm.nodes.begin(), norm.nodes.end() - 1);
    pattern.nodes = norm.nodes;
    found_.norms[norm.nodes.back()] = std::move(pattern);
  }
  bool is_taken(int i) const { return found_.merged.contains(i) || found_.norms.contains(i); }

  onnx::NodeProto proto(const Norm& norm) const {
    const onnx::NodeProto& last = graph_.node(norm.nodes.back());
    onnx::NodeProto made;
    made.set_op_type(norm.type);
    const size_t module = last.name().rfind('/');
    if (module != std::string::npos)
      made.set_name(last.name().substr(0, module + 1) + norm.type);
    made.add_input(norm.x);
    if (norm.type != "LpNormalization") {
      made.add_input(norm.gamma);
      if (!norm.beta.empty()) made.add_input(norm.beta);
    }
    made.add_output(last.output(0));
    if (!norm.axes.empty()) set_attribute(made, "axes", norm.axes);
    if (!norm.shape.empty()) set_attribute(made, "shape", norm.shape);
    if (norm.groups > 0) set_attribute(made, "num_groups", norm.groups);
    if (norm.eps) set_real_attribute(made, "epsilon", *norm.eps);
    return made;
  }

  const onnx::GraphProto& graph_;
  const OnnxImporter& importer_;
  std::map<std::string, int> producers_;
  std::map<std::string, std::vector<int>> readers_;  // -1: an output of the graph
  NormPatterns found_;
};

}  // namespace

NormPatterns find_norms(const onnx::GraphProto& graph, const std::vector<int>& nodes,
                        const OnnxImporter& importer) {
  try {
    return Finder(graph, nodes, importer).run(nodes);
  } catch (const FormatError&) {
    return {};  // an attribute of another type: the node itself is refused later
  }
}

}  // namespace qtape
