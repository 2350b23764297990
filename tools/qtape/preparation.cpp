#include "qtape/tools/qtape/preparation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "qtape/core/printable.h"
#include "qtape/model/passes/float_parts.h"
#include "qtape/model/passes/fold_batch_norm.h"
#include "qtape/programs/console/standard_output.h"

namespace qtape::tool {
namespace {

constexpr size_t most_names = 8;

std::string names_of(const std::vector<std::string>& labels) {
  std::vector<std::string> names;
  for (const std::string& each : labels) {
    if (names.size() == most_names) break;
    names.push_back(printable(each));
  }
  const size_t more = labels.size() - names.size();
  return fmt::format("{}{}", fmt::join(names, ", "),
                     more == 0 ? "" : fmt::format(" and {} more", more));
}

}  // namespace

Model fold_all(Model model, Preparation& report) {
  FoldedNorms folded = fold_norms(model.graph(), model.parameters());
  if (!folded.model) return model;
  report.folded_norms = std::move(folded.labels);
  const size_t count = report.folded_norms.size();
  console::print("folded {} batch norm{} into the preceding layer{}: {}\n", count,
                 count == 1 ? "" : "s", count == 1 ? "" : "s", names_of(report.folded_norms));
  return Model(std::move(*folded.model));
}

void judge(const Graph& graph, bool allowed, Preparation& report) {
  report.float_parts = float_parts(graph);
  if (!allowed) {
    require_no_float_parts(report.float_parts, "--float-parts leaves them in floats");
  }
  for (const Finding& part : report.float_parts) {
    console::print("remains in floats: {}: {}; {}\n", part.node, part.what, part.remedy);
  }
}

Model prepared(Model model, bool float_parts, Preparation& report) {
  Model folded = fold_all(std::move(model), report);
  judge(folded.graph(), float_parts, report);
  return folded;
}

}  // namespace qtape::tool
