// fit: checkpoints, scores, policies, errors.
#include "qtape/model/fit.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <atomic>
#include <cfenv>
#include <cmath>
#include <csignal>
#include <limits>

#include "qtape/model/recipe.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"
#include "qtape/tests/support/small_fit.h"
#include "qtape/tests/support/subnormals.h"

using namespace qtape;
using test::error_text;
using test::small_digits;
using test::small_model;

namespace {

FitOptions quiet(int64_t epochs) {
  FitOptions options = test::quiet(epochs);
  options.validation = small_digits().test;
  return options;
}

std::string trained_by(const FitOptions& options) {
  Model model = small_model();
  (void)fit(model, small_digits().train, options);
  return model.parameters().sha256();
}

}  // namespace

TEST_CASE("fit: epochs are judged, and the bits do not depend on threads") {
  Model model = small_model();
  const FitResult result = fit(model, small_digits().train, quiet(4));
  REQUIRE(result.epochs.size() == 4);
  CHECK(result.step == 16);
  CHECK(result.steps == 16);
  CHECK(result.epochs.back().loss < result.epochs.front().loss);
  CHECK(result.epochs.back().score == accuracy(model, small_digits().test));
  CHECK(result.best_epoch.has_value());
  FitOptions two = quiet(4);
  two.threads = 2;
  CHECK(trained_by(two) == model.parameters().sha256());
}

TEST_CASE("fit: reading ahead changes no bit") {
  const data::Dataset& samples = small_digits().train;
  const data::Dataset computed(samples.size(),
                               {samples.columns().begin(), samples.columns().end()},
                               [&](size_t column, int64_t sample, std::span<float> to) {
                                 samples.read(column, sample, to);
                               });
  FitOptions options = quiet(3);
  options.augmentation = {.shift = 2, .noise = 0.1};
  options.prefetch = false;
  const std::string expected = trained_by(options);
  options.prefetch = true;
  CHECK(trained_by(options) == expected);
  options.prefetch = {};
  options.threads = 2;
  CHECK(trained_by(options) == expected);
  Model model = small_model();
  (void)fit(model, computed, options);
  CHECK(model.parameters().sha256() == expected);
}

TEST_CASE("fit: maps draw by seed, epoch and sample, whoever reads, and go on after a resume") {
  const test::Folder folder;
  const data::Dataset mapped =
      small_digits().train.map([](std::span<float> x, const Random& random) {
        const auto gain = static_cast<float>(0.5 + random.uniform(0));
        for (size_t i = 0; i < x.size(); ++i) {
          x[i] = gain * x[i] + static_cast<float>(0.1 * random.uniform(i + 1));
        }
      });
  const auto trained = [&](const FitOptions& options) {
    Model model = small_model();
    (void)fit(model, mapped, options);
    return model.parameters().sha256();
  };
  FitOptions options = quiet(3);
  options.prefetch = false;
  const std::string expected = trained(options);
  CHECK(expected != trained_by(options));
  options.prefetch = true;
  options.threads = 3;
  CHECK(trained(options) == expected);
  options.seed = 2;
  CHECK(trained(options) != expected);
  options.seed = 1;
  options.checkpoint = folder.file("run.json");
  int64_t steps = 0;
  options.stop = [&] { return ++steps == 7; };
  (void)trained(options);
  options.stop = {};
  options.resume = true;
  CHECK(trained(options) == expected);
}

TEST_CASE("fit: what a reader throws ends the run after the steps before it") {
  const data::Dataset& samples = small_digits().train;
  std::atomic<int64_t> left = 3 * 64 * 2;
  const data::Dataset broken(samples.size(),
                             {samples.columns().begin(), samples.columns().end()},
                             [&](size_t column, int64_t sample, std::span<float> to) {
                               if (left-- == 0) fail<IoError>("sample {} is gone", sample);
                               samples.read(column, sample, to);
                             });
  for (const bool ahead : {false, true}) {
    CAPTURE(ahead);
    left = 3 * 64 * 2;
    int64_t steps = 0;
    FitOptions options = quiet(3);
    options.prefetch = ahead;
    options.on_step = [&](const FitProgress&) { ++steps; };
    Model model = small_model();
    CHECK(
        error_text<IoError>([&] { (void)fit(model, broken, options); }).ends_with(" is gone"));
    CHECK(steps == 3);
  }
}

