#include "qtape/model/passes/fold_batch_norm.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "qtape/core/float_environment.h"
#include "qtape/engine/constants.h"
#include "qtape/engine/labels.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/tape.h"
#include "qtape/integer/rules/quantizer_of.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/model/passes/norm_folds.h"

namespace qtape {
namespace {

/// Returns a FakeQuantize with Fixed scales, one per index of `axis`, and the codes of
/// `quantizer`.
FakeQuantize fixed_along(const Op& quantizer, int axis) {
  return visit_quantizer(quantizer, [&](const auto& op) {
    return FakeQuantize{.bits = op.bits,
                        .axis = axis,
                        .range = op.range,
                        .rounding = op.rounding,
                        .division = op.division,
                        .scale_mode = Fixed{}};
  });
}

class Folder {
 public:
  /// Folds `folds`, and BatchNormCorrection nodes if `corrections`.
  Folder(const Graph& graph, const Parameters& parameters, const std::vector<NormFold>& folds,
         bool corrections)
      : graph_(graph),
        parameters_(parameters),
        folds_corrections_(corrections),
        constant_(constant_nodes(graph)),
        made_(constant_.size()),
        needed_(constant_.size()),
        copies_(graph),
        labels_(constant_.size()) {
    for (const NormFold& fold : folds) norms_.emplace(fold.norm, fold);
  }

  SavedModel run() {
    for (const NodeId id : ids(graph_)) look_at(id);
    for (const auto& [norm, fold] : norms_) check_weights(graph_, fold);
    check(!norms_.empty() || corrections_ > 0,
          "no BatchNorm follows a product with weights, and there is no BatchNormCorrection");
    find_needed();
    evaluate();
    for (const NodeId id : ids(graph_)) {
      if (needed_[at(id)]) copies_[id] = copy(id);
    }
    result_.copy_outputs(graph_, copies_);
    Parameters values = make_parameters();
    return {std::move(result_), std::move(values), {}};
  }

 private:
  /// The coefficients of a norm: y = r x + shift.
  struct Factors {
    std::vector<double> r;
    std::vector<double> shift;
  };
  struct FoldedWeight {
    Tensor values;
    std::vector<QParams<double>> qparams = {};
  };

  const Node& node(NodeId id) const { return graph_[id]; }

  void look_at(NodeId id) {
    const Node& own = node(id);
    const bool follows =
        std::ranges::any_of(own.operands, [&](NodeId x) -> bool { return made_[at(x)]; });
    const bool starts = folds_corrections_ && (std::holds_alternative<FoldFactor>(own.op) ||
                                               std::holds_alternative<FoldBias>(own.op));
    made_[at(id)] = constant_[at(id)] && !is_quantizer(own.op) && (starts || follows);
    labels_[at(id)] = own.label;
    if (is_folded_correction(id)) {
      ++corrections_;
      std::string& label = labels_[at(own.operands[0])];
      if (label.empty()) label = own.label;
    }
  }

  bool is_folded_correction(NodeId id) const {
    return folds_corrections_ && std::holds_alternative<BatchNormCorrection>(node(id).op);
  }

  /// Calls `visit` with the operands of a node that the folded graph needs.
  template <class Visit>
  void visit_operands(NodeId id, const Visit& visit) const {
    if (made_[at(id)]) return;
    if (const auto norm = norms_.find(id); norm != norms_.end()) {
      for (NodeId x : node(norm->second.product).operands) {
        if (x != norm->second.weight) visit(x);
      }
      return;
    }
    if (is_folded_correction(id)) {
      visit(node(id).operands[0]);
      return;
    }
    for (NodeId x : node(id).operands) visit(x);
  }

