// What commands do to a model before they quantize it, and what they say of it.
#pragma once

#include <string>
#include <vector>

#include "qtape/deploy/lint.h"
#include "qtape/model/model.h"

namespace qtape::tool {

/// What was done, and what will have no integers.
struct Preparation {
  std::vector<std::string> folded_norms = {};
  std::vector<Finding> float_parts = {};

  static constexpr auto fields() {
    using P = Preparation;
    return std::tuple{
        field("folded_norms", &P::folded_norms, "labels of batch norms in layers before them"),
        field("float_parts", &P::float_parts, "what has no integers; see --float-parts")};
  }
};

/// Help of --float-parts.
inline constexpr const char* float_parts_help =
    "leave in floats what has no integers, instead of refusing the model";

/// The model with batch norms folded into the products before them where that can be done;
/// which is printed.
Model fold_all(Model model, Preparation& report);
/// Throws GraphError that lists what of the model will have no integers or, where these are
/// `allowed`, prints it.
void judge(const Graph& graph, bool allowed, Preparation& report);
/// Both.
Model prepared(Model model, bool float_parts, Preparation& report);

}  // namespace qtape::tool
