// Levels of arithmetic that verification compares, and what runs each of them.
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

namespace qtape {

/// A level of arithmetic, from training to the machine. All but L0 are equal in every bit; L0
/// differs by the rounding of float accumulators. This library runs the four that are members.
/// A target has levels of its own, with a number and a name that no other level has, and gives
/// their runners to verification (VerifyOptions::runners).
struct Level {
  int number = 0;
  std::string_view name = "L0 float";  ///< begins with L and the number

  static const Level Float;      ///< L0: the float forward with fake quantization
  static const Level Exact;      ///< L1: the training forward in exact arithmetic
  static const Level Reference;  ///< L2: plain loops over the program's integers
  static const Level Backend;    ///< L3: the program on our own products, oneDNN or plain loops

  friend bool operator==(const Level& a, const Level& b) { return a.number == b.number; }
  friend auto operator<=>(const Level& a, const Level& b) { return a.number <=> b.number; }
};
inline constexpr Level Level::Float = {0, "L0 float"};
inline constexpr Level Level::Exact = {1, "L1 exact"};
inline constexpr Level Level::Reference = {2, "L2 reference"};
inline constexpr Level Level::Backend = {3, "L3 backend"};

inline std::string_view to_string_view(const Level& level) { return level.name; }

/// The levels that need nothing but this library.
inline constexpr std::array usual_levels = {Level::Float, Level::Exact, Level::Reference,
                                            Level::Backend};

struct SessionHooks;

/// What is verified.
struct LevelSubject {
  Graph graph;                  ///< with the batch extent
  Conversion conversion;        ///< of it; its pairs are what is compared
  std::vector<NodeId> inputs;   ///< of the program
  std::vector<NodeId> outputs;  ///< of the graph
};

/// What runners are made of; what it refers to outlives them.
struct LevelContext {
  const LevelSubject& subject;
  Parameters& parameters;
  int threads = 1;
  const SessionHooks* hooks = nullptr;  ///< of L3; null: none
};

/// Integers of a node as they lie in memory.
struct IntegersView {
  DType dtype = DType::S8;
  const std::byte* data = nullptr;
  int64_t offset = 0;  ///< that each lacks

  int64_t at(int64_t i) const;
};

/// Runs samples at one level.
class LevelRunner {
 public:
  virtual ~LevelRunner() = default;
  /// Runs a batch, of which the first `rows` samples count: f32 of each input.
  virtual void run(std::span<const std::vector<float>> inputs, int64_t rows) = 0;
  /// What the node of pair `i` held in the last run; nothing where the level does not tell.
  virtual std::optional<IntegersView> integers(size_t i) const = 0;
  /// The values of output `which` in the last run.
  virtual std::span<const float> output(size_t which) const = 0;
  /// How it computes, a line for each product with weights; empty where it says nothing.
  virtual std::string report() const { return {}; }
};

/// Makes the runners of a level.
struct RunnerFactory {
  std::function<std::unique_ptr<LevelRunner>(const LevelContext&)> make;
  /// Whether they compute a requantization; null: all of them.
  bool (*computes)(Requantization) = nullptr;
};
/// Those of levels that other libraries run.
using RunnerFactories = std::map<Level, RunnerFactory>;

/// Whether a level computes a requantization, by this library or `others`. Throws ArgumentError
/// where neither runs the level.
bool computes(Level level, Requantization requantization, const RunnerFactories& others = {});

/// The runner of a level. Throws GraphError where oneDNN refuses a product, ArgumentError where
/// neither this library nor `others` runs the level, and Error where a compiler is missing or
/// fails.
std::unique_ptr<LevelRunner> make_runner(Level level, const LevelContext& context,
                                         const RunnerFactories& others = {});

/// How many codes of the quantizer at pair `i` have another value in the floats of L0 than in
/// those of L1. Both runners must be of these levels.
int64_t float_differences(const LevelRunner& floats, const LevelRunner& exact, size_t i,
                          int64_t elements);

}  // namespace qtape
