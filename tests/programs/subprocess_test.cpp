// Other programs that run at the same time.
#include "qtape/programs/console/subprocess.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "qtape/core/error.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/skip.h"

using namespace qtape;
using test::error_text;

TEST_CASE("programs: several at a time, with results in the order of their commands") {
  std::vector<std::vector<std::string>> commands;
  for (int i = 0; i < 7; ++i) {
    // The first ends last.
    commands.push_back({"sh", "-c", fmt::format("sleep 0.{}; echo {}; exit {}", 7 - i, i, i)});
  }
  for (int at_once : {1, 3, 20}) {
    CAPTURE(at_once);
    std::vector<size_t> ended;
    const auto results = run_programs(
        commands, at_once, [&](size_t index, const Finished&) { ended.push_back(index); });
    REQUIRE(results.size() == 7);
    for (int i = 0; i < 7; ++i) {
      CHECK(results[static_cast<size_t>(i)].output == fmt::format("{}\n", i));
      CHECK(results[static_cast<size_t>(i)].exit_code == i);
    }
    CHECK(ended.size() == 7);
    if (at_once == 1) CHECK(ended == std::vector<size_t>{0, 1, 2, 3, 4, 5, 6});
  }
}

TEST_CASE("programs: a limit holds for those that have closed their output") {
  if (test::emulated()) return test::skip("a shell without output, under an emulator");
  const Finished finished = run_program({"sh", "-c", "exec >&- 2>&-; sleep 100"}, 1);
  CHECK(finished.exit_code == 128 + 9);
  CHECK(finished.output == "sh was still running after 1 s\n");
  CHECK(run_program({"sh", "-c", "exec >&- 2>&-; exit 3"}, 100).exit_code == 3);
}

TEST_CASE("programs: the others are killed where one gives an error") {
  const std::vector<std::vector<std::string>> commands = {{"sleep", "100"}, {"false"}};
  CHECK(error_text<Error>([&] {
          (void)run_programs(commands, 2, [](size_t, const Finished& finished) {
            require_success("false", finished);
          });
        }) == "false ended with 1: ");
  CHECK(error_text<ArgumentError>([&] { (void)run_programs(commands, 0); }) ==
        "programs at once: expected at least 1, got 0");
  if (test::emulated()) return test::skip("a program that cannot start, under an emulator");
  CHECK(error_text<Error>([] {
          (void)run_programs(
              std::vector<std::vector<std::string>>{{"sleep", "100"}, {"no such"}}, 2);
        }).starts_with("cannot run no such: "));
}
