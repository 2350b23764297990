// Models of TensorFlow Lite, as integer programs: what can be written again can be read.
#include "qtape/integer/program/integer_program.h"
#include "qtape/tests/fuzz/target.h"
#include "qtape/tests/tflite/random_program.h"
#include "qtape/tflite/export.h"
#include "qtape/tflite/import.h"

namespace {

using namespace qtape;

void write_again(std::string_view bytes) {
  const std::string written = to_tflite(parse_tflite(bytes));
  fuzz::accepted([&] { return parse_tflite(written); });
}

const fuzz::Target target("tflite_program", write_again,
                          test::tflite_programs::written_programs);

}  // namespace
