// Data on which commands run models.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "qtape/core/described_settings.h"
#include "qtape/core/error.h"
#include "qtape/data/files.h"
#include "qtape/engine/graph.h"
#include "qtape/integer/program/integer_program.h"

namespace qtape::tool {

/// Source of the data, as given on the command line.
struct DataOptions {
  std::string directory = {};  ///< with MNIST-format files
  std::string input = {};      ///< file of inputs, see data::arrays
  std::string labels = {};     ///< file of labels or targets, see data::arrays; may be empty
  /// Files for testing. If empty, the files above are used, or none if the command trains on
  /// them.
  std::string test_input = {};
  std::string test_labels = {};
  data::ChannelOrder channels = data::ChannelOrder::Detect;
  bool trains = false;
  int64_t holdout = 0;  ///< number of last training samples that replace the test samples

  static constexpr auto fields() {
    using settings::setting;
    using D = DataOptions;
    return std::tuple{
        setting("data", &D::directory, "directory with MNIST-format IDX files"),
        setting(
            "holdout", &D::holdout,
            "evaluate on this many of the last training samples, which are used for nothing "
            "else, instead of the test samples",
            {0, 1000000}),
        setting("input", &D::input,
                "inputs, samples along the first axis: a .npy, .npz or .safetensors file; of "
                "several arrays, those with the names of the inputs, or FILE:NAME; or a "
                "folder of .npy files"),
        setting("channels", &D::channels,
                "place of the channels in the arrays of --input: Detect: last, or first if the "
                "extents fit only that way; First: before the other axes, as in PyTorch; Last"),
        setting("labels", &D::labels,
                "labels or targets, in the same formats; from a file of several arrays, those "
                "with the names of the outputs of a model that has several")};
  }

  /// Returns all files and folders named here; some may be empty.
  std::vector<std::string> paths() const;
  bool given() const { return !directory.empty() || !input.empty(); }
};

/// The data requirements of a command, for messages.
struct DataNeeds {
  std::string file;                 ///< `'x' f32[784]`, with dtype and shape of a sample
  std::vector<std::string> inputs;  ///< `'x' f32[784]`, dtype and shape of a sample
  std::vector<data::WantedInput> wanted = {};
  std::vector<data::WantedInput> answers = {};
  std::vector<data::WantedInput> others = {};  ///< inputs of losses alone
  std::string otherwise = {};                  ///< alternative to data: `, or --random COUNT`
};
/// Return the answers of a model or a program, and the inputs that they need.
DataNeeds needs_of(const std::string& file, const Graph& graph);
DataNeeds needs_of(const std::string& file, const IntegerProgram& program);

/// Throws `error`, which is being handled, again; one of a NaN that was read also names the
/// first sample of `dataset` with a NaN.
[[noreturn]] void rethrow_with_nan(const GraphError& error, const data::Dataset& dataset);

/// Returns what `run` returns, which runs samples of `dataset`.
template <class Run>
auto naming_nan(const data::Dataset& dataset, const Run& run) {
  try {
    return run();
  } catch (const GraphError& error) {
    rethrow_with_nan(error, dataset);
  }
}

/// Throws ArgumentError for options that lack others, or exclude each other. `load_data` does
/// as well.
void check_options(const DataOptions& options);

/// Returns the data without targets that are values instead of classes of `graph`, of which a
/// last Softmax was left out, and says so: its operand cannot be compared with them.
data::Dataset without_probabilities(data::Dataset set, const Graph& graph);

/// Loads the data that `options` name. Throws ArgumentError, which states the requirements, if
/// they name none, ArgumentError for conflicting options, and IoError or FormatError.
data::Split load_data(const DataOptions& options, const DataNeeds& needs);

}  // namespace qtape::tool
