// Inputs that self-tests of C programs generate on the device, by integer arithmetic.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "qtape/c99/c_program.h"
#include "qtape/core/types.h"

namespace qtape {

/// Range low..high of integers for an input.
struct CTestRange {
  int32_t low = 0;
  int32_t high = 0;  ///< less than low + 65,536
  int32_t rest = 0;  ///< the value that represents 0
};

/// Generates the integers of one input: in turn noise, ends of the range, sparse values other
/// than `rest`, or a rectangle. The C code of `c_test_generator` generates the same integers.
class CTestGenerator {
 public:
  CTestGenerator(uint32_t seed, const Shape& shape, const CTestRange& range);

  /// Returns integer `i`; must be called in order.
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

/// A generated input of a self-test.
struct CTestInput {
  ProgramNodeId node;
  Shape shape;
  bool indices = false;  ///< true: integers within code_range, always given as they are
  /// The node of its codes, if the input is given as codes.
  std::optional<ProgramNodeId> codes = {};
  CTestRange code_range = {};
  CTestRange float_range = {};  ///< range that its quantizers distinguish, extended by an
                                ///< eighth on either side
  double float_step = 1;        ///< a power of 2; floats are these integers times this step
};
/// Returns the generated input for input `id` of `program`, whose C form is `written`.
CTestInput c_test_input(const IntegerProgram& program, const CProgram& written,
                        ProgramNodeId id);

/// Returns the seed of input `input` of `inputs` in sample `sample`.
uint32_t c_test_seed(int64_t sample, int64_t inputs, int64_t input);

/// Returns the C code of the generator, for the prefix `name`.
std::string c_test_generator(std::string_view name);
/// Returns the arguments of NAME_test_start that follow generator and seed.
std::string c_test_arguments(const Shape& shape, const CTestRange& range);

}  // namespace qtape
