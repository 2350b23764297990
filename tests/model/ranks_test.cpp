// fit on several ranks: equal results on any number of them, checkpoints, and errors.
#include "qtape/model/ranks.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <limits>

#include "qtape/model/fit.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"
#include "qtape/tests/support/small_fit.h"
#include "qtape/tests/support/thread_ranks.h"

using namespace qtape;
using test::error_text;
using test::small_digits;
using test::small_model;
using test::ThreadRanks;

namespace {

FitOptions sharded(int64_t epochs) {
  FitOptions options = test::quiet(epochs);
  options.interruptible = false;
  options.augmentation = {.shift = 2, .noise = 0.1};
  options.shards = 8;
  return options;
}

std::string train_alone(const FitOptions& options) {
  Model model = small_model();
  (void)fit(model, small_digits().train, options);
  return model.parameters().sha256();
}

/// Trains on ranks and returns the hash of each.
std::vector<std::string> train_on(int ranks, const FitOptions& options, bool delayed = false) {
  std::vector<std::string> hashes(static_cast<size_t>(ranks));
  ThreadRanks(ranks, delayed).run([&](Exchange& exchange) {
    FitOptions own = options;
    own.exchange = &exchange;
    hashes[static_cast<size_t>(exchange.rank())] = train_alone(own);
  });
  return hashes;
}

/// Error of every rank if rank `changed` has other options.
std::string error_on_ranks(int ranks, const FitOptions& options,
                           const std::function<void(FitOptions&)>& change = {}) {
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  ThreadRanks(ranks).run([&](Exchange& exchange) {
    FitOptions own = options;
    own.exchange = &exchange;
    if (change && exchange.rank() == 1) change(own);
    errors[static_cast<size_t>(exchange.rank())] =
        error_text<ArgumentError>([&] { (void)train_alone(own); });
  });
  for (const std::string& each : errors) CHECK(each == errors[0]);
  return errors[0];
}

}  // namespace

TEST_CASE("fit: ranks give the bits of one process") {
  const std::string expected = train_alone(sharded(2));
  for (const int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    for (const bool delayed : {false, true}) {
      for (const std::string& each : train_on(ranks, sharded(2), delayed)) {
        CHECK(each == expected);
      }
    }
  }
  FitOptions options = sharded(2);
  options.prefetch = true;
  options.threads = 2;
  for (const std::string& each : train_on(2, options)) CHECK(each == expected);
}

TEST_CASE("fit: a teacher answers by shards") {
  const Model teacher = small_model();
  FitOptions options = sharded(1);
  options.distillation = Distillation{.teacher = &teacher};
  const std::string expected = train_alone(options);
  for (const std::string& each : train_on(2, options)) CHECK(each == expected);
}

TEST_CASE(
    "fit: a run continues on another number of ranks, with the shards of its checkpoint") {
  const test::Folder folder;
  const std::string expected = train_alone(sharded(3));
  FitOptions options = sharded(3);
  options.checkpoint = folder.file("run.json");
  options.checkpoint_every = 1;
  std::atomic<int64_t> step = 0;
  options.on_step = [&](const FitProgress& progress) { step = progress.step; };
  const auto stop_at = [&](int64_t end) {
    options.stop = [&step, end] { return step >= end; };
  };
  stop_at(3);
  (void)train_on(2, options);
  options.resume = true;
  options.shards = {};
  stop_at(7);
  (void)train_on(3, options);
  options.stop = {};
  CHECK(train_alone(options) == expected);
  options.shards = 4;
  CHECK(error_text<ArgumentError>([&] { (void)train_alone(options); }) ==
        "the checkpoint is from a run with 8 shards, which cannot be continued with 4");
}

TEST_CASE("fit: samples that are not finite count and end alike on all ranks") {
  const data::Dataset& digits = small_digits().train;
  const data::Dataset broken = digits.map("x", [](std::span<float> x, const Random& random) {
    const auto draw = random.below(32, 0);
    if (draw == 0) x[100] = std::numeric_limits<float>::quiet_NaN();
    if (draw == 1) x[200] = std::numeric_limits<float>::infinity();
  });
  const auto train = [&](Exchange* exchange) {
    FitOptions options = sharded(2);
    options.augmentation = {};
    options.exchange = exchange;
    Model model = small_model();
    const FitResult result = fit(model, broken, options);
    CHECK(result.non_finite_elements > 0);
    return fmt::format("{} {} {}", model.parameters().sha256(), result.non_finite_elements,
                       result.skipped_batches);
  };
  const std::string expected = train(nullptr);
  for (const int ranks : {1, 2, 3, 4}) {
    CAPTURE(ranks);
    ThreadRanks(ranks).run([&](Exchange& exchange) { CHECK(train(&exchange) == expected); });
  }
}

TEST_CASE("fit: a rank that is to stop ends the run on all of them") {
  FitOptions options = sharded(3);
  std::vector<int64_t> steps(2);
  ThreadRanks(2).run([&](Exchange& exchange) {
    FitOptions own = options;
    own.exchange = &exchange;
    own.stop = [&exchange] { return exchange.rank() == 1; };
    Model model = small_model();
    const FitResult result = fit(model, small_digits().train, own);
    steps[static_cast<size_t>(exchange.rank())] = result.step;
    CHECK(result.stopped);
    CHECK(result.ranks == 2);
    CHECK(result.shards == 8);
  });
  CHECK(steps == std::vector<int64_t>{1, 1});
}

TEST_CASE("fit: shards and ranks that do not fit") {
  FitOptions options = sharded(1);
  options.batch = 60;
  CHECK(error_text<ArgumentError>([&] { (void)train_alone(options); }) ==
        "batch must be a multiple of the 8 shards, got 60");
  options.batch = 8;
  CHECK(error_text<ArgumentError>([&] { (void)train_alone(options); }) ==
        "batch must have at least 2 samples for each of the 8 shards, got 8");
  options.batch = 64;
  options.shards = 2;
  CHECK(error_on_ranks(3, options) == "3 processes need at least 3 shards of a batch, got 2");
  options.shards = 0;
  CHECK(error_text<ArgumentError>([&] { (void)train_alone(options); }) ==
        "shards must be in [1, 1024], got 0");
}

TEST_CASE("fit: ranks with other settings are refused by rank and name") {
  const std::string error = error_on_ranks(2, sharded(1), [](FitOptions& own) {
    own.seed = 2;
    own.learning_rate = 0.5;
  });
  CHECK(error ==
        "the processes of a run must agree, but differ in schedule/base (rank 0: 0.004; rank "
        "1: 0.5; pass the same settings everywhere), seed (rank 0: 1; rank 1: 2; pass the same "
        "settings everywhere)");
}

TEST_CASE("ranks: values by groups of ranks, and names that some ranks lack") {
  ThreadRanks(3).run([](Exchange& exchange) {
    std::vector<RankFact> facts = {{"a", exchange.rank() == 1 ? "x" : "y", "fix it"}};
    if (exchange.rank() == 2) facts.push_back({"b", "z", "do so"});
    CHECK(error_text<ArgumentError>([&] { Ranks(&exchange).require_equal(facts); }) ==
          "the processes of a run must agree, but differ in a (ranks 0, 2: y; rank 1: x; fix "
          "it), b (ranks 0, 1: none; rank 2: z; do so)");
    CHECK(Ranks(&exchange).largest(exchange.rank() * 5) == 10);
  });
}
