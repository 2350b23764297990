// Recorder: recording a run changes no bit of it, and the record is complete.
#include "qtape/model/training/recorder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "qtape/engine/quantizers.h"
#include "qtape/io/files.h"
#include "qtape/model/feed.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"
#include "qtape/tests/support/small_fit.h"

using namespace qtape;
using test::error_text;
using test::small_digits;
using test::small_model;

namespace {

FitOptions options_with(const std::string& report) {
  FitOptions options = test::quiet(3);
  options.validation = small_digits().test;
  options.report = report;
  return options;
}

}  // namespace

TEST_CASE("recorder: a run has the same bits, and its record what it was") {
  const test::Folder folder;
  Model plain = small_model(), model = small_model();
  (void)fit(plain, small_digits().train, options_with(""));
  const FitResult result = fit(model, small_digits().train, options_with(folder.file("run")));
  CHECK(model.parameters().sha256() == plain.parameters().sha256());
  CHECK(result.report_failure.empty());

  const report::RunRecord record = report::read_run(folder.file("run"));
  CHECK(record.name == "run");
  CHECK(record.state == report::RunState::Finished);
  CHECK(record.step == 12);
  CHECK(record.loss.means.size() == 12);
  CHECK(record.metric == "validation accuracy");
  REQUIRE(record.epochs.size() == 3);
  CHECK(record.epochs[2].score == result.epochs[2].score);
  CHECK(record.epochs[2].loss == result.epochs[2].loss);
  CHECK(record.parameters == model.parameters().trainable_elements());

  const std::vector<NodeId> ids = quantizers(model.graph());
  REQUIRE(record.scales.size() == ids.size());
  Tape tape(model.graph().with_batch(64), model.parameters(), {.threads = 1});
  const auto expected =
      report::summaries(report_quantizers(tape, batches_of(small_digits().train, 256)));
  REQUIRE(record.quantizers.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(record.scales[i].label == model.graph().name(ids[i]));
    CHECK(record.scales[i].middle.size() == 3);
    CHECK(record.scales[i].middle.back().value() > 0);
    CHECK(record.quantizers[i].sqnr == expected[i].sqnr);
    CHECK(record.quantizers[i].histogram == expected[i].histogram);
  }
  const int64_t peak = std::ranges::max(record.memory.live);
  CHECK(peak > 0);
  CHECK(peak <= record.memory.arena_bytes);
  CHECK(
      std::ranges::any_of(record.times, [](const auto& each) { return each.backward_us > 0; }));
}

TEST_CASE("recorder: a run that goes on has the record of an unbroken one") {
  const test::Folder folder;
  Model whole = small_model();
  (void)fit(whole, small_digits().train, options_with(folder.file("whole")));
  const report::RunRecord unbroken = report::read_run(folder.file("whole"));
  // Without its first record, the curve of a resumed run has a gap.
  for (const bool keeps : {true, false}) {
    CAPTURE(keeps);
    Model model = small_model();
    FitOptions options = options_with(folder.file(keeps ? "kept" : "lost"));
    options.checkpoint = folder.file(keeps ? "kept.json" : "lost.json");
    int64_t steps = 0;
    options.stop = [&] { return ++steps == 9; };
    (void)fit(model, small_digits().train, options);
    CHECK(report::read_run(options.report).state == report::RunState::Stopped);
    if (!keeps) std::filesystem::remove_all(options.report);
    options.stop = {};
    options.resume = true;
    (void)fit(model, small_digits().train, options);
    const report::RunRecord resumed = report::read_run(options.report);
    CHECK(resumed.step == 12);
    REQUIRE(resumed.epochs.size() == 3);
    for (size_t i = 0; i < 3; ++i) {
      CHECK(resumed.epochs[i].loss == unbroken.epochs[i].loss);
      CHECK(resumed.epochs[i].score == unbroken.epochs[i].score);
    }
    REQUIRE(resumed.loss.means.size() == 12);
    for (size_t i = 0; i < 12; ++i) {
      CHECK(resumed.loss.means[i] == (keeps || i >= 9 ? unbroken.loss.means[i] : std::nullopt));
    }
    CHECK(resumed.scales[0].middle[2] == unbroken.scales[0].middle[2]);
    CHECK(resumed.scales[0].middle[0] == (keeps ? unbroken.scales[0].middle[0] : std::nullopt));
  }
}

TEST_CASE("recorder: a report that cannot be written ends no run, one that cannot begin does") {
  const test::Folder folder;
  FitOptions options = options_with(folder.file("run"));
  options.on_epoch = [&](const EpochResult& each) {
    // A directory that a file cannot replace.
    if (each.epoch == 1) std::filesystem::create_directories(folder.file("run/run.json/x"));
  };
  Model model = small_model();
  const FitResult result = fit(model, small_digits().train, options);
  CHECK(result.step == 12);
  CHECK(result.report_failure.starts_with(folder.file("run") + "/run.json: "));
  write_file(folder.file("file"), "");
  options.report = folder.file("file");
  const std::string before = model.parameters().sha256();
  CHECK(error_text<IoError>([&] {
          (void)fit(model, small_digits().train, options);
        }).starts_with(options.report + ": cannot create this folder: "));
  CHECK(model.parameters().sha256() == before);
}

TEST_CASE("recorder: a run that fails says so") {
  const test::Folder folder;
  FitOptions options = options_with(folder.file("run"));
  options.on_step = [](const FitProgress& progress) {
    if (progress.step == 6) fail<GraphError>("enough");
  };
  Model model = small_model();
  CHECK_THROWS_AS((void)fit(model, small_digits().train, options), GraphError);
  const report::RunRecord record = report::read_run(folder.file("run"));
  CHECK(record.state == report::RunState::Failed);
  CHECK(record.step == 6);
}

TEST_CASE(
    "recorder: a run goes on with its own record alone, and no other writes it meanwhile") {
  const test::Folder folder;
  FitOptions options = options_with(folder.file("run"));
  options.checkpoint = folder.file("c.json");
  int64_t steps = 0;
  options.stop = [&] { return ++steps == 5; };
  Model model = small_model();
  options.on_epoch = [&](const EpochResult&) {
    FitOptions other = options_with(options.report);
    Model second = small_model();
    CHECK(error_text<IoError>([&] {
            (void)fit(second, small_digits().train, other);
          }).find("run.json") != std::string::npos);
  };
  (void)fit(model, small_digits().train, options);
  report::RunRecord record = report::read_run(options.report);
  record.batch = 32;
  report::write_run(options.report, record);
  options.stop = {};
  options.resume = true;
  CHECK(error_text<FormatError>([&] { (void)fit(model, small_digits().train, options); }) ==
        options.report + "/run.json: expected the record of a run with " +
            std::to_string(record.parameters) + " parameters and batches of 64, got " +
            std::to_string(record.parameters) + " and 32");
}
