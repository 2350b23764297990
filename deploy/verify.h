// Verification: the same samples through every level of arithmetic, compared integer by
// integer.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "qtape/core/fields.h"
#include "qtape/deploy/convert.h"
#include "qtape/engine/tape.h"
#include "qtape/integer/session.h"

namespace qtape {

/// From training to the machine. L1 to L3 are equal in every bit; L0 differs by the rounding of
/// float accumulators.
enum class Level : uint8_t {
  Float,      ///< L0: the float forward with fake quantization
  Exact,      ///< L1: the training forward in exact arithmetic
  Reference,  ///< L2: plain loops over the program's integers
  Backend     ///< L3: the program on oneDNN
};
template <>
inline constexpr auto enum_names<Level> =
    std::array<std::string_view, 4>{"L0 float", "L1 exact", "L2 reference", "L3 backend"};

/// What is converted, and how its samples are run.
struct VerifyOptions {
  ConvertOptions convert = {};
  int64_t batch = 250;  ///< samples at once, at least 1
  int threads = default_threads();
};

/// What was compared of one node.
struct LayerComparison {
  std::string label;
  bool accumulators = false;    ///< accumulators instead of codes; L0 and L3 do not tell theirs
  int64_t compared = 0;         ///< integers
  int64_t float_exact = 0;      ///< of them, that differ between L0 and L1
  int64_t exact_reference = 0;  ///< between L1 and L2
  int64_t reference_backend = 0;  ///< between L2 and L3
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
  std::span<const NodeId> inputs() const { return fed_; }
  /// Where the samples of one of them go, f32 [batch, ...]. Throws ArgumentError for one that
  /// does not exist.
  std::span<float> input(size_t which = 0);
  /// Runs them and compares the first `rows`. Throws GraphError for NaN.
  void run(int64_t rows);

  /// The first output's values of the last run, f32 of the program's output type.
  std::span<const float> output(Level level) const;
  const std::vector<LayerComparison>& layers() const { return layers_; }
  /// f32 values of outputs whose bits differ between L1 and L2 or L2 and L3, and between L0 and
  /// L1.
  int64_t output_mismatches() const { return output_mismatches_; }
  int64_t float_output_mismatches() const { return float_output_mismatches_; }
  /// Integers and outputs that must be equal and are not.
  int64_t mismatches() const;
  const std::optional<Mismatch>& first_mismatch() const { return first_; }
  const IntegerProgram& program() const { return reference_->program(); }
  /// How L3 multiplies, a line for each product with weights.
  std::string report() const { return backend_->report(); }

 private:
  void feed();
  int64_t compared(const TensorType& type, int64_t rows) const;
  void compare(size_t i, int64_t rows);
  void compare_output(size_t which, int64_t rows);
  std::span<const float> output(Level level, size_t which) const;
  int64_t float_differences(size_t i, const ExactValue& exact, int64_t elements) const;
  void note(Level first, Level second, size_t i, int64_t k, int64_t a, int64_t b);

  int64_t batch_ = 0;
  int64_t samples_ = 0;
  std::vector<NodeId> fed_;
  std::vector<std::vector<float>> fed_values_;  // by input
  std::vector<NodeId> outputs_;                 // of the graph
  std::vector<Conversion::Pair> pairs_;
  std::unique_ptr<Tape> float_;
  std::unique_ptr<Tape> exact_;
  std::unique_ptr<IntegerSession> reference_;
  std::unique_ptr<IntegerSession> backend_;
  std::vector<LayerComparison> layers_;
  int64_t output_mismatches_ = 0;
  int64_t float_output_mismatches_ = 0;
  std::optional<Mismatch> first_;
};

}  // namespace qtape
