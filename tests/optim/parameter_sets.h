// Parameters with pseudo-random values and gradients, for tests of optim.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "qtape/core/random.h"
#include "qtape/engine/graph.h"
#include "qtape/engine/parameters.h"
#include "qtape/optim/optimizer.h"
#include "qtape/tests/support/isa_limit.h"

namespace qtape::test {

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

using Types = std::vector<std::pair<std::string, TensorType>>;

/// Values uniform in [-1, 1]. A name that starts with "state" becomes a state.
inline Parameters make_parameters(const Types& types) {
  Graph graph;
  for (const auto& [name, type] : types) {
    const Op state = State{.dtype = type.dtype, .shape = type.shape};
    const Op parameter = Parameter{.dtype = type.dtype, .shape = type.shape};
    graph.add(name.starts_with("state") ? state : parameter, {}, name);
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

/// Gradients uniform in [-1, 1] that depend only on `step` and the position.
inline void fill_gradients(const Parameters& parameters, int step) {
  uint64_t stream = 100 * static_cast<uint64_t>(step + 1);
  for (const ParameterEntry& entry : parameters.entries()) {
    const Random random(3, stream++);
    for (size_t i = 0; entry.trainable() && i < size_t(entry.elements()); ++i) {
      set_gradient(entry, i, 2 * random.uniform(i) - 1);
    }
  }
}

/// Steps first to last - 1 with these gradients.
inline void train(const Parameters& parameters, Optimizer& optimizer, int first, int last) {
  for (int step = first; step < last; ++step) {
    fill_gradients(parameters, step);
    optimizer.step(0.05);
  }
}

inline TensorType f32(Shape shape) { return {DType::F32, shape}; }
inline TensorType f64(Shape shape) { return {DType::F64, shape}; }

}  // namespace qtape::test
