#include "qtape/examples/train_mlp/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "qtape/core/printable.h"
#include "qtape/examples/data/batches.h"
#include "qtape/examples/data/digits.h"
#include "qtape/examples/shared/median.h"
#include "qtape/integer/exact.h"
#include "qtape/optim/optimizer.h"
#include "qtape/optim/schedule.h"

namespace qtape::examples {
namespace {

constexpr int64_t largest_count = int64_t{1} << 60;
// Step times that the median is taken of: those of the last steps where there are more.
constexpr int64_t max_times = 1 << 20;
constexpr std::string_view settings_kind = "train_mlp";

template <class T>
T setting(const Section& section, const std::string& name) {
  const auto found = section.settings.find(name);
  const T* value = found == section.settings.end() ? nullptr : std::get_if<T>(&found->second);
  require<FormatError>(value != nullptr,
                       "/sections/settings/settings/{}: missing or of wrong type", name);
  return *value;
}

template <class E>
E enum_setting(const Section& section, const std::string& name) {
  const auto text = setting<std::string>(section, name);
  const auto value = from_string<E>(text);
  require<FormatError>(
      value.has_value(),
      "/sections/settings/settings/{}: unknown value \"{}\"; expected one of {}", name,
      printable(text), spellings<E>());
  return *value;
}

std::vector<int64_t> layers_setting(const Section& section) {
  const int64_t count = setting<int64_t>(section, "layers");
  require<FormatError>(count >= 0 && count <= 64,
                       "/sections/settings/settings/layers: must be in 0..64, got {}", count);
  std::vector<int64_t> layers(static_cast<size_t>(count));
  for (size_t i = 0; i < layers.size(); ++i) {
    layers[i] = setting<int64_t>(section, fmt::format("layer {}", i + 1));
  }
  return layers;
}

Section to_section(const Settings& s) {
  Section section{std::string(settings_kind),
                  {{"data", s.data},
                   {"samples", s.samples},
                   {"model", std::string(to_string_view(s.model))},
                   {"layers", static_cast<int64_t>(s.layers.size())},
                   {"weight_bits", s.weight_bits},
                   {"activation_bits", s.activation_bits},
                   {"ste", std::string(to_string_view(s.ste))},
                   {"scale_mode", std::string(to_string_view(s.scale_mode))},
                   {"exact", std::string(s.exact ? to_string_view(*s.exact) : "")},
                   {"epochs", s.epochs},
                   {"batch", s.batch},
                   {"learning_rate", s.learning_rate},
                   {"seed", s.seed}},
                  {}};
  for (size_t i = 0; i < s.layers.size(); ++i) {
    section.settings[fmt::format("layer {}", i + 1)] = s.layers[i];
  }
  return section;
}

const Section& section_of(const Model& model, std::string_view name) {
  const auto found = model.sections.find(std::string(name));
  require<FormatError>(found != model.sections.end(),
                       "/sections/{}: missing; the file is not a checkpoint of train_mlp",
                       name);
  return found->second;
}

Settings read_settings(const Section& section) {
  Settings s;
  s.data = setting<std::string>(section, "data");
  s.samples = setting<int64_t>(section, "samples");
  s.model = enum_setting<Architecture>(section, "model");
  s.layers = layers_setting(section);
  s.weight_bits = setting<int64_t>(section, "weight_bits");
  s.activation_bits = setting<int64_t>(section, "activation_bits");
  s.ste = enum_setting<Ste>(section, "ste");
  s.scale_mode = enum_setting<Quantization>(section, "scale_mode");
  if (!setting<std::string>(section, "exact").empty()) {
    s.exact = enum_setting<Requantization>(section, "exact");
  }
  s.epochs = setting<int64_t>(section, "epochs");
  s.batch = setting<int64_t>(section, "batch");
  s.learning_rate = setting<double>(section, "learning_rate");
  s.seed = setting<int64_t>(section, "seed");
  return s;
}

}  // namespace

data::Split load_data(const Settings& settings) {
  if (!settings.data.empty()) return data::read_idx_directory(settings.data);
  return data::example_digits(settings.samples);
}

Settings settings_of(const Model& checkpoint) {
  const Section& section = section_of(checkpoint, "settings");
  require<FormatError>(section.kind == settings_kind,
                       "/sections/settings/kind: expected \"{}\", got \"{}\"", settings_kind,
                       printable(section.kind));
  Settings settings = read_settings(section);
  settings.schedule = quantization_schedule_from(section_of(checkpoint, "quantization"));
  try {
    validate(settings);
  } catch (const ArgumentError& error) {
    fail<FormatError>("/sections/settings: {}", error.what());
  }
  return settings;
}

Training::Training(const Settings& settings, const data::Split& data)
    : settings_(settings),
      data_(data),
      network_(make_network(settings, data.train)),
      parameters_(network_.graph, static_cast<uint64_t>(settings.seed)) {}

Training::Training(Model checkpoint, const data::Split& data)
    : settings_(settings_of(checkpoint)),
      data_(data),
      network_(make_network(settings_, data.train)),
      parameters_(std::move(checkpoint.parameters)),
      optimizer_(section_of(checkpoint, "optimizer")),
      schedule_(schedule_from(section_of(checkpoint, "schedule"))) {
  require<FormatError>(network_.graph == checkpoint.graph,
                       "/nodes: the graph is not the one that the settings describe");
  restore(section_of(checkpoint, "progress"));
}

Section Training::progress() const {
  Section section{"progress",
                  {{"step", step_},
                   {"loss", totals_.loss},
                   {"batches", totals_.batches},
                   {"skipped", skipped_},
                   {"non_finite", non_finite_},
                   {"epochs", static_cast<int64_t>(epochs_.size())}},
                  {}};
  for (const EpochResult& each : epochs_) {
    section.settings[fmt::format("loss {}", each.epoch)] = each.loss;
    section.settings[fmt::format("test_accuracy {}", each.epoch)] = each.test_accuracy;
  }
  return section;
}

void Training::restore(const Section& section) {
  step_ = setting<int64_t>(section, "step");
  totals_ = {setting<double>(section, "loss"), setting<int64_t>(section, "batches")};
  skipped_ = setting<int64_t>(section, "skipped");
  non_finite_ = setting<int64_t>(section, "non_finite");
  const int64_t finished = setting<int64_t>(section, "epochs");
  require<FormatError>(
      step_ >= 0 && step_ <= steps() && finished >= 0 && finished <= settings_.epochs &&
          totals_.batches >= 0 && totals_.batches <= step_ && skipped_ >= 0 &&
          skipped_ <= step_ && non_finite_ >= 0 && non_finite_ <= largest_count,
      "/sections/progress: step {} of {} or a count is out of range", step_, steps());
  for (int64_t epoch = 1; epoch <= finished; ++epoch) {
    epochs_.push_back({epoch, setting<double>(section, fmt::format("loss {}", epoch)),
                       setting<double>(section, fmt::format("test_accuracy {}", epoch))});
  }
}

void Training::save(const std::string& path) const {
  save_model(path, network_.graph, parameters_);
}

EpochResult Training::finish_epoch(data::Evaluator& evaluator) {
  const double batches = static_cast<double>(std::max<int64_t>(1, totals_.batches));
  const EpochResult result{static_cast<int64_t>(epochs_.size()) + 1, totals_.loss / batches,
                           evaluator.run(data_.test).accuracy};
  epochs_.push_back(result);
  totals_ = {};
  return result;
}

/// The objects that live as long as a run.
struct Training::Run {
  Run(Training& training, const RunOptions& run_options)
      : options(run_options),
        tape(training.network_.graph, training.parameters_,
             {.roots = {training.network_.loss},
              .threads = options.threads,
              .seed = static_cast<uint64_t>(training.settings_.seed),
              .arithmetic = exact(training.settings_.exact),
              .schedule = training.settings_.schedule}),
        evaluator(training.network_.graph, training.parameters_, options.threads,
                  exact(training.settings_.exact)),
        batches(training.data_.train, training.settings_.batch,
                static_cast<uint64_t>(training.settings_.seed)),
        optimizer(training.parameters_, Adam{}, {}, options.threads),
        schedule{.base = training.settings_.learning_rate,
                 .shape = Cosine{.total = training.settings_.epochs * batches.per_epoch()}},
        x(tape.input<float>(training.network_.x)),
        labels(tape.input<int32_t>(training.network_.labels)) {}

