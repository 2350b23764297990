#include "qtape/deploy/any_file.h"

#include <doctest/doctest.h>

#include "qtape/io/files.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"
#include "qtape/tests/support/integer_programs.h"
#include "qtape/tests/support/models.h"

using namespace qtape;
using test::error_text;

TEST_CASE("any file: models and programs are told apart by their first member") {
  CHECK(holds_program(to_json(test::small_program())));
  CHECK(holds_program(R"({"program":[)"));
  CHECK(!holds_program(R"({"nodes":[],"program":[]})"));
  CHECK(!holds_program(R"({"values":{"program":1}})"));
  CHECK(!holds_program(R"([{"program":1}])"));
  CHECK(!holds_program(""));
  CHECK(!holds_program("{\"a\":" + std::string(100000, '[')));
}

TEST_CASE("any file: what is loaded is what was saved, and errors name the file") {
  const test::Folder folder;
  const test::Classifier c = test::make_classifier();
  const Parameters parameters(c.graph, 1);
  save_model(folder.file("m.json"), c.graph, parameters);
  save_program(folder.file("p.json"), test::small_program());
  CHECK(std::get<SavedModel>(load_any(folder.file("m.json"))).graph == c.graph);
  CHECK(std::get<IntegerProgram>(load_any(folder.file("p.json"))) == test::small_program());
  for (const std::string text : {"", "{", "[]", "{\"requantization\":\"FloatMultiply\"}"}) {
    write_file(folder.file("bad.json"), text);
    CHECK(error_text<FormatError>([&] {
            (void)load_any(folder.file("bad.json"));
          }).starts_with(folder.file("bad.json") + ": /"));
  }
}