  void find_needed() {
    needed_.assign(needed_.size(), true);
    for (const Node& each : graph_.nodes()) {
      for (NodeId x : each.operands) needed_[at(x)] = false;
    }
    for (NodeId id : graph_.outputs()) needed_[at(id)] = true;
    for (auto i = static_cast<int32_t>(graph_.size()) - 1; i >= 0; --i) {
      if (needed_[at(NodeId{i})]) {
        visit_operands(NodeId{i}, [&](NodeId x) { needed_[at(x)] = true; });
      }
    }
    for (const NodeId id : ids(graph_)) {
      const bool keeps_label = needed_[at(id)] && !made_[at(id)] && !norms_.contains(id) &&
                               !is_folded_correction(id);
      if (keeps_label && !labels_[at(id)].empty()) reserved_.insert(labels_[at(id)]);
    }
  }

  void evaluate() {
    TapeOptions options{.threads = 1};
    for (const NodeId id : ids(graph_)) {
      if (needed_[at(id)] && made_[at(id)]) options.outputs.push_back(id);
    }
    for (const auto& [id, fold] : norms_) {
      const std::vector<NodeId>& norm = node(id).operands;
      options.outputs.insert(options.outputs.end(), norm.begin() + 1, norm.end());
      options.outputs.push_back(fold.weight);
      if (fold.bias.index >= 0) options.outputs.push_back(fold.bias);
    }
    if (options.outputs.empty()) return;
    std::ranges::sort(options.outputs);
    options.outputs.erase(std::unique(options.outputs.begin(), options.outputs.end()),
                          options.outputs.end());
    tape_ = std::make_unique<Tape>(graph_, parameters_, std::move(options));
    tape_->forward(mode::eval);
  }

  NodeId copy(NodeId id) {
    const Node& own = node(id);
    if (made_[at(id)]) return leaf(value_of(id), label_behind(id));
    if (const auto norm = norms_.find(id); norm != norms_.end()) return fold(id, norm->second);
    if (is_folded_correction(id)) {
      return copies_[own.operands[0]];
    }
    std::vector<NodeId> operands;
    for (NodeId x : own.operands) operands.push_back(copies_[x]);
    return result_.add(own.op, operands, labels_[at(id)]);
  }

  NodeId fold(NodeId id, const NormFold& fold) {
    const Factors factors = factors_of(id, fold);
    const Node& weight = node(fold.weight);
    FoldedWeight folded = fold_weight(fold, factors);
    const bool quantized = is_quantizer(weight.op);
    NodeId w = leaf(std::move(folded.values),
                    label_behind(quantized ? weight.operands[0] : fold.weight));
    if (quantized) {
      FakeQuantize quantizer = fixed_along(weight.op, fold.layout.axis);
      for (const QParams<double>& each : folded.qparams) {
        quantizer.floor = std::min(quantizer.floor, each.scale);
      }
      const std::string stem = free_stem(result_[w].label);
      w = add_quantizer(result_, w, quantizer, stem);
      qparams_.emplace_back(w, std::move(folded.qparams));
    }
    std::vector<NodeId> operands;
    for (NodeId x : node(fold.product).operands) {
      operands.push_back(x == fold.weight ? w : copies_[x]);
    }
    const NodeId product =
        result_.add(node(fold.product).op, operands, label_once(fold.product));
    const bool own_bias = fold.bias.index >= 0;
    const NodeId beta = node(id).operands[2];
    NodeId bias = leaf(to_tensor(node(beta).type, factors.shift),
                       label_behind(own_bias ? fold.bias : beta));
    if (fold.rounded || !own_bias) {
      bias = add_rounded_bias(result_, product, bias,
                              free_label(result_[bias].label + ".quantized"));
    }
    return add_views(fold, product, bias);
  }

  /// Adds the sum of product and bias, then the views between product and norm. The last of
  /// these nodes gets the norm's label, or that of the norm's operand if the norm has none.
  NodeId add_views(const NormFold& fold, NodeId product, NodeId bias) {
    const NodeId before = node(fold.norm).operands[0];
    std::string label = free_label(node(fold.norm).label);
    if (label.empty() && before != fold.product) label = label_once(before);
    std::vector<NodeId> views;
    std::string sum_label;
    for (NodeId id : fold.between) {
      if (!adds_bias(node(id).op))
        views.insert(views.begin(), id);
      else if (id != before)
        sum_label = label_once(id);
    }
    NodeId made = result_.add(AddBias{}, {product, bias}, views.empty() ? label : sum_label);
    for (NodeId id : views) {
      made = result_.add(node(id).op, {made}, id == views.back() ? label : label_once(id));
    }
    return made;
  }

