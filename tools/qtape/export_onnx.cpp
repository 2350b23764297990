#include <fmt/format.h>

#include "qtape/engine/files.h"
#include "qtape/examples/shared/output_files.h"
#include "qtape/onnx/export.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/exported_program.h"
#include "qtape/tools/qtape/json_report.h"

namespace qtape::tool {
namespace {

struct OnnxReport {
  OnnxForm form = OnnxForm::Qdq;
  int64_t opset = 0;
  int64_t nodes = 0;
  int64_t bytes = 0;

  static constexpr auto fields() {
    using R = OnnxReport;
    return std::tuple{field("form", &R::form, "of products"),
                      field("opset", &R::opset, "version of the operators"),
                      field("nodes", &R::nodes, "of the program"),
                      field("bytes", &R::bytes, "of the file")};
  }
};

}  // namespace

void export_onnx(const ExportOnnxCommand& command) {
  examples::OutputFiles files;
  files.expect("--output", command.output);
  files.reads({command.file});
  files.expect_text("--json", command.json);
  const IntegerProgram program = exported_program(
      command.file, std::nullopt, Requantization::OnnxQdq, command.integer_outputs);
  const std::string bytes = naming<GraphError>(command.file, [&] {
    return to_onnx(program, {.form = command.form, .opset = command.opset});
  });
  const OnnxReport report{command.form, command.opset, program.size(), std::ssize(bytes)};
  files.save(command.output, [&](const std::string& path) { write_file(path, bytes); });
  fmt::print("{} nodes, opset {}, {} bytes\n", report.nodes, report.opset, report.bytes);
  write_report(files, command.json, report);
  files.require_written();
}

}  // namespace qtape::tool