TEST_CASE("fit: a stopped run goes on from its checkpoint to the bits of an unbroken one") {
  for (const bool keeps : {false, true}) {
    const test::Folder folder;
    FitOptions options = quiet(5);
    options.keep_best = keeps;
    const std::string whole = trained_by(options);
    options.checkpoint = folder.file("c.json");
    int64_t steps = 0;
    options.stop = [&] { return ++steps == 9; };
    Model model = small_model();
    const FitResult part = fit(model, small_digits().train, options);
    CHECK(part.stopped);
    CHECK(part.step == 9);
    CHECK(part.resumed_from == 0);
    options.stop = {};
    options.resume = true;
    SUBCASE("a fresh model finds the checkpoint by itself") {
      Model fresh = small_model();
      const FitResult rest = fit(fresh, small_digits().train, options);
      CHECK(rest.epochs.size() == 5);
      CHECK(rest.resumed_from == 9);
      CHECK(fresh.parameters().sha256() == whole);
    }
    SUBCASE("a model that was loaded from it brings it along") {
      Model loaded = Model::load(options.checkpoint);
      options.checkpoint.clear();
      CHECK(fit(loaded, small_digits().train, options).step == 20);
      CHECK(loaded.parameters().sha256() == whole);
    }
    SUBCASE("a checkpoint of another network is refused, and nothing changes") {
      Network net;
      Model other(linear(net.input("x", {784}), 10), loss::cross_entropy);
      const std::string before = other.parameters().sha256();
      CHECK(error_text<FormatError>([&] { (void)fit(other, small_digits().train, options); }) ==
            options.checkpoint + ": /nodes: the graph is not that of the model");
      CHECK(other.parameters().sha256() == before);
    }
  }
}

TEST_CASE("fit: patience ends a run, and the best epoch's values stay") {
  const std::vector<double> scores = {1, 5, 3, 4, 2, 9};
  size_t epoch = 0;
  std::string best;
  Model model = small_model();
  FitOptions options = quiet(6);
  options.metric = Metric{.name = "made up", .measure = [&] { return scores[epoch++]; }};
  options.patience = 3;
  options.keep_best = true;
  options.on_epoch = [&](const EpochResult& each) {
    if (each.epoch == 2) best = model.parameters().sha256();
  };
  FitResult result = fit(model, small_digits().train, options);
  CHECK(result.epochs.size() == 5);
  CHECK(result.best_epoch == 2);
  CHECK(model.parameters().sha256() == best);
  epoch = 0;
  options.metric->higher_is_better = false;
  model = small_model();
  result = fit(model, small_digits().train, options);
  CHECK(result.epochs.size() == 4);
  CHECK(result.best_epoch == 1);
}

TEST_CASE(
    "fit: gradients that are not finite end the run, or are left out if they are limited") {
  const auto root = [] {
    Network net;
    const Value h = linear(net.input("x", {2}), 3);
    return Model(linear(sqrt(h), 1), loss::mean_squared_error);
  };
  std::vector<float> zeros(32, 0.0f);
  data::Dataset set;
  set.add("x", Tensor::of<float>({16, 2}, zeros));
  set.add_target("y", Tensor::of<float>({16, 1}, std::vector<float>(16, 1.0f)));
  FitOptions options = quiet(2);
  options.batch = 8;
  options.validation = {};
  Model model = root();
  model.set<float>("fc1.bias", std::vector<float>{0, 0, 0});
  const std::string before = model.parameters().sha256();
  CHECK(error_text<GraphError>([&] {
          (void)fit(model, set, options);
        }).find("is NaN or infinite after step 1: a gradient was not finite") !=
        std::string::npos);
  model = root();
  model.set<float>("fc1.bias", std::vector<float>{0, 0, 0});
  // Also in the last step, which no other one follows.
  FitOptions last = options;
  last.epochs = 1;
  last.batch = 16;
  CHECK(error_text<GraphError>([&] { (void)fit(model, set, last); }) != "no error");
  model = root();
  model.set<float>("fc1.bias", std::vector<float>{0, 0, 0});
  options.max_gradient_norm = 1;
  CHECK(fit(model, set, options).skipped_batches == 4);
  CHECK(model.parameters().sha256() == before);
}

