#include <fmt/format.h>

#include "qtape/arrays/arrays.h"
#include "qtape/deploy/any_file.h"
#include "qtape/engine/files.h"
#include "qtape/examples/shared/output_files.h"
#include "qtape/model/model.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/data.h"
#include "qtape/tools/qtape/json_report.h"

namespace qtape::tool {
namespace {

void print(const EvaluationReport& report) {
  fmt::print("{} samples{}\noutputs sha256 {}\n", report.samples,
             report.accuracy ? fmt::format(", accuracy {:.2f} %", *report.accuracy) : "",
             report.outputs_sha256);
}

}  // namespace

void replay(const ReplayOptions& options) {
  require<ArgumentError>(options.answers.empty() || options.quantize,
                         "--output holds quantized answers; it does not go with --float");
  if (!options.answers.empty()) require_array_file(options.answers);
  examples::OutputFiles files;
  files.expect("--output", options.answers);
  files.reads({options.model});
  files.reads(options.data.paths());
  files.expect_text("--json", options.json);
  AnyFile file = load_any(options.model);
  const auto* program = std::get_if<IntegerProgram>(&file);
  require<ArgumentError>(program == nullptr || options.quantize,
                         "--float: {} is an integer program, which has no quantizers",
                         options.model);
  auto* model = std::get_if<SavedModel>(&file);
  const int64_t features =
      program != nullptr ? features_of(*program) : features_of(model->graph);
  const data::Dataset images = load_data(options.data, features).test;
  const EvaluationReport report = report_of(naming<GraphError>(options.model, [&] {
    if (program != nullptr) return evaluate(*program, images, options.threads);
    return Evaluator(model->graph, model->parameters, options.threads)
        .run(images, options.quantize ? mode::eval : mode::float_eval);
  }));
  print(report);
  if (!options.answers.empty()) {
    const Tensor answers = naming<GraphError>(options.model, [&] {
      if (program != nullptr) return predict(*program, images, options.threads);
      return predict(Model(std::move(*model)), images, options.threads);
    });
    const std::string bytes = to_array_file(options.answers, {{"answers", answers}});
    files.save(options.answers, [&](const std::string& path) { write_file(path, bytes); });
  }
  write_report(files, options.json, report);
  files.require_written();
}

}  // namespace qtape::tool
