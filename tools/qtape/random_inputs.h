// Random inputs of integer programs.
#pragma once

#include <cstdint>
#include <span>

#include "qtape/core/random.h"
#include "qtape/integer/program/integer_program.h"

namespace qtape::tool {

struct InputRange {
  double low = 0;
  double high = 1;
};
/// Returns the range that the quantizers of an input distinguish, extended by half on either
/// side; of indices, the smallest and the largest.
InputRange range_of(const IntegerProgram& program, ProgramNodeId input);

/// One random sample, drawn for all inputs in turn. Each sample has its own density, from
/// nearly all 0 to almost no 0.
class RandomSample {
 public:
  RandomSample(uint64_t seed, int64_t sample)
      : random_(seed, static_cast<uint64_t>(sample)), density_(random_.uniform(0)) {}

  void fill(const InputRange& range, std::span<float> x);
  void fill(const InputRange& range, std::span<int32_t> x);

 private:
  Random random_;
  double density_;
  uint64_t drawn_ = 0;
};

}  // namespace qtape::tool