  const RunOptions& options;
  Tape tape;
  data::Evaluator evaluator;
  data::Batches batches;
  Optimizer optimizer;
  Schedule schedule;
  std::span<float> x;
  std::span<int32_t> labels;
};

void Training::save_checkpoint(const std::string& path, const Run& run) const {
  save_model(path, network_.graph, parameters_,
             {{"optimizer", run.optimizer.save()},
              {"schedule", to_section(run.schedule)},
              {"quantization", to_section(settings_.schedule)},
              {"progress", progress()},
              {"settings", to_section(settings_)}});
}

/// One step; the loss. A batch whose loss is not finite leaves the parameters alone.
double Training::take_step(Run& run) {
  run.batches.fill(step_, run.x, run.labels);
  run.tape.forward(mode::qat);
  const double loss = run.tape.scalar(network_.loss);
  if (std::isfinite(loss)) {
    run.tape.backward();
    run.optimizer.step(run.schedule.learning_rate(step_));
    totals_.loss += loss;
    ++totals_.batches;
  } else {
    ++skipped_;
  }
  ++step_;
  return loss;
}

/// False when the run is to stop here.
bool Training::after_step(Run& run, double loss) {
  const int64_t per_epoch = run.batches.per_epoch();
  const RunOptions& options = run.options;
  if (options.on_step) {
    options.on_step({step_, steps(), (step_ - 1) / per_epoch + 1, loss});
  }
  const bool epoch_ends = step_ % per_epoch == 0;
  if (epoch_ends) {
    const EpochResult result = finish_epoch(run.evaluator);
    if (options.on_epoch) options.on_epoch(result);
  }
  const bool due = options.checkpoint_every > 0 && step_ % options.checkpoint_every == 0;
  const bool stops = options.stop && options.stop();
  if (!options.checkpoint.empty() && (epoch_ends || due || stops)) {
    save_checkpoint(options.checkpoint, run);
  }
  return !stops;
}

RunResult Training::run(const RunOptions& options) {
  Run run(*this, options);
  run.tape.set_step(step_);
  if (optimizer_) run.optimizer.load(*optimizer_);
  if (schedule_) run.schedule = *schedule_;
  std::vector<double> times;
  times.resize(static_cast<size_t>(std::clamp<int64_t>(steps() - step_, 0, max_times)));
  size_t taken = 0;
  const int64_t skipped_elements = non_finite_;
  while (step_ < steps()) {
    const auto start = std::chrono::steady_clock::now();
    const double loss = take_step(run);
    const std::chrono::duration<double, std::micro> time =
        std::chrono::steady_clock::now() - start;
    times[taken++ % times.size()] = time.count();
    non_finite_ = skipped_elements + run.tape.non_finite();
    if (!after_step(run, loss)) return {.epochs = epochs_, .stopped = true};
  }
  return {epochs_,  median(times), run.evaluator.run(data_.test), parameters_.sha256(),
          skipped_, non_finite_};
}

}  // namespace qtape::examples
