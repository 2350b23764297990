#include "qtape/tools/qtape/options.h"

#include "qtape/model/recipe.h"
#include "qtape/tools/qtape/preparation.h"

namespace qtape::tool {

void add_model(CLI::App& command, std::string& model) {
  command.add_option("model", model, "model file")->required();
}

void add_file(CLI::App& command, std::string& file) {
  command.add_option("file", file, "file of a model or an integer program")->required();
}

void add_data_files(CLI::App& command, DataOptions& data) {
  command.add_option("--data", data.directory, "directory with MNIST-format IDX files");
  command
      .add_option(
          "--holdout", data.holdout,
          "evaluate on this many of the last training samples, which are used for nothing "
          "else, instead of the test samples")
      ->check(range<int64_t>(0, 1000000))
      ->capture_default_str();
  command.add_option(
      "--input", data.input,
      "inputs, samples along the first axis: a .npy, .npz or .safetensors file; FILE:NAME if "
      "it holds several arrays");
  command.add_option("--labels", data.labels, "the same for their labels or targets");
}

void add_data(CLI::App& command, DataOptions& data, int& threads) {
  add_data_files(command, data);
  command.add_option("--threads", threads, "threads")
      ->check(range(1, 1024))
      ->capture_default_str();
}

void add_json(CLI::App& command, std::string& json) {
  command.add_option("--json", json,
                     "write the printed results here as JSON; - is standard output");
}

void add_weight_codes(CLI::App& command, std::string& codes) {
  command
      .add_option(
          "--weight-codes", codes,
          "codes of the weights of new quantizers; by default Narrow, but calibrate uses Full "
          "up to 4 bits if no batch norm follows")
      ->transform(CLI::IsMember({"Narrow", "Full"}, CLI::ignore_case));
}

void add_float_parts(CLI::App& command, bool& float_parts) {
  command.add_flag("--float-parts", float_parts, float_parts_help);
}

void add_scales(CLI::App& command, std::string& scales) {
  std::vector<std::string> names(enum_names<ScaleOrigin>.begin(),
                                 enum_names<ScaleOrigin>.end());
  // Has no integers.
  std::erase(names, to_string_view(ScaleOrigin::PerBatch));
  command
      .add_option(
          "--scales", scales,
          "source of the scales of new quantizers; by default LSQ up to 3 bits, otherwise "
          "EMA")
      ->transform(CLI::IsMember(names, CLI::ignore_case));
}

void add_requantization(CLI::App& command, std::string& name,
                        const std::vector<std::string>& more) {
  std::vector<std::string> names(enum_names<Requantization>.begin(),
                                 enum_names<Requantization>.end());
  names.insert(names.end(), more.begin(), more.end());
  command.add_option("--requantization", name, "conversion of accumulators to codes")
      ->transform(CLI::IsMember(names, CLI::ignore_case))
      ->capture_default_str();
}

CLI::Validator not_empty() {
  return {[](const std::string& text) {
            return text.empty() ? std::string("must not be empty") : std::string();
          },
          ""};
}

}  // namespace qtape::tool
