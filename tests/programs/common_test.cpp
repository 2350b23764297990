// Common parts of programs: progress lines, ranges of options, locks.
#include <doctest/doctest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "qtape/core/error.h"
#include "qtape/io/file_lock.h"
#include "qtape/io/files.h"
#include "qtape/programs/command_line.h"
#include "qtape/programs/console/progress.h"
#include "qtape/programs/output_files.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"

using namespace qtape;
using namespace qtape::programs;
using namespace qtape::console;
using test::error_text;

namespace {

/// Returns a validator's complaint about an argument; empty if it is valid.
std::string complaint(const CLI::Validator& validator, std::string text) {
  return validator(text);
}

}  // namespace

TEST_CASE("progress: losses that four decimals do not show have a power of ten") {
  CHECK(loss_text(0, 4) == "0.0000");
  CHECK(loss_text(2.30258, 4) == "2.3026");
  CHECK(loss_text(0.00123, 4) == "0.0012");
  CHECK(loss_text(0.000123456, 4) == "0.0001235");
  CHECK(loss_text(3.21e-9, 4) == "3.21e-09");
  CHECK(loss_text(7395684.0, 4) == "7395684.0000");
  CHECK(loss_text(7.3956841e22, 4) == "7.396e+22");
}

TEST_CASE("progress: what does not fit a line goes, the bar first") {
  const Progress half{.step = 50, .steps = 100, .epoch = 7, .loss = 0.5};
  const ProgressText text{"0.5000", "test accuracy 93.10 %", "12 s"};
  const auto line = [&](int columns) { return progress_line(half, text, columns); };
  CHECK(line(200) ==
        "epoch  7 [############------------]  50 %  loss 0.5000  test accuracy 93.10 %  12 s "
        "left");
  CHECK(line(80) ==
        "epoch  7 [#######--------]  50 %  loss 0.5000  test accuracy 93.10 %  12 s left");
  CHECK(line(64) == "epoch  7  50 %  loss 0.5000  test accuracy 93.10 %  12 s left");
  CHECK(line(60) == "epoch  7 [#########---------]  50 %  loss 0.5000  12 s left");
  CHECK(line(30) == "epoch  7  50 %  loss 0.5000");
  CHECK(line(10) == "epoch  7 ");
  CHECK(line(1).empty());
  for (int columns = 1; columns < 120; ++columns) {
    CHECK(line(columns).size() < static_cast<size_t>(columns));
  }
}

TEST_CASE("command line: a range says what it takes and what came") {
  CHECK(complaint(range(1, 1024), "1024").empty());
  CHECK(complaint(range(1, 1024), "0") == "expected 1 to 1024, got 0");
  CHECK(complaint(range(1, 1024), "two") == "expected 1 to 1024, got two");
  CHECK(complaint(range(1, 1024), "99999999999999999999") ==
        "expected 1 to 1024, got 99999999999999999999");
  const CLI::Validator from_0 = range<int64_t>(0, INT64_MAX);
  CHECK(complaint(from_0, "0").empty());
  CHECK(complaint(from_0, "-1") == "expected 0 or more, got -1");
}

TEST_CASE("locks: one holder, whatever the path is called") {
  const test::Folder folder;
  const std::string path = folder.file("c.json");
  const std::string link = folder.file("link.json");
  std::filesystem::create_symlink("c.json", link);
  {
    const FileLock lock(path);
    CHECK(error_text<IoError>([&] {
            const FileLock second(link);
          }).starts_with(link + ": process " + std::to_string(::getpid()) + " on "));
    const FileLock other(folder.file("d.json"));
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  const FileLock again(link);
  const FileLock none("");
  const FileLock device("/dev/null");
  CHECK(!std::filesystem::exists("/dev/null.lock"));
  // A lock file left by a killed run does not lock.
  write_file(folder.file("e.json.lock"), "process 1");
  const FileLock left(folder.file("e.json"));
}

TEST_CASE("output files: what fails is saved elsewhere, all of it is named") {
  OutputFiles files;
  files.expect("--save", "/dev/full");
  files.save("/dev/full", [](const std::string& path) { write_file(path, "weights"); });
  files.write("/dev/full", "report");
  files.save("", [](const std::string&) { fail<IoError>("called"); });
  files.save("nan.json", [](const std::string&) { fail<FormatError>("refused"); });
  const std::string text = error_text<IoError>([&] { files.require_written(); });
  const std::string failed = "/dev/full: cannot write: No space left on device; saved as ";
  CHECK(text.starts_with(failed));
  const size_t end = text.find(" instead; " + failed);
  REQUIRE(end != std::string::npos);
  CHECK(text.ends_with(" instead; refused"));
  const std::string saved = text.substr(failed.size(), end - failed.size());
  CHECK(read_file(saved, 100) == "weights");
  std::filesystem::remove(saved);
  const size_t second = text.rfind(failed) + failed.size();
  const std::string report = text.substr(second, text.rfind(" instead;") - second);
  CHECK(read_file(report, 100) == "report");
  std::filesystem::remove(report);
}
