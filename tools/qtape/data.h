// The data that commands run models on.
#pragma once

#include <string>
#include <vector>

#include "qtape/data/dataset.h"
#include "qtape/engine/graph.h"
#include "qtape/integer/integer_program.h"

namespace qtape::tool {

/// Where data come from, as the command line says it.
struct DataOptions {
  std::string directory = {};  ///< with MNIST-format files
  std::string input = {};      ///< file of inputs, see data::arrays
  std::string labels = {};     ///< the same of what models should answer; may be empty
  /// The same to test with; without it, those above, or nothing where a command trains on them.
  std::string test_input = {};
  std::string test_labels = {};
  bool trains = false;
  std::string digits = "Plain";  ///< name of the DigitKind to generate
  int64_t holdout = 0;           ///< last training samples in the place of the test samples

  /// The files and the folder that these name; some may be empty.
  std::vector<std::string> paths() const;
  bool given() const { return !directory.empty() || !input.empty(); }
};

/// Elements of a sample of the first batched input; 0 where there is none.
int64_t features_of(const Graph& graph);
int64_t features_of(const IntegerProgram& program);

/// The data that `options` name or, where they name none, what programs generate that train on
/// `features`: keywords where these have as many, else digits; `samples` of them for training.
/// Throws ArgumentError for options that exclude each other, IoError or FormatError.
data::Split load_data(const DataOptions& options, int64_t features, int64_t samples = 0);

}  // namespace qtape::tool
