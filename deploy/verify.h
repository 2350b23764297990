// Verification: runs the same samples at every level of arithmetic and compares all integers.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qtape/core/fields.h"
#include "qtape/core/held.h"
#include "qtape/core/thread_count.h"
#include "qtape/deploy/convert.h"
#include "qtape/deploy/level.h"

namespace qtape {

/// Options of conversion and of the run.
struct VerifyOptions {
  ConvertOptions convert = {};
  int64_t batch = 250;  ///< samples per run, at least 1
  int threads = default_threads();
  /// Levels to run; L2 always runs. L0 is compared with L1, all others with L2. For a program
  /// without a model, the default is the levels from L2 on.
  std::vector<Level> levels = {default_levels.begin(), default_levels.end()};
  /// Runners of levels that other libraries provide, such as `onnx_levels()` of qtape::onnx.
  RunnerFactories runners = {};
};

/// Result of the comparison of one node.
struct LayerComparison {
  std::string label;
  bool accumulators = false;  ///< true: accumulators, false: codes
  int64_t compared = 0;       ///< number of integers
  /// By level: number of integers that differ from L2; for L0, from L1. Levels that do not
  /// provide the integers have no entry.
  std::map<Level, int64_t> differences = {};
  /// By level, except L0: the largest difference.
  std::map<Level, int64_t> largest = {};

  /// Returns the number of differences at all levels except L0; must be 0.
  int64_t mismatches() const;
};

/// The first pair of integers that should be equal but differ.
struct Mismatch {
  Level first = Level::Exact;
  Level second = Level::Reference;
  std::string label;
  int64_t sample = 0;  ///< from 0, over all runs
  int64_t index = 0;   ///< within the sample
  int64_t first_code = 0;
  int64_t second_code = 0;
  /// The accumulator from which the reference computed the code, if there is one.
  std::optional<int64_t> accumulator;

  static constexpr auto fields() {
    using M = Mismatch;
    return std::tuple{field("label", &M::label, "of the node"),
                      field("sample", &M::sample, "from 0, over all runs"),
                      field("index", &M::index, "within the sample"),
                      field("first", &M::first, "one level"),
                      field("first_code", &M::first_code, "its value"),
                      field("second", &M::second, "the other level"),
                      field("second_code", &M::second_code, "its value"),
                      field("accumulator", &M::accumulator, "from which the code is made")};
  }
};
/// Returns one line that states where the levels differ and their values.
std::string to_string(const Mismatch& mismatch);

/// Runs samples at all levels. `parameters` are only read and must outlive the verifier.
/// Movable, not copyable; access to the program of a moved-from verifier throws GraphError.
class Verifier {
 public:
  /// Throws like convert, and ArgumentError for options out of range and for a program without
  /// inputs.
  Verifier(const Graph& graph, const Parameters& parameters, const VerifyOptions& options);
  /// Verifier with hooks for tests, see integer/program/session_hooks.h.
  Verifier(const Graph& graph, const Parameters& parameters, const VerifyOptions& options,
           const SessionHooks& hooks);
  /// Verifier of a program alone: `options.convert` has no effect. Compares all codes and
  /// accumulators; outputs that are integers are compared as floats as well. Throws
  /// ArgumentError for L0 and L1, which need a model, and GraphError for a batch size that the
  /// program does not support.
  Verifier(const IntegerProgram& program, const VerifyOptions& options);
  Verifier(Verifier&&) noexcept;
  Verifier& operator=(Verifier&&) noexcept;
  ~Verifier();

  /// Returns the inputs of program(), in order.
  std::span<const ProgramNodeId> inputs() const { return subject_->inputs; }
  /// Returns the memory for samples of one input, [batch, ...]: f32 or, for indices, int32_t.
  /// Throws ArgumentError if the input does not exist or T is not its dtype.
  template <class T = float>
  std::span<T> input(size_t which = 0) {
    const std::span<std::byte> found = input_bytes(which, dtype_of<T>);
    return {reinterpret_cast<T*>(found.data()), found.size() / sizeof(T)};
  }
  /// Runs the samples and compares the first `rows`. Throws GraphError for NaN.
  void run(int64_t rows);

  /// Returns the first output's values of the last run, f32 of the program's output type.
  /// Throws ArgumentError for a level that does not run.
  std::span<const float> output(Level level) const;
  /// Returns the levels that run, in order.
  std::vector<Level> levels() const;
  const std::vector<LayerComparison>& layers() const& { return layers_; }
  std::vector<LayerComparison> layers() && { return std::move(layers_); }
  /// Number of f32 output values that are not bit-identical between L2 and other levels; the
  /// second function compares L0 with L1.
  int64_t output_mismatches() const { return output_mismatches_; }
  int64_t float_output_mismatches() const { return float_output_mismatches_; }
  /// Returns the number of integers and outputs that should be equal but differ.
  int64_t mismatches() const;
  const std::optional<Mismatch>& first_mismatch() const& { return first_; }
  std::optional<Mismatch> first_mismatch() && { return std::move(first_); }
  /// Returns the graph for batches of the verifier; without nodes if there is only a program.
  const Graph& graph() const { return subject_->graph; }
  const IntegerProgram& program() const& { return subject_->conversion.program; }
  IntegerProgram program() && { return subject_->conversion.program; }
  /// Explains how a level computes: how L3 multiplies, one line per product with weights, or
  /// where L7 runs. Empty for levels without an explanation and for those that do not run.
  std::string report(Level level = Level::Backend) const;

 private:
  void hold(LevelSubject subject);
  /// Prepares memory and runners for the subject.
  void prepare(const Parameters& parameters, const VerifyOptions& options,
               const SessionHooks& hooks);
  /// Throws ArgumentError unless outputs have a row for each sample, or none that depends on
  /// it.
  void require_rows(Level level) const;
  const LevelRunner* runner(Level level) const;
  std::span<std::byte> input_bytes(size_t which, DType dtype);
  int64_t compared(const TensorType& type, int64_t rows) const;
  void compare(size_t i, int64_t rows);
  void compare(Level level, size_t i, int64_t elements);
  void compare_output(size_t which, int64_t rows);
  void note(Level other, size_t i, int64_t k, int64_t reference, int64_t came);

  int64_t batch_ = 0;
  int64_t samples_ = 0;
  Held<LevelSubject> subject_{"verifier", nullptr};
  std::vector<Tensor> fed_values_;  // by input
  std::map<Level, std::unique_ptr<LevelRunner>> runners_;
  std::vector<LayerComparison> layers_;
  int64_t output_mismatches_ = 0;
  int64_t float_output_mismatches_ = 0;
  std::optional<Mismatch> first_;
};

}  // namespace qtape
