#include "qtape/deploy/convert.h"

#include <fmt/format.h>

#include <filesystem>

#include "qtape/engine/serialize.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/naming.h"

namespace qtape::tool {

void convert(const ConvertCommand& command) {
  Model model = load_model(command.model);
  const auto before = static_cast<double>(std::filesystem::file_size(command.model));
  std::error_code missing;
  require<ArgumentError>(!std::filesystem::equivalent(command.model, command.output, missing),
                         "--output: {} is the model itself", command.output);
  const IntegerProgram program = naming(command.model, [&] {
    return qtape::convert(
        model.graph, model.parameters,
        {.profile = command.profile, .integer_outputs = command.integer_outputs});
  });
  save_program(command.output, program);
  const auto after = static_cast<double>(std::filesystem::file_size(command.output));
  fmt::print("{}\nsaved {}: {:.0f} bytes, {:.1f} % of {}\n", to_string(program), command.output,
             after, 100 * after / before, command.model);
}

}  // namespace qtape::tool
