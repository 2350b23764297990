// Files do not depend on the locale that an application sets.
#include <doctest/doctest.h>
#include <stdlib.h>

#include <array>
#include <clocale>
#include <cstdio>
#include <string>
#include <string_view>

#include "qtape/c99/export_c.h"
#include "qtape/engine/serialize.h"
#include "qtape/io/files.h"
#include "qtape/model/model.h"
#include "qtape/onnx/export.h"
#include "qtape/programs/console/subprocess.h"
#include "qtape/tests/support/folder.h"
#include "qtape/tests/support/skip.h"
#include "qtape/tests/support/verified_models.h"
#include "qtape/tflite/export.h"

using namespace qtape;

namespace {

/// A locale with a decimal comma while it lives, compiled from a definition of its own, since
/// few machines have one.
class DecimalComma {
 public:
  DecimalComma() {
    write_file(folder_.file("definition"),
               "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\n"
               "END LC_NUMERIC\n");
    if (!has_program("localedef")) return;
    (void)run_program({"localedef", "-c", "-f", "ANSI_X3.4-1968", "-i",
                       folder_.file("definition"), folder_.file("comma")});
    ::setenv("LOCPATH", folder_.path().c_str(), 1);
    set_ = std::setlocale(LC_NUMERIC, "comma") != nullptr;
  }
  DecimalComma(const DecimalComma&) = delete;
  DecimalComma& operator=(const DecimalComma&) = delete;
  ~DecimalComma() {
    std::setlocale(LC_NUMERIC, "C");
    ::unsetenv("LOCPATH");
  }
  bool set() const { return set_; }

 private:
  test::Folder folder_;
  bool set_ = false;
};

/// Everything that is written of a model, after reading the written text again.
std::string written(const Model& model) {
  const std::string saved = to_json(model.graph(), model.parameters());
  std::string all = saved;
  for (const Requantization requantization : requantization::values) {
    const std::string program = to_json(model.integers(requantization));
    all += program;
    const IntegerProgram read = program_from_json(program);
    for (const CFile& file : export_c(read, {.test = {.inputs = 2}}).files) all += file.text;
    if (requantization == Requantization::OnnxQdq) all += to_onnx(read);
    if (requantization == Requantization::DoubleRounding) all += to_tflite(read);
  }
  return all;
}

}  // namespace

TEST_CASE("locale: a decimal comma changes no file") {
  const Model model = with_quantized_answers(
      test::net([](const Value& h) { return linear(flatten(h), 3); }), test::noise());
  const std::string expected = written(model);
  const DecimalComma comma;
  if (!comma.set()) return test::skip("no localedef, or no locale that it compiled");
  std::array<char, 8> text{};
  REQUIRE(std::snprintf(text.data(), text.size(), "%.1f", 0.5) == 3);
  REQUIRE(std::string_view(text.data()) == "0,5");
  CHECK((written(model) == expected));
}
