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
  bool integers = false;  ///< of indices
  bool batch = true;      ///< false for an input that is the same for all samples
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

/// Samples first..first + count - 1 of a seed, at the beginning of a batch.
struct RandomRows {
  uint64_t seed;
  int64_t first;
  int64_t count;
  int64_t batch;
};
/// Writes random samples to all inputs of a program; `memory.template operator()<T>(k)` is the
/// memory of input k, with the range `ranges[k]`. Inputs without a batch get the same values
/// for all rows of a seed.
template <class Memory>
void fill_random(std::span<const InputRange> ranges, const RandomRows& rows,
                 const Memory& memory) {
  // Calls f(all elements of input k) with their type.
  const auto visit = [&](size_t k, const auto& f) {
    if (ranges[k].integers) {
      f(memory.template operator()<int32_t>(k));
    } else {
      f(memory.template operator()<float>(k));
    }
  };
  RandomSample shared(rows.seed, -1);
  for (size_t k = 0; k < ranges.size(); ++k) {
    if (!ranges[k].batch) visit(k, [&](auto all) { shared.fill(ranges[k], all); });
  }
  for (int64_t row = 0; row < rows.count; ++row) {
    RandomSample sample(rows.seed, rows.first + row);
    for (size_t k = 0; k < ranges.size(); ++k) {
      if (!ranges[k].batch) continue;
      visit(k, [&](auto all) {
        const size_t width = all.size() / static_cast<size_t>(rows.batch);
        sample.fill(ranges[k], all.subspan(static_cast<size_t>(row) * width, width));
      });
    }
  }
}

}  // namespace qtape::tool