TEST_CASE("fit: a loss that is not finite is skipped or ends the run, as the options say") {
  Model model = small_model();
  model.set<float>("fc2.bias", std::vector<float>(10, std::numeric_limits<float>::quiet_NaN()));
  const Tensor before = model.parameters().get("fc1.weight");
  CHECK(fit(model, small_digits().train, quiet(1)).skipped_batches == 4);
  CHECK(model.parameters().get("fc1.weight") == before);
  FitOptions options = quiet(1);
  options.non_finite_loss = NonFiniteLoss::Stop;
  CHECK(error_text<GraphError>([&] { (void)fit(model, small_digits().train, options); }) ==
        "the loss of step 1 is nan; the parameters are those before that step");
  CHECK(model.parameters().get("fc1.weight") == before);
}

TEST_CASE("fit: an epoch without a finite loss has none, in checkpoints as well") {
  const test::Folder folder;
  const data::Dataset set = small_digits().train.map([](std::span<float> x, const Random&) {
    std::ranges::fill(x, std::numeric_limits<float>::quiet_NaN());
  });
  FitOptions options = quiet(2);
  options.checkpoint = folder.file("c.json");
  options.stop = [steps = 0]() mutable { return ++steps == 5; };
  Model model = small_model();
  CHECK(fit(model, set, options).stopped);
  options.stop = {};
  options.resume = true;
  Model resumed = Model::load(options.checkpoint);
  const FitResult result = fit(resumed, set, options);
  CHECK(result.skipped_batches == 8);
  REQUIRE(result.epochs.size() == 2);
  CHECK(std::isnan(result.epochs[0].loss));
  CHECK(std::isnan(result.epochs[1].loss));
}

TEST_CASE("fit: checkpoints are written where the score is not a number") {
  const test::Folder folder;
  FitOptions options = quiet(1);
  options.checkpoint = folder.file("c.json");
  options.metric = Metric{.name = "none",
                          .measure = [] { return std::numeric_limits<double>::quiet_NaN(); }};
  Model model = small_model();
  CHECK(fit(model, small_digits().train, options).epochs.size() == 1);
  CHECK(Model::load(options.checkpoint).parameters().sha256() == model.parameters().sha256());
}

TEST_CASE("fit: SIGINT ends the run after its step, with a checkpoint") {
  const test::Folder folder;
  FitOptions options = quiet(3);
  options.checkpoint = folder.file("c.json");
  options.on_step = [](const FitProgress& progress) {
    if (progress.step == 5) std::raise(SIGINT);
  };
  Model model = small_model();
  try {
    (void)fit(model, small_digits().train, options);
    FAIL("the run was not interrupted");
  } catch (const FitInterrupted& stopped) {
    CHECK(stopped.signal() == SIGINT);
    CHECK(stopped.progress().step == 5);
    CHECK(std::string(stopped.what()) == "stopped by SIGINT after step 5 of 12");
  }
  options.on_step = {};
  options.resume = true;
  Model resumed = Model::load(options.checkpoint);
  (void)fit(resumed, small_digits().train, options);
  CHECK(resumed.parameters().sha256() == trained_by(quiet(3)));
}

TEST_CASE("fit: hooks see every step; gradients may be changed") {
  FitOptions options = quiet(1);
  int64_t before = 0, between = 0;
  options.before_step = [&](Tape& tape, int64_t step) {
    CHECK(step == before++);
    CHECK(tape.graph().batch() == 64);
  };
  options.on_gradients = [&](Parameters& parameters, int64_t) {
    ++between;
    parameters.zero_gradients();
  };
  Model model = small_model();
  const Tensor weights = model.parameters().get("fc1.weight");
  (void)fit(model, small_digits().train, options);
  CHECK(before == 4);
  CHECK(between == 4);
  CHECK(model.parameters().get("fc1.weight") == weights);
}