  Factors factors_of(NodeId id, const NormFold& fold) const {
    const std::vector<NodeId>& operands = node(id).operands;
    const double eps = std::get<BatchNorm>(node(id).op).eps;
    const std::vector<double> gamma = numbers_of(operands[1]);
    const std::vector<double> beta = numbers_of(operands[2]);
    const std::vector<double> mean = numbers_of(operands[3]);
    const std::vector<double> variance = numbers_of(operands[4]);
    const std::vector<double> bias =
        fold.bias.index >= 0 ? numbers_of(fold.bias) : std::vector<double>(beta.size());
    Factors factors;
    for (size_t c = 0; c < gamma.size(); ++c) {
      const double r = gamma[c] / std::sqrt(variance[c] + eps);
      factors.r.push_back(r);
      factors.shift.push_back(beta[c] + (bias[c] - mean[c]) * r);
    }
    return factors;
  }

  FoldedWeight fold_weight(const NormFold& fold, const Factors& factors) const {
    const Node& weight = node(fold.weight);
    std::vector<double> values = numbers_of(fold.weight);
    const auto for_each = [&](const auto& body) {
      for (int64_t c = 0; c < fold.layout.outputs; ++c) {
        for (int64_t k = 0; k < fold.layout.terms; ++k) {
          body(static_cast<size_t>(c), values[static_cast<size_t>(fold.layout.at(c, k))]);
        }
      }
    };
    if (!is_quantizer(weight.op)) {
      for_each([&](size_t c, double& w) { w *= factors.r[c]; });
      return {to_tensor(weight.type, values)};
    }
    const std::vector<QParams<double>> before = tape_->qparams(fold.weight);
    const CodeLimits limits = grid_of(weight.op).limits;
    FoldedWeight folded;
    for (size_t c = 0; c < factors.r.size(); ++c) {
      const double scale = before[before.size() == 1 ? 0 : c].scale;
      folded.qparams.push_back({scale_after(scale, factors.r[c], weight.type.dtype), 0});
    }
    for_each([&](size_t c, double& w) {
      const double code = std::nearbyint(w / before[before.size() == 1 ? 0 : c].scale);
      const double r = factors.r[c];
      const double turned = r < 0 ? -code : r == 0 ? 0 : code;
      if (turned > limits.q_max || turned < limits.q_min) {
        throw LastingNorm(fold.norm,
                          "{}: the factor of channel {} is {}, and no code of {} is "
                          "the negative of {}; weights with range Narrow can change their sign",
                          graph_.describe(fold.product), c, r, graph_.describe(fold.weight),
                          code);
      }
      w = turned * folded.qparams[c].scale;
    });
    folded.values = to_tensor(weight.type, values);
    return folded;
  }

  /// Returns the scale as stored in its dtype.
  static double scale_after(double scale, double r, DType dtype) {
    if (r == 0) return scale;
    const double exact = scale * std::fabs(r);
    if (exact < double{std::numeric_limits<float>::min()}) {
      return double{std::numeric_limits<float>::min()};
    }
    return dtype == DType::F64 ? exact : double{static_cast<float>(exact)};
  }

  Tensor value_of(NodeId id) const {
    const TensorType& type = node(id).type;
    return dispatch_compute(
        type.dtype, [&]<class T>() { return Tensor::of<T>(type.shape, tape_->value<T>(id)); });
  }

  std::vector<double> numbers_of(NodeId id) const {
    return dispatch_compute(node(id).type.dtype, [&]<class T>() {
      const std::span<const T> values = tape_->value<T>(id);
      return std::vector<double>(values.begin(), values.end());
    });
  }

