// Models of TensorFlow Lite, as integer programs: what can be written again can be read.
#include "qtape/integer/program/integer_program.h"
#include "qtape/tests/fuzz/seeds.h"
#include "qtape/tests/fuzz/target.h"
#include "qtape/tests/tflite/random_program.h"
#include "qtape/tests/tflite/tflite_programs.h"
#include "qtape/tflite/export.h"
#include "qtape/tflite/import.h"

namespace {

using namespace qtape;

void write_again(std::string_view bytes) {
  const std::string written = to_tflite(parse_tflite(bytes));
  fuzz::accepted([&] { return parse_tflite(written); });
}

std::vector<std::string> models() {
  std::vector<std::string> all = {to_tflite(test::tflite_programs::all_layers())};
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    all.push_back(to_tflite(test::tflite_programs::random_program(
        seed, static_cast<test::tflite_programs::Codes>(seed % 3))));
  }
  return all;
}

const fuzz::Target target("tflite_program", write_again, models);

}  // namespace
