// Verification: the same samples through every level of arithmetic, compared integer by
// integer.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "qtape/core/fields.h"
#include "qtape/core/thread_count.h"
#include "qtape/deploy/convert.h"
#include "qtape/deploy/level.h"

namespace qtape {

/// What is converted, and how its samples are run.
struct VerifyOptions {
  ConvertOptions convert = {};
  int64_t batch = 250;  ///< samples at once, at least 1
  int threads = default_threads();
  /// What runs; L2 does in any case. L0 is compared with L1, all others with L2.
  std::vector<Level> levels = {usual_levels.begin(), usual_levels.end()};
  /// What runs levels that this library does not, as `onnx_levels()` of qtape::onnx.
  RunnerFactories runners = {};
};

/// What was compared of one node.
struct LayerComparison {
  std::string label;
  bool accumulators = false;  ///< accumulators instead of codes
  int64_t compared = 0;       ///< integers
  /// By level: how many of them are others than those of L2, of L0 than those of L1. Nothing of
  /// levels that do not tell them.
  std::map<Level, int64_t> differences = {};
  /// The largest of them by level, but of L0.
  std::map<Level, int64_t> largest = {};

  /// Those that must not be: of all levels but L0.
  int64_t mismatches() const;
};

/// The first pair of integers that differ although they must not.
struct Mismatch {
  Level first = Level::Exact;
  Level second = Level::Reference;
  std::string label;
  int64_t sample = 0;  ///< from 0, over all runs
  int64_t index = 0;   ///< within the sample
  int64_t first_code = 0;
  int64_t second_code = 0;
  /// The sum that the reference made the code of, where it was made of one.
  std::optional<int64_t> accumulator;

  static constexpr auto fields() {
    using M = Mismatch;
    return std::tuple{field("label", &M::label, "of the node"),
                      field("sample", &M::sample, "from 0, over all runs"),
                      field("index", &M::index, "within the sample"),
                      field("first", &M::first, "one level"),
                      field("first_code", &M::first_code, "what it has"),
                      field("second", &M::second, "the other level"),
                      field("second_code", &M::second_code, "what it has"),
                      field("accumulator", &M::accumulator, "that the code is made of")};
  }
};
/// One line that says where the levels differ and by what.
std::string to_string(const Mismatch& mismatch);

/// Runs samples through all levels. `parameters` are read only and must outlive it.
class Verifier {
 public:
  /// Throws as convert does, and ArgumentError for options out of range and for a program
  /// without inputs.
  Verifier(const Graph& graph, Parameters& parameters, const VerifyOptions& options);
  /// The same as tests ask for it, see integer/session_hooks.h.
  Verifier(const Graph& graph, Parameters& parameters, const VerifyOptions& options,
           const SessionHooks& hooks);

  /// The inputs of program(), in its order.
  std::span<const NodeId> inputs() const { return subject_->inputs; }
  /// Where the samples of one of them go, f32 [batch, ...]. Throws ArgumentError for one that
  /// does not exist.
  std::span<float> input(size_t which = 0);
  /// Runs them and compares the first `rows`. Throws GraphError for NaN.
  void run(int64_t rows);

  /// The first output's values of the last run, f32 of the program's output type. Throws
  /// ArgumentError for a level that does not run.
  std::span<const float> output(Level level) const;
  /// What runs, in order.
  std::vector<Level> levels() const;
  const std::vector<LayerComparison>& layers() const { return layers_; }
  /// f32 values of outputs whose bits differ between L2 and another level, and between L0 and
  /// L1.
  int64_t output_mismatches() const { return output_mismatches_; }
  int64_t float_output_mismatches() const { return float_output_mismatches_; }
  /// Integers and outputs that must be equal and are not.
  int64_t mismatches() const;
  const std::optional<Mismatch>& first_mismatch() const { return first_; }
  const IntegerProgram& program() const { return subject_->conversion.program; }
  /// How L3 multiplies, a line for each product with weights; empty where it does not run.
  std::string report() const;

 private:
  const LevelRunner* runner(Level level) const;
  int64_t compared(const TensorType& type, int64_t rows) const;
  void compare(size_t i, int64_t rows);
  void compare(Level level, size_t i, int64_t elements);
  void compare_output(size_t which, int64_t rows);
  void note(Level other, size_t i, int64_t k, int64_t reference, int64_t came);

  int64_t batch_ = 0;
  int64_t samples_ = 0;
  std::unique_ptr<LevelSubject> subject_;
  std::vector<std::vector<float>> fed_values_;  // by input
  std::map<Level, std::unique_ptr<LevelRunner>> runners_;
  std::vector<LayerComparison> layers_;
  int64_t output_mismatches_ = 0;
  int64_t float_output_mismatches_ = 0;
  std::optional<Mismatch> first_;
};

}  // namespace qtape
