// Preparation of a model before quantization, with its report.
#pragma once

#include <string>
#include <vector>

#include "qtape/deploy/lint.h"
#include "qtape/model/model.h"

namespace qtape::tool {

/// The changes to a model, and its parts without an integer form.
struct Preparation {
  std::vector<std::string> folded_norms = {};
  std::vector<Finding> float_parts = {};

  static constexpr auto fields() {
    using P = Preparation;
    return std::tuple{field("folded_norms", &P::folded_norms,
                            "labels of batch norms folded into preceding layers"),
                      field("float_parts", &P::float_parts,
                            "nodes without an integer form; see --float-parts")};
  }
};

/// Help of --float-parts.
inline constexpr const char* float_parts_help =
    "leave nodes without an integer form in floats, instead of refusing the model";

/// Returns the model with batch norms folded into the preceding products where possible, and
/// prints them.
Model fold_all(Model model, Preparation& report);
/// Throws GraphError that lists the parts of the model without an integer form; prints the list
/// instead if `allowed`.
void judge(const Graph& graph, bool allowed, Preparation& report);
/// Applies fold_all, then judge.
Model prepared(Model model, bool float_parts, Preparation& report);

}  // namespace qtape::tool
