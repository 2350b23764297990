#include "qtape/tools/qtape/exported_program.h"

#include "qtape/deploy/any_file.h"
#include "qtape/deploy/convert.h"
#include "qtape/integer/program/channels_first.h"
#include "qtape/integer/program/integer_outputs.h"
#include "qtape/tools/qtape/preparation.h"

namespace qtape::tool {

IntegerProgram in_layout(IntegerProgram program, Layout layout) {
  return layout == Layout::nchw ? channels_first(program) : std::move(program);
}

IntegerProgram exported_program(AnyFile& file, const std::string& path,
                                std::optional<Requantization> requantization,
                                Requantization usual, bool integer_outputs, Layout layout) {
  if (auto* program = std::get_if<IntegerProgram>(&file)) {
    require<ArgumentError>(!requantization || *requantization == program->requantization(),
                           "--requantization: {} is already a program of {}", path,
                           to_string_view(program->requantization()));
    return naming<GraphError>(path, [&] {
      return in_layout(integer_outputs ? with_integer_outputs(*program) : *program, layout);
    });
  }
  auto& model = std::get<SavedModel>(file);
  model = before_softmax(std::move(model));
  ConvertOptions options;
  options.requantization = requantization.value_or(usual);
  options.integer_outputs = integer_outputs;
  return naming<GraphError>(
      path, [&] { return in_layout(convert(model.graph, model.parameters, options), layout); });
}

}  // namespace qtape::tool
