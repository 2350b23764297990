// Records of training runs: curves of any length, files, and the page that shows them.
#include "qtape/model/training/run_record.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "qtape/core/random.h"
#include "qtape/io/files.h"
#include "qtape/programs/report/page.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"

using namespace qtape;
using namespace qtape::report;
using test::error_text;

namespace {

RunRecord some_record() {
  RunRecord record{.name = "a run",
                   .state = RunState::Finished,
                   .step = 20,
                   .steps = 40,
                   .batch = 8,
                   .threads = 2,
                   .parameters = 100,
                   .mean_step_us = 12.5,
                   .metric = "test accuracy",
                   .unit = " %"};
  for (int64_t i = 0; i < 20; ++i) record.loss.add(1.0 / static_cast<double>(i + 1));
  record.epochs = {{.epoch = 1, .step = 10, .loss = 0.3, .score = 90, .learning_rate = 1e-3},
                   {.epoch = 2, .step = 20, .loss = 0.1, .learning_rate = 5e-4}};
  record.scales = {
      {.label = "fc.weight", .smallest = {{}, 0.1}, .middle = {{}, 0.2}, .largest = {{}, 0.3}}};
  record.quantizers = {{.label = "fc.weight",
                        .q_min = -7,
                        .q_max = 7,
                        .channels = 4,
                        .sqnr = 20.5,
                        .histogram = {1, 2, 3}}};
  record.memory = {
      .parameter_bytes = 800, .arena_bytes = 64, .live = {1, 64}, .peak_node = "x"};
  record.times = {{.op = "MatMul", .forward_us = 3, .backward_us = 4}};
  return record;
}

std::string error_of(const std::string& text) {
  const test::Folder folder;
  write_file(folder.file("run.json"), text);
  const std::string error = error_text<FormatError>([&] { (void)read_run(folder.path()); });
  const std::string prefix = folder.file("run.json") + ": ";
  REQUIRE(error.starts_with(prefix));
  return error.substr(prefix.size());
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("run_record: a curve of any length keeps the mean of what was added") {
  for (const int64_t steps : {1, 1023, 1024, 1025, 5000, 100000}) {
    CAPTURE(steps);
    Curve curve;
    double sum = 0;
    for (int64_t i = 0; i < steps; ++i) {
      curve.add(static_cast<double>(i % 7));
      sum += static_cast<double>(i % 7);
    }
    CHECK(curve.steps() == steps);
    CHECK(curve.means.size() < Curve::max_points);
    double kept = curve.rest_sum;
    for (const auto& mean : curve.means)
      kept += mean.value() * static_cast<double>(curve.stride);
    CHECK(kept == doctest::Approx(sum));
  }
}

TEST_CASE("run_record: what is not finite leaves means alone, or a gap") {
  Curve curve{.stride = 2};
  for (const double each : {1.0, std::nan(""), std::nan(""), HUGE_VAL, 3.0, 5.0})
    curve.add(each);
  CHECK(curve.means == std::vector<std::optional<double>>{1, std::nullopt, 4});
  curve.keep(5);
  CHECK(curve.means.size() == 2);
  CHECK(curve.steps() == 4);
  curve.keep(100);
  CHECK(curve.steps() == 4);
}

TEST_CASE("run_record: a record comes back from its folder as it was") {
  const test::Folder folder;
  const std::string run = folder.file("runs/a");
  require_run_folder(run);
  write_run(run, some_record());
  CHECK(to_json(read_run(run)) == to_json(some_record()));
  CHECK(to_json(read_run(run + "/run.json")) == to_json(some_record()));
}

TEST_CASE("run_record: files that are no records") {
  const std::string good = to_json(some_record());
  CHECK(error_of("{}") == "/: \"format\" is missing");
  CHECK(error_of("[1]") == "/: expected an object, got an array");
  CHECK(error_of(replaced(good, "\"qtape-run\"", "\"qtape\"")) ==
        "/format: expected \"qtape-run\", got \"qtape\"");
  CHECK(error_of(replaced(good, "\"version\":1", "\"version\":2")) ==
        "/version: expected version 1, got 2");
  CHECK(error_of(replaced(good, "\"steps\":40", "\"steps\":\"x\"")) ==
        "/steps: expected an integer, got \"x\"");
  CHECK(error_of(replaced(good, "\"stride\":1", "\"stride\":0"))
            .starts_with("/loss: expected means over a stride of at least 1"));
  CHECK(error_of(replaced(good, "\"smallest\":[null,0.1]", "\"smallest\":[null]"))
            .starts_with("/scales: expected three scales for each epoch"));
  CHECK(error_text<IoError>([] {
          (void)read_run("none/of/this");
        }).starts_with("none/of/this: cannot open"));
}

TEST_CASE("run_record: no mutation of a file does more than throw") {
  const std::string good = to_json(some_record());
  const test::Folder folder;
  int64_t refused = 0;
  for (uint64_t i = 0; i < 2000; ++i) {
    const Random random(7, i);
    std::string text = good;
    const size_t changes = 1 + static_cast<size_t>(random.uniform(0) * 3);
    for (size_t k = 0; k < changes; ++k) {
      const auto at =
          static_cast<size_t>(random.uniform(1 + 2 * k) * static_cast<double>(text.size()));
      text[std::min(at, text.size() - 1)] =
          static_cast<char>(32 + static_cast<int>(random.uniform(2 + 2 * k) * 95));
    }
    write_file(folder.file("run.json"), text);
    try {
      const std::vector<RunRecord> runs = {read_run(folder.path())};
      CHECK(!run_page(runs).empty());
    } catch (const FormatError&) {
      ++refused;
    }
  }
  CHECK(refused > 1000);
}

TEST_CASE("run_page: numbers and names are in it, and nothing is loaded") {
  std::vector<RunRecord> runs = {some_record(), some_record()};
  runs[1].name = "</script><script>alert(1)</script>";
  const std::string page = run_page(runs);
  CHECK(page.find("\"name\":\"a run\"") != std::string::npos);
  CHECK(page.find("<script>alert") == std::string::npos);
  CHECK(page.find("\\u003c/script>") != std::string::npos);
  CHECK(page.find("QTAPE_RUNS") == std::string::npos);
  for (const char* loads : {"src=", "href=", "@import", "url(", "fetch(", "https://"}) {
    CAPTURE(loads);
    CHECK(page.find(loads) == std::string::npos);
  }
  CHECK(error_text<ArgumentError>([] { (void)run_page({}); }) ==
        "a page needs at least one run");
}
