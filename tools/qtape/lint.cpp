#include "qtape/deploy/lint.h"

#include <fmt/format.h>

#include "qtape/deploy/any_file.h"
#include "qtape/tools/qtape/commands.h"

namespace qtape::tool {
namespace {

/// NaN is one of the things to find.
std::vector<Finding> findings_of(const std::string& path) {
  AnyFile file = load_any(path, NanValues::Keep);
  return naming<GraphError>(path, [&] {
    if (const auto* program = std::get_if<IntegerProgram>(&file)) return qtape::lint(*program);
    SavedModel& model = std::get<SavedModel>(file);
    return qtape::lint(model.graph, model.parameters);
  });
}

}  // namespace

int64_t lint(const std::string& path, bool notes) {
  int64_t printed = 0;
  int64_t serious = 0;
  for (const Finding& finding : findings_of(path)) {
    const bool note = finding.severity == Severity::Note;
    if (note && !notes) continue;
    fmt::print("{}\n", to_string(finding));
    ++printed;
    serious += note ? 0 : 1;
  }
  if (printed == 0) fmt::print("ok\n");
  return serious;
}

}  // namespace qtape::tool
