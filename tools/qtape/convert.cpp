#include "qtape/deploy/convert.h"

#include <fmt/format.h>

#include <filesystem>

#include "qtape/engine/serialize.h"
#include "qtape/examples/shared/output_files.h"
#include "qtape/tools/qtape/commands.h"

namespace qtape::tool {

void convert(const ConvertCommand& command) {
  SavedModel model = load_model(command.model);
  const auto before = static_cast<double>(std::filesystem::file_size(command.model));
  examples::OutputFiles files;
  files.expect_text("--output", command.output);
  std::error_code missing;
  require<ArgumentError>(!std::filesystem::equivalent(command.model, command.output, missing),
                         "--output: {} is the model itself", command.output);
  const IntegerProgram program = naming<GraphError>(command.model, [&] {
    return qtape::convert(
        model.graph, model.parameters,
        {.requantization = command.requantization, .integer_outputs = command.integer_outputs});
  });
  fmt::print("{}\n", to_string(program));
  if (command.output == "-") {
    files.write(command.output, to_json(program));
    return files.require_written();
  }
  files.save(command.output, [&](const std::string& path) { save_program(path, program); });
  files.require_written();
  const auto after = static_cast<double>(std::filesystem::file_size(command.output));
  fmt::print("{:.0f} bytes, {:.1f} % of {}\n", after, 100 * after / before, command.model);
}

}  // namespace qtape::tool