TEST_CASE("fit: a run goes on with the settings of its checkpoint or not at all") {
  const test::Folder folder;
  FitOptions made = quiet(2);
  made.checkpoint = folder.file("c.json");
  (void)trained_by(made);
  const auto error = [&](const std::function<void(FitOptions&)>& change, int64_t samples = 0) {
    FitOptions options = made;
    options.resume = true;
    change(options);
    Model model = Model::load(made.checkpoint);
    const data::Dataset& all = small_digits().train;
    const data::Dataset data = samples == 0 ? all : all.slice(0, samples);
    return error_text<ArgumentError>([&] { (void)fit(model, data, options); });
  };
  CHECK(error([](FitOptions&) {}) == "no error");
  CHECK(error([](FitOptions& o) { o.epochs = 3; }) ==
        "epochs: the checkpoint is from a run with 2, got 3");
  CHECK(error([](FitOptions& o) { o.epochs = 1; }) ==
        "epochs: the checkpoint is from a run with 2, got 1");
  CHECK(error([](FitOptions& o) {
          o.batch = 32;
        }).starts_with("batch: the checkpoint is from a run with "));
  CHECK(error([](FitOptions& o) { o.seed = 9; }) ==
        "seed: the checkpoint is from a run with 1, got 9");
  CHECK(error([](FitOptions&) {}, small_digits().train.size() - 1)
            .starts_with("samples: the checkpoint is from a run with "));
  CHECK(error([](FitOptions& o) { o.schedule = ConstantRate{}; }) ==
        "schedule: the checkpoint is from a run with Cosine, got ConstantRate");
  CHECK(error([](FitOptions& o) { o.learning_rate = 0.5; })
            .starts_with("epochs, learning_rate, schedule and warm_up must be those of the "
                         "checkpoint: base is "));
  CHECK(
      error([](FitOptions& o) { o.oscillations.damping = 1; }) ==
      "oscillations: the checkpoint is from a run with damping 0, freeze_above none, momentum "
      "0.01, got damping 1, freeze_above none, momentum 0.01");
  CHECK(
      error([](FitOptions& o) { o.augmentation.noise = 0.1; }) ==
      "augmentation: the checkpoint is from a run with shift 0, rotation 0, noise 0, got shift "
      "0, rotation 0, noise 0.1");
  CHECK(error([](FitOptions& o) { o.max_gradient_norm = 1; }) ==
        "max_gradient_norm: the checkpoint is from a run with 0, got 1");
  CHECK(error([](FitOptions& o) {
          o.quantization = QuantizationSchedule{.delay = 1};
        }).starts_with("quantization: the checkpoint is from a run with delay 0, "));
  CHECK(error([](FitOptions& o) {
          o.validation = small_digits().test;
          o.score = MetricKind::Accuracy;
        }).starts_with("score: the checkpoint is from a run with usual, got "));
}

TEST_CASE("fit: oscillations follow affine codes, and layers that the loss needs") {
  const Random random(3, 1);
  std::vector<float> x(128), y(64);
  for (size_t i = 0; i < 64; ++i) {
    for (size_t k = 0; k < 2; ++k) x[2 * i + k] = static_cast<float>(random.uniform(2 * i + k));
    y[i] = 0.7f * x[2 * i] - 0.4f * x[2 * i + 1];
  }
  data::Dataset set;
  set.add("x", Tensor::of<float>({64, 2}, x));
  set.add_target("y", Tensor::of<float>({64, 1}, y));
  Network net;
  const Layer layer{.weights = FakeQuantize{.bits = 4,
                                            .range = CodeRange::Unsigned,
                                            .scheme = Scheme::Affine,
                                            .scale_mode = PerBatch{}}};
  const Value in = net.input("x", {2});
  const Value out = linear(in, 1, layer);
  (void)linear(in, 3, layer);
  Model model(out, loss::mean_squared_error);
  FitOptions options = quiet(40);
  options.validation = {};
  options.batch = 8;
  options.learning_rate = 0.02;
  options.schedule = ConstantRate{};
  options.oscillations = {.damping = 0.01, .freeze_above = 0.02, .momentum = 0.1};
  model.set<float>("fc1.weight", std::vector<float>{0.72f, -0.43f});
  CHECK(fit(model, set, options).frozen_weights > 0);
  const auto trained = model.parameters().at("fc1.weight").values<float>();
  // Frozen weights are at a mean of codes, two steps of 15 away at most.
  const float step = (0.7f + 0.4f) / 15;
  CHECK(std::fabs(trained[0] - 0.7f) < 2 * step);
  CHECK(std::fabs(trained[1] + 0.4f) < 2 * step);
}

