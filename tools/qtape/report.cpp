#include "qtape/engine/files.h"
#include "qtape/examples/shared/output_files.h"
#include "qtape/report/page.h"
#include "qtape/tools/qtape/commands.h"

namespace qtape::tool {

void write_report(const std::vector<std::string>& runs, const std::string& output) {
  examples::OutputFiles files;
  files.expect_text("--output", output);
  std::vector<report::RunRecord> records;
  for (const std::string& each : runs) records.push_back(report::read_run(each));
  files.write(output, report::run_page(records));
  files.require_written();
}

}  // namespace qtape::tool
