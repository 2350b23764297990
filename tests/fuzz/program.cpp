// Files of integer programs, which are written back as they were read.
#include "qtape/integer/program/integer_program.h"
#include "qtape/tests/fuzz/reads.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return qtape::fuzz::reads(data, size, [](std::string_view bytes) {
    const qtape::IntegerProgram program = qtape::program_from_json(bytes);
    qtape::fuzz::require_equal(qtape::program_from_json(qtape::to_json(program)) == program);
  });
}
