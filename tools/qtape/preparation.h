// Preparation of a model before quantization, with its report.
#pragma once

#include <string>
#include <vector>

#include "qtape/deploy/lint.h"
#include "qtape/model/model.h"
#include "qtape/model/passes/rewrite_layers.h"

namespace qtape::tool {

/// Returns the bits that the codes of a quantizer need, as a number without sign.
int code_bits(const Graph& graph, NodeId quantizer);

/// The changes to a model, and its parts without an integer form.
struct Preparation {
  std::vector<std::string> folded_norms = {};
  std::vector<std::string> rewritten_layers = {};
  std::vector<Finding> float_parts = {};
  std::vector<Finding> unquantized_parts = {};

  static constexpr auto fields() {
    using P = Preparation;
    return std::tuple{field("folded_norms", &P::folded_norms,
                            "labels of batch norms folded into preceding layers"),
                      field("rewritten_layers", &P::rewritten_layers,
                            "labels of scales, offsets and transposed convolutions that became "
                            "other layers"),
                      field("float_parts", &P::float_parts,
                            "nodes without an integer form; see --float-parts"),
                      field("unquantized_parts", &P::unquantized_parts,
                            "nodes of a model with quantizers that lack others; calibrate "
                            "--complete adds them")};
  }
};

/// That of a model that is trained afterwards.
struct TrainingPreparation : Preparation {
  std::vector<std::string> training_norms = {};

  static constexpr auto fields() {
    using P = TrainingPreparation;
    return std::tuple_cat(
        std::tuple{
            field("training_norms", &P::training_norms,
                  "labels of batch norms that are kept in training, folded into weights in "
                  "each step")},
        Preparation::fields());
  }
};

/// Help of --float-parts.
inline constexpr const char* float_parts_help =
    "leave nodes without an integer form in floats, instead of refusing the model";

/// Returns the model with its layers rewritten for integers (`rewrite_layers`), and prints what
/// has changed. Sets `refused` to the nodes whose values have no codes.
Model rewritten(Model model, Preparation& report, std::vector<Finding>& refused);
/// Returns the model with its batch norms as norms that are folded while they train
/// (`with_training_norms`), and prints them.
Model with_training_norms(Model model, TrainingPreparation& report);
/// Returns a model without its last Softmax and LogSoftmax nodes, and prints them.
SavedModel before_softmax(SavedModel model);
Model before_softmax(Model model);
/// Throws GraphError that lists the parts of the model without an integer form, and `more`;
/// prints the list instead if `allowed`.
void judge(const Graph& graph, bool allowed, Preparation& report,
           std::vector<Finding> more = {});
/// Does the same for parts that lack quantizers in a model that has others.
void judge_unquantized(const Graph& graph, bool allowed, Preparation& report);
/// Does the same for quantizers added since then, for parts that `report` does not list yet,
/// such as products whose weights have too many bits.
void judge_quantized(const Graph& graph, bool allowed, Preparation& report);
/// Returns the parts of a graph without quantizers that have no integer form once its layers
/// are rewritten: nodes of `later`, named without their indices, which the file does not have.
std::vector<Finding> float_parts_later(const Graph& graph, const RewrittenLayers& later);
/// Prints which batch norms are kept until the model is quantized, and applies judge to the
/// layers that it will then have.
void judge_rewritten(const Graph& graph, const Parameters& parameters, bool allowed,
                     TrainingPreparation& report);
/// Prints the number of warnings that `lint` gives for a model with quantizers, saved as
/// `file`.
void say_warnings(const Graph& graph, const Parameters& parameters, const std::string& file);
/// Applies rewritten, then judge. Throws GraphError for values without codes, also if
/// `float_parts`.
Model prepared(Model model, bool float_parts, Preparation& report);

}  // namespace qtape::tool
