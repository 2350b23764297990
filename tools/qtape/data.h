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
  int64_t holdout = 0;  ///< last training samples in the place of the test samples

  /// The files and the folder that these name; some may be empty.
  std::vector<std::string> paths() const;
  bool given() const { return !directory.empty() || !input.empty(); }
};

/// What a command needs data for.
struct DataNeeds {
  std::string file;                 ///< a model or a program
  std::vector<std::string> inputs;  ///< `'x' f32[784]`, dtype and shape of a sample
  std::string otherwise = {};       ///< what else helps: `, or --random COUNT`
};
/// The inputs that the answers of a model or a program need.
DataNeeds needs_of(const std::string& file, const Graph& graph);
DataNeeds needs_of(const std::string& file, const IntegerProgram& program);

/// The data that `options` name. Throws ArgumentError where they name none, which says what is
/// needed, and for options that exclude each other, IoError or FormatError.
data::Split load_data(const DataOptions& options, const DataNeeds& needs);

}  // namespace qtape::tool