  static Tensor to_tensor(const TensorType& type, const std::vector<double>& values) {
    return dispatch_compute(type.dtype, [&]<class T>() {
      std::vector<T> rounded;
      for (double each : values) rounded.push_back(static_cast<T>(each));
      return Tensor::of<T>(type.shape, std::span<const T>(rounded));
    });
  }

  NodeId leaf(Tensor value, const std::string& label) {
    const TensorType type = value.type;
    const std::string own = free_label(label);
    values_[own] = std::move(value);
    return result_.add(Parameter{.dtype = type.dtype, .shape = type.shape}, {}, own);
  }

  /// Returns the label of a node, or the first label found by following operands 0.
  std::string label_behind(NodeId id) const {
    while (node(id).label.empty() && !node(id).operands.empty()) id = node(id).operands[0];
    return node(id).label.empty() ? "folded" : node(id).label;
  }

  /// Returns the label of a node that has no copy of its own.
  std::string label_once(NodeId id) const {
    return needed_[at(id)] ? "" : free_label(labels_[at(id)]);
  }

  bool is_free(const std::string& label) const {
    return !reserved_.contains(label) && !result_.find(label);
  }
  /// Returns `label`, with a number appended if it is taken; empty for an empty label.
  std::string free_label(const std::string& label) const {
    const auto taken = [&](const std::string& each) { return !each.empty() && !is_free(each); };
    return unused_label(label, taken, "");
  }
  /// Returns a label that is free for add_quantizer, with a number appended if necessary.
  std::string free_stem(const std::string& label) const {
    const auto taken = [&](const std::string& each) {
      return !is_free(each + ".quantized") || !is_free(each + ".scale");
    };
    return unused_label(label, taken, "");
  }

  Parameters make_parameters() {
    Parameters made(result_, 0);
    for (const ParameterEntry& entry : made.entries()) {
      const auto own = values_.find(entry.name);
      const ParameterEntry* before = parameters_.find(entry.name);
      // A scale of its own for each output may have the name of a single one.
      if (own != values_.end()) {
        made.set(entry.name, own->second);
      } else if (before != nullptr && before->type == entry.type) {
        made.set(entry.name, parameters_.get(entry.name));
      }
    }
    for (const auto& [id, qparams] : qparams_) set_qparams(result_, made, id, qparams);
    return made;
  }

  const Graph& graph_;
  const Parameters& parameters_;
  bool folds_corrections_;
  Graph result_;
  std::vector<bool> constant_;  // depends on no input
  std::vector<bool> made_;      // computed only from the values of a folded norm
  std::vector<bool> needed_;    // has a copy
  NodeMap<NodeId> copies_;
  std::vector<std::string> labels_;  // of copies
  std::set<std::string> reserved_;   // labels of copies
  std::map<NodeId, NormFold> norms_;
  int corrections_ = 0;
  std::unique_ptr<Tape> tape_;
  std::map<std::string, Tensor> values_;  // by label in the result
  std::vector<std::pair<NodeId, std::vector<QParams<double>>>> qparams_;
};

}  // namespace

SavedModel fold_batch_norm(const Graph& graph, const Parameters& parameters) {
  const FloatEnvironment floats;
  std::vector<NormFold> folds = norm_folds(graph);
  std::erase_if(folds, [](const NormFold& each) { return !each.has_product(); });
  return Folder(graph, parameters, folds, true).run();
}

FoldedNorms fold_norms(const Graph& graph, const Parameters& parameters) {
  const FloatEnvironment floats;
  FoldedNorms result;
  std::vector<NormFold> folds = norm_folds(graph);
  std::erase_if(folds, [](const NormFold& each) { return !each.reason.empty(); });
  while (!folds.empty() && !result.model) {
    try {
      result.model = Folder(graph, parameters, folds, false).run();
    } catch (const LastingNorm& error) {
      std::erase_if(folds, [&](const NormFold& each) { return each.norm == error.norm; });
    }
  }
  for (const NormFold& each : folds) result.norms.push_back(each.norm);
  return result;
}

}  // namespace qtape
