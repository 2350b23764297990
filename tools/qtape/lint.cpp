#include "qtape/deploy/lint.h"

#include <fmt/format.h>

#include "qtape/engine/serialize.h"
#include "qtape/tools/qtape/commands.h"

namespace qtape::tool {

int64_t lint(const std::string& path, bool notes) {
  Model model = load_model(path);
  int64_t printed = 0;
  int64_t serious = 0;
  for (const Finding& finding : qtape::lint(model.graph, model.parameters)) {
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
