// Builder of integer programs for conformance vectors.
#pragma once

#include <string>
#include <vector>

#include "qtape/core/random.h"
#include "qtape/integer/program/integer_program.h"
#include "qtape/kernels/quantize/pack.h"
#include "qtape/tests/support/conformance.h"

namespace qtape::test {

using namespace kernels;

/// Returns the grid with all codes of a dtype.
inline CodeGrid whole_grid(DType dtype, double scale, int32_t zero_point) {
  switch (dtype) {
    case DType::U8:
      return {dtype, scale, zero_point, 0, 255};
    case DType::S16:
      return {dtype, scale, zero_point, -32768, 32767};
    case DType::U16:
      return {dtype, scale, zero_point, 0, 65535};
    default:
      return {DType::S8, scale, zero_point, -128, 127};
  }
}

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
      : made_{std::move(name), std::move(about), IntegerProgram(requantization), {}, {}} {}

  ConformanceCase done() { return std::move(made_); }

  ProgramNodeId input(const std::string& label, Shape shape, const std::vector<float>& data,
                      bool batch = false) {
    made_.inputs.push_back(Tensor::of<float>(shape, data));
    return made_.program.add(integer::Input{shape, batch}, {}, label);
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
  ProgramNodeId add(IntegerOp op, std::initializer_list<ProgramNodeId> operands) {
    const ProgramNodeId id = made_.program.add(std::move(op), operands);
    outputs_.push_back(id);
    made_.program.set_outputs(outputs_);
    return id;
  }
  ProgramNodeId add(IntegerOp op, const std::vector<ProgramNodeId>& operands) {
    return made_.program.add(std::move(op), operands);
  }
  const IntegerValue& value(ProgramNodeId id) const { return made_.program[id].value; }
  void omit(ProgramNodeId id) { made_.omitted.insert(id.index); }

  /// Adds accumulators of `x`; the number of outputs is the number of rows of `weights`.
  ProgramNodeId linear(ProgramNodeId x, int bits, const std::vector<int8_t>& weights,
                       const std::vector<float>& scales, const std::vector<int32_t>& bias) {
    const IntegerValue& value = made_.program[x].value;
    const int64_t k = value.type.shape[-1];
    const int64_t n = std::ssize(weights) / k;
    return add(integer::Linear{pack_weights(weights, {n, k}, bits, scales, bias, value)}, {x});
  }
  /// Adds accumulators of a convolution; `op` lacks its weights, whose rows have `k` elements.
  ProgramNodeId conv(ProgramNodeId x, integer::Conv op, int64_t k, int bits,
                     const std::vector<int8_t>& weights, const std::vector<float>& scales,
                     const std::vector<int32_t>& bias) {
    op.weights.shape = {std::ssize(weights) / k, k};
    const IntegerValue factors = op.factors(made_.program[x].value);
    op.weights = pack_weights(weights, op.weights.shape, bits, scales, bias, factors);
    return add(op, {x});
  }
  void requantize(ProgramNodeId x, std::initializer_list<CodeGrid> grids) {
    for (const CodeGrid& grid : grids) add(integer::Requantize{grid}, {x});
  }

 private:
  ConformanceCase made_;
  std::vector<ProgramNodeId> outputs_;
};

}  // namespace qtape::test
