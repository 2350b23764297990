// Parameters with pseudo-random values and gradients, for the tests of optim.
#pragma once

#include <cstdlib>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "qtape/core/random.h"
#include "qtape/engine/graph.h"
#include "qtape/engine/parameters.h"

namespace qtape::test {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

using Types = std::vector<std::pair<std::string, TensorType>>;

/// Returns values uniform in [-1, 1]; names that start with "state" become states.
inline Parameters make_parameters(const Types& types) {
  Graph graph;
  for (const auto& [name, type] : types) {
    Parameter parameter;
    parameter.dtype = type.dtype;
    parameter.shape = type.shape;
    State state;
    state.dtype = type.dtype;
    state.shape = type.shape;
    graph.add(name.starts_with("state") ? Op(state) : Op(parameter), {}, name);
  }
  Parameters parameters(graph, 1);
  uint64_t stream = 0;
  for (const ParameterEntry& entry : parameters.entries()) {
    const Random random(7, stream++);
    for (int64_t i = 0; i < entry.elements(); ++i) {
      const double value = 2 * random.uniform(static_cast<uint64_t>(i)) - 1;
      if (entry.type.dtype == DType::F64) entry.values<double>()[size_t(i)] = value;
      if (entry.type.dtype == DType::F32) entry.values<float>()[size_t(i)] = float(value);
    }
  }
  return parameters;
}

inline void set_gradient(const ParameterEntry& entry, size_t i, double value) {
  if (entry.type.dtype == DType::F64) entry.gradients<double>()[i] = value;
  if (entry.type.dtype == DType::F32) entry.gradients<float>()[i] = float(value);
}

inline double element(const ParameterEntry& entry, size_t i) {
  return entry.type.dtype == DType::F64 ? entry.values<double>()[i]
                                        : double{entry.values<float>()[i]};
}

inline double gradient_at(const ParameterEntry& entry, size_t i) {
  return entry.type.dtype == DType::F64 ? entry.gradients<double>()[i]
                                        : double{entry.gradients<float>()[i]};
}

/// Fills gradients uniform in [-1, 1] that depend only on `step` and the position.
inline void fill_gradients(const Parameters& parameters, int step) {
  uint64_t stream = 100 * static_cast<uint64_t>(step + 1);
  for (const ParameterEntry& entry : parameters.entries()) {
    const Random random(3, stream++);
    for (size_t i = 0; entry.trainable() && i < size_t(entry.elements()); ++i) {
      set_gradient(entry, i, 2 * random.uniform(i) - 1);
    }
  }
}

inline TensorType f32(Shape shape) { return {DType::F32, shape}; }
inline TensorType f64(Shape shape) { return {DType::F64, shape}; }

/// Limits the instruction set during its lifetime.
class IsaCap {
 public:
  explicit IsaCap(const char* name) {
    const char* before = std::getenv("QTAPE_ISA");
    if (before != nullptr) before_ = before;
    ::setenv("QTAPE_ISA", name, 1);
  }
  ~IsaCap() {
    if (before_.empty()) ::unsetenv("QTAPE_ISA");
    if (!before_.empty()) ::setenv("QTAPE_ISA", before_.c_str(), 1);
  }
  IsaCap(const IsaCap&) = delete;
  IsaCap& operator=(const IsaCap&) = delete;

 private:
  std::string before_;
};

}  // namespace qtape::test