TEST_CASE("fit: the best values of a checkpoint without them cannot be kept") {
  const test::Folder folder;
  FitOptions options = quiet(2);
  options.checkpoint = folder.file("c.json");
  (void)trained_by(options);
  options.resume = true;
  options.keep_best = true;
  const auto error = [&](const std::function<void(Section&)>& change) {
    SavedModel saved = load_model(options.checkpoint);
    if (change) {
      Section best = {.kind = "parameters"};
      for (const ParameterEntry& each : saved.parameters.entries()) {
        best.tensors[each.name] = saved.parameters.get(each.name);
      }
      change(best);
      saved.sections["best"] = best;
    }
    Model model(std::move(saved));
    return error_text<Error>([&] { (void)fit(model, small_digits().train, options); });
  };
  CHECK(error({}) == "keep_best: the checkpoint is from a run without it");
  CHECK(error([](Section&) {}) == "no error");
  CHECK(error([](Section& best) {
          best.tensors.erase("fc1.bias");
        }).starts_with("/sections/best/tensors: expected 'fc1.bias' f32["));
}

TEST_CASE("fit: a stopped model continues from its own progress, not from an older one") {
  const test::Folder folder;
  FitOptions options = quiet(6);
  const std::string expected = trained_by(options);
  for (const bool loaded : {false, true}) {
    CAPTURE(loaded);
    options.checkpoint = folder.file(loaded ? "a.json" : "b.json");
    int64_t steps = 0;
    options.stop = [&] { return ++steps % 7 == 0; };
    options.resume = false;
    Model model = small_model();
    FitResult result = fit(model, small_digits().train, options);
    if (loaded) model = Model::load(options.checkpoint);
    options.resume = true;
    int64_t calls = 1;
    for (; result.stopped && calls < 9; ++calls) {
      result = fit(model, small_digits().train, options);
    }
    CHECK(calls == 4);
    CHECK(model.parameters().sha256() == expected);
    CHECK(model.sections().empty());
    // A finished run stays finished, and measures no step.
    CHECK(result.step_us.has_value());
    result = fit(model, small_digits().train, options);
    CHECK(result.step == 24);
    CHECK(!result.step_us.has_value());
    CHECK(model.parameters().sha256() == expected);
  }
}

TEST_CASE("fit: what cannot be or has no effect is refused before the first step") {
  const test::Folder folder;
  Model model = small_model();
  const std::string before = model.parameters().sha256();
  using O = FitOptions;
  const auto error = [&](const std::function<void(O&)>& change) {
    O options = quiet(1);
    options.on_step = [](const FitProgress&) { FAIL("a step"); };
    change(options);
    return error_text<ArgumentError>([&] { (void)fit(model, small_digits().train, options); });
  };
  CHECK(error([](O& o) { o.epochs = 0; }) == "epochs must be at least 1, got 0");
  for (const int64_t batch : {257, 0}) {
    CHECK(
        error([&](O& o) { o.batch = batch; }) ==
        fmt::format("batch must be in 1..256, the number of training samples, got {}", batch));
  }
  CHECK(error([](O& o) { o.max_gradient_norm = -1; }) ==
        "max_gradient_norm must be finite and at least 0, got -1");
  CHECK(error([](O& o) { o.validation = {}, o.patience = 2; }) ==
        "patience and keep_best need a metric, or validation data with labels or targets");
  CHECK(error([](O& o) { o.loss_digits = -3; }) == "loss_digits must be in 0..17, got -3");
  CHECK(error([](O& o) { o.augmentation.noise = -1; }).find("noise") != std::string::npos);
  // Rows of numbers are no images.
  data::Dataset flat;
  flat.add("x", Tensor::of<float>({8, 4}, std::vector<float>(32, 1.0f)));
  flat.add_target("y", Tensor::of<int32_t>({8}, std::vector<int32_t>(8)), 2);
  Network flat_net;
  Model rows(linear(flat_net.input("x", {4}), 2), loss::cross_entropy);
  FitOptions shifted = quiet(1);
  shifted.batch = 8;
  shifted.validation = {};
  shifted.augmentation.shift = 1;
  CHECK(
      error_text<ArgumentError>([&] { (void)fit(rows, flat, shifted); }) ==
      "augmentation: no input is an image, [h, w] or [h, w, c], that can be shifted or rotated");
  CHECK(error([](O& o) { o.augmentation.shift = std::nan(""); }) != "no error");
  CHECK(error([](O& o) { o.oscillations.damping = -1; }) != "no error");
  CHECK(error([](O& o) { o.checkpoint_every = 3; }) == "checkpoint_every needs a checkpoint");
  CHECK(error([&](O& o) { o.checkpoint = folder.path(); }).ends_with(" is a folder"));
  CHECK(error([](O& o) { o.sections["progress"] = {}; }) ==
        "sections: 'progress' is written by fit itself");
  CHECK(error([](O& o) { o.validation = {}, o.score = MetricKind::Accuracy; }) ==
        "score needs validation data and cannot be combined with metric");
  CHECK(
      error([](O& o) { o.score = MetricKind::AreaUnderCurve; }) ==
      "validation: the AUC needs labels of 2 classes and answers of 1 or 2 numbers, got 10 and 10");
  Network net;
  Model untrainable(linear(net.input("x", {784}), 10));
  CHECK(error_text<GraphError>([&] {
          (void)fit(untrainable, small_digits().train, quiet(1));
        }) == "the model has no loss, which training needs");
  Model narrow(linear(net.input("z", {784}), 9), loss::cross_entropy);
  CHECK(error_text<ArgumentError>([&] {
          (void)fit(narrow, small_digits().train, quiet(1));
        }).starts_with("the data have 10 classes, the model has 9: sample "));
  CHECK(model.parameters().sha256() == before);
}

