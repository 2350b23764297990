// Levels of arithmetic that verification compares, and what runs each of them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qtape/core/enum_names.h"
#include "qtape/deploy/convert.h"

namespace qtape {

/// From training to the machine. All but L0 are equal in every bit; L0 differs by the rounding
/// of float accumulators. To add one: its enumerator, its name, and its runner in the list of
/// deploy/levels.cpp, or among those that another library gives (VerifyOptions::runners).
enum class Level : uint8_t {
  Float,       ///< L0: the float forward with fake quantization
  Exact,       ///< L1: the training forward in exact arithmetic
  Reference,   ///< L2: plain loops over the program's integers
  Backend,     ///< L3: the program on our own products, oneDNN or plain loops
  C,           ///< L4: the program written as C99, compiled by this machine's compiler
  Onnx,        ///< L5: the program as an ONNX model, by an interpreter of the specification
  CmsisNn,     ///< L6: C99 on kernels of CMSIS-NN, of the tree that QTAPE_CMSIS_NN names
  OnnxRuntime  ///< L7: the ONNX model by the ONNX Runtime of python3
};
template <>
inline constexpr auto enum_names<Level> =
    std::array<std::string_view, 8>{"L0 float", "L1 exact", "L2 reference", "L3 backend",
                                    "L4 C",     "L5 ONNX",  "L6 CMSIS-NN",  "L7 ONNX Runtime"};

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
