// Inputs that self-tests of C programs make on the device, from integers alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "qtape/c99/c_program.h"

namespace qtape {

/// Integers low..high in the shape of an input.
struct CTestRange {
  int32_t low = 0;
  int32_t high = 0;  ///< less than low + 65,536
  int32_t rest = 0;  ///< that stands for 0
};

/// Makes the integers of one input: noise, ends of the range, few that are not `rest`, or a
/// rectangle, by turns. The text of `c_test_generator` does the same in C.
class CTestGenerator {
 public:
  CTestGenerator(uint32_t seed, const Shape& shape, const CTestRange& range);

  /// Integer `i`; to be asked for in order.
  int32_t next(int64_t i);

 private:
  int64_t span() const { return int64_t{range_.high} - range_.low + 1; }
  int32_t random(int64_t below);

  CTestRange range_;
  int64_t width_;
  int64_t channels_;
  uint32_t state_;
  int32_t kind_ = 0;
  int64_t top_ = 0;
  int64_t bottom_ = 0;
  int64_t left_ = 0;
  int64_t right_ = 0;
  int32_t value_ = 0;
};

/// An input as a self-test makes it.
struct CTestInput {
  NodeId node;
  Shape shape;
  std::optional<NodeId> codes = {};  ///< what it is given as, where that is codes
  CTestRange code_range = {};
  CTestRange float_range = {};  ///< what its quantizers tell apart, and an eighth more
  double float_step = 1;        ///< a power of 2: floats are multiples of it by these integers
};
/// Input `id` of `program`, which is `written` in C.
CTestInput c_test_input(const IntegerProgram& program, const CProgram& written, NodeId id);

/// The seed of input `input` of `inputs` in sample `sample`.
uint32_t c_test_seed(int64_t sample, int64_t inputs, int64_t input);

/// The generator in C, for the prefix `name`.
std::string c_test_generator(std::string_view name);
/// Arguments of NAME_test_start behind generator and seed.
std::string c_test_arguments(const Shape& shape, const CTestRange& range);

}  // namespace qtape
