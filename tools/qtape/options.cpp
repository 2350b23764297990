#include "qtape/tools/qtape/options.h"

#include "qtape/tools/qtape/preparation.h"

namespace qtape::tool {

void add_model(CLI::App& command, std::string& model) {
  command.add_option("model", model, "model: JSON, ONNX or .tflite file")->required();
}

void add_file(CLI::App& command, std::string& file) {
  command.add_option("file", file, "model or program: JSON, ONNX or .tflite file")->required();
}

void add_data(CLI::App& command, DataOptions& data, int& threads) {
  add_settings(command, data);
  command.get_option("--channels")->needs("--input");
  add_option(command, "--threads", threads, "threads", {1, 1024});
}

void add_output(CLI::App& command, std::string& output, const std::string& doc) {
  command.add_option("-o,--output", output, doc)->required();
}

void add_json(CLI::App& command, std::string& json) {
  command.add_option("--json", json,
                     "write the printed results here as JSON; - is standard output");
}

void add_float_parts(CLI::App& command, bool& float_parts) {
  command.add_flag("--float-parts", float_parts, float_parts_help);
}

}  // namespace qtape::tool
