// Levels of arithmetic that verification compares, and their runners.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/deploy/convert.h"
#include "qtape/engine/graph.h"

namespace qtape {

/// A level of arithmetic, from training to the target. All except L0 are bit-identical; L0
/// differs by the rounding of float accumulators. This library runs the four that are members.
/// A target defines its own levels, each with a unique number and name, and passes
/// their runners to verification (VerifyOptions::runners).
struct Level {
  int number = 0;
  std::string_view name = "L0 float";  ///< begins with L and the number

  static const Level Float;      ///< L0: the float forward with fake quantization
  static const Level Exact;      ///< L1: the training forward in exact arithmetic
  static const Level Reference;  ///< L2: plain loops over the program's integers
  static const Level
      Backend;  ///< L3: the program on qtape's own products, oneDNN or plain loops

  friend bool operator==(const Level& a, const Level& b) { return a.number == b.number; }
  friend auto operator<=>(const Level& a, const Level& b) { return a.number <=> b.number; }
};
inline constexpr Level Level::Float = {0, "L0 float"};
inline constexpr Level Level::Exact = {1, "L1 exact"};
inline constexpr Level Level::Reference = {2, "L2 reference"};
inline constexpr Level Level::Backend = {3, "L3 backend"};

/// Returns the name of a level.
inline std::string_view to_string_view(const Level& level) { return level.name; }

/// The levels that need no other library or tool.
inline constexpr std::array default_levels = {Level::Float, Level::Exact, Level::Reference,
                                              Level::Backend};

struct SessionHooks;

/// Subject of a verification.
struct LevelSubject {
  Graph graph;            ///< with the batch extent
  Conversion conversion;  ///< of the graph; its pairs are compared
  std::vector<ProgramNodeId> inputs;
  std::vector<NodeId> outputs;  ///< of the graph
};

/// Arguments from which runners are made; referenced objects must outlive the runners.
struct LevelContext {
  const LevelSubject& subject;
  const Parameters& parameters;
  int threads = 1;
  const SessionHooks* hooks = nullptr;  ///< for L3; null: none
};

/// Integers of a node as stored in memory.
struct IntegersView {
  DType dtype = DType::S8;
  const std::byte* data = nullptr;
  int64_t offset = 0;  ///< value to add to each stored integer

  int64_t at(int64_t i) const;
};

/// Runs samples at one level.
class LevelRunner {
 public:
  virtual ~LevelRunner() = default;
  /// Runs a batch for each input, f32 or s32 indices; only the first `rows` samples are
  /// significant.
  virtual void run(std::span<const Tensor> inputs, int64_t rows) = 0;
  /// Returns the integers of the node of pair `i` in the last run; nullopt if the level does
  /// not provide them.
  virtual std::optional<IntegersView> integers(size_t i) const = 0;
  /// Returns the values of output `which` in the last run.
  virtual std::span<const float> output(size_t which) const = 0;
  /// Explains how the level computes, one line per item: L3, one per product with weights. May
  /// be empty.
  virtual std::string report() const { return {}; }
};

/// Creates the runners of a level.
struct RunnerFactory {
  std::function<std::unique_ptr<LevelRunner>(const LevelContext&)> make;
  /// Returns true if the runners support a requantization; null: they support all.
  bool (*computes)(Requantization) = nullptr;
};
/// Factories of levels that other libraries provide.
using RunnerFactories = std::map<Level, RunnerFactory>;

/// True if this library or `others` can run the level with this requantization. Throws
/// ArgumentError if neither provides the level.
bool computes(Level level, Requantization requantization, const RunnerFactories& others = {});

/// Creates the runner of a level. Throws GraphError if oneDNN rejects a product, ArgumentError
/// if neither this library nor `others` provides the level, and Error if a compiler is missing
/// or fails.
std::unique_ptr<LevelRunner> make_runner(Level level, const LevelContext& context,
                                         const RunnerFactories& others = {});

/// Returns the number of codes of the quantizer at pair `i` whose value in L0 differs from that
/// in L1. The runners must be of these levels; `exact` is L1.
int64_t float_differences(const LevelRunner& floats, const LevelRunner& exact, size_t i,
                          int64_t elements);

}  // namespace qtape
