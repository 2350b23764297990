// Models of TensorFlow Lite: what can be written again can be read.
#include "qtape/core/error.h"
#include "qtape/integer/program/integer_program.h"
#include "qtape/tests/fuzz/reads.h"
#include "qtape/tflite/export.h"
#include "qtape/tflite/import.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return qtape::fuzz::reads(data, size, [](std::string_view bytes) {
    const qtape::IntegerProgram program = qtape::parse_tflite(bytes);
    const std::string written = qtape::to_tflite(program);
    (void)qtape::parse_tflite(written);
  });
}
