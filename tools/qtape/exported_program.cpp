#include "qtape/tools/qtape/exported_program.h"

#include "qtape/engine/quantizers.h"
#include "qtape/integer/program/channels_first.h"
#include "qtape/integer/program/integer_outputs.h"
#include "qtape/model/passes/float_parts.h"
#include "qtape/tools/qtape/preparation.h"

namespace qtape::tool {

IntegerProgram in_layout(IntegerProgram program, Layout layout) {
  return layout == Layout::nchw ? channels_first(program) : std::move(program);
}

IntegerProgram converted(const SavedModel& model, const std::string& path,
                         const ConvertOptions& options, Layout layout) {
  return naming<GraphError>(path, [&] {
    try {
      return in_layout(convert(model.graph, model.parameters, options), layout);
    } catch (const GraphError& error) {
      const bool partly =
          !quantizers(model.graph).empty() && !unquantized_parts(model.graph).empty();
      if (!partly) throw;
      fail<GraphError>("{}; qtape calibrate --complete adds quantizers that are missing",
                       error.what());
    }
  });
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
  return converted(model, path, options, layout);
}

}  // namespace qtape::tool