TEST_CASE("fit: the floating-point settings of the caller change no bit and are kept") {
  FitOptions options = quiet(2);
  options.threads = 2;
  const std::string expected = trained_by(options);
  std::fenv_t before;
  REQUIRE(std::fegetenv(&before) == 0);
  for (const int rounding : {FE_UPWARD, FE_TOWARDZERO}) {
    REQUIRE(std::fesetround(rounding) == 0);
    test::flush_subnormals();
    const std::string trained = trained_by(options);
    const int after = std::fegetround();
    std::fesetenv(&before);
    CHECK(after == rounding);
    CHECK(trained == expected);
  }
}

TEST_CASE("fit: scales that never observe anything are refused before the first step") {
  Model model(quantized(without_quantizers(small_model().graph()),
                        QuantizationRecipe{.scales = ScaleOrigin::LSQ}));
  FitOptions options = quiet(1);
  options.quantization = QuantizationSchedule{.freeze = 0};
  const auto refusal = [&] {
    return error_text<ArgumentError>([&] { (void)fit(model, small_digits().train, options); });
  };
  CHECK(refusal().starts_with("quantization: freeze is 0, and "));
  CHECK(refusal().ends_with(
      " has never observed any values: calibrate the model first, or freeze "
      "later"));
  options.quantization = QuantizationSchedule{.freeze = 1};
  CHECK(refusal() == "no error");
}

TEST_CASE("fit: a limit of norms leaves the gradients of frozen layers out") {
  Network net;
  const Value x = net.input("x", {784});
  Model model(linear(relu(linear(x, 8)), 10), loss::cross_entropy);
  FitOptions options = quiet(1);
  options.groups = {{.pattern = "fc1.*", .frozen = true}};
  options.max_gradient_norm = 1;
  options.on_gradients = [](Parameters& parameters, int64_t) {
    parameters.at("fc1.bias").gradients<float>()[0] = std::nanf("");
  };
  CHECK(fit(model, small_digits().train, options).skipped_batches == 0);
}

TEST_CASE("fit: warnings are in its result without progress as well") {
  Model model(quantized(without_quantizers(small_model().graph()),
                        QuantizationRecipe{.scales = ScaleOrigin::LSQ}));
  const data::Dataset& digits = small_digits().train;
  CHECK(fit(model, digits, quiet(1)).warnings.empty());
  FitOptions options = quiet(1);
  options.learning_rate = 10;
  const std::vector<std::string> warnings = fit(model, digits, options).warnings;
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].starts_with("warning: a step can change "));
}
