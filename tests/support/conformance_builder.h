// Builder of integer programs for conformance vectors.
#pragma once

#include <string>
#include <vector>

#include "qtape/core/random.h"
#include "qtape/tests/support/conformance.h"
#include "qtape/tests/support/integer_programs.h"

namespace qtape::test {

using namespace kernels;

/// A sequence of random numbers that is the same each time.
class Draws {
 public:
  explicit Draws(uint64_t seed) : random_(seed, 77) {}
  int64_t integer(int64_t low, int64_t high) {
    return low +
           static_cast<int64_t>(random_.below(next_++, static_cast<uint64_t>(high - low + 1)));
  }
  float uniform(double low, double high) {
    return static_cast<float>(low + random_.uniform(next_++) * (high - low));
  }

 private:
  Random random_;
  uint64_t next_ = 0;
};

class ConformanceBuilder {
 public:
  ConformanceBuilder(std::string name, std::string about, Requantization requantization)
      : made_{std::move(name), std::move(about), IntegerProgram(requantization), {}, {}},
        net_(requantization) {}

  ConformanceCase done() {
    made_.program = net_.of(outputs_);
    return std::move(made_);
  }

  ProgramNodeId input(const std::string& label, Shape shape, const std::vector<float>& data,
                      bool batch = false) {
    made_.inputs.push_back(Tensor::of<float>(shape, data));
    return net_.add(integer::Input{shape, batch}, {}, label);
  }
  /// Adds an input of indices below `count`, of which the ends occur.
  ProgramNodeId indices(Draws& draws, const std::string& label, Shape shape, int64_t count,
                        bool batch = false) {
    std::vector<int32_t> data = {static_cast<int32_t>(count - 1), 0};
    data.resize(static_cast<size_t>(shape.elements()));
    for (size_t i = 2; i < data.size(); ++i) {
      data[i] = static_cast<int32_t>(draws.integer(0, count - 1));
    }
    made_.inputs.push_back(Tensor::of<int32_t>(shape, data));
    return net_.add(integer::Input{shape, batch, count}, {}, label);
  }
  /// Adds an input whose elements have `codes` on `grid` with every rounding.
  ProgramNodeId codes(const std::string& label, Shape shape, const CodeGrid& grid,
                      const std::vector<int64_t>& codes) {
    std::vector<float> data;
    for (int64_t code : codes) {
      const auto steps = static_cast<double>(code - grid.zero_point);
      data.push_back(static_cast<float>(steps * grid.scale));
    }
    return add(integer::Quantize{.grid = grid}, {input(label, shape, data)});
  }
  /// Adds an input of the codes `first` and random ones.
  ProgramNodeId random_codes(Draws& draws, const std::string& label, Shape shape,
                             const CodeGrid& grid, std::vector<int64_t> first = {}) {
    while (std::ssize(first) < shape.elements()) {
      first.push_back(draws.integer(grid.low, grid.high));
    }
    return codes(label, shape, grid, first);
  }
  /// Adds an output.
  ProgramNodeId add(IntegerOp op, const std::vector<ProgramNodeId>& operands) {
    return output(net_.add(std::move(op), operands));
  }
  /// Adds a node that is no output.
  ProgramNodeId add_inner(IntegerOp op, const std::vector<ProgramNodeId>& operands) {
    return net_.add(std::move(op), operands);
  }
  void omit(ProgramNodeId id) { made_.omitted.insert(id.index); }
  const IntegerValue& value(ProgramNodeId id) const { return net_.program[id].value; }
  ProgramNodeId linear(ProgramNodeId x, const Weights& w) { return output(net_.linear(x, w)); }
  ProgramNodeId conv(ProgramNodeId x, const integer::Conv& op, int64_t k, const Weights& w) {
    return output(net_.conv(x, op, k, w));
  }
  void requantize(ProgramNodeId x, std::initializer_list<CodeGrid> grids) {
    for (const CodeGrid& grid : grids) add(integer::Requantize{grid}, {x});
  }

 private:
  ProgramNodeId output(ProgramNodeId id) {
    outputs_.push_back(id);
    return id;
  }

  ConformanceCase made_;
  ProgramBuilder net_;
  std::vector<ProgramNodeId> outputs_;
};

}  // namespace qtape::test
