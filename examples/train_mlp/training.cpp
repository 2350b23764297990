#include "qtape/examples/train_mlp/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "qtape/examples/data/batches.h"
#include "qtape/examples/data/digits.h"
#include "qtape/optim/optimizer.h"
#include "qtape/optim/schedule.h"

namespace qtape::examples {
namespace {

// Generated digits are one fixed data set: --seed varies the training, not the task.
constexpr uint64_t digits_seed = 1;
constexpr int64_t test_digits = 1000;
constexpr std::string_view settings_kind = "train_mlp";

template <class T>
T setting(const Section& section, const std::string& name) {
  const auto found = section.settings.find(name);
  const T* value = found == section.settings.end() ? nullptr : std::get_if<T>(&found->second);
  require<FormatError>(value != nullptr, "/sections/settings/settings/{}: missing or of wrong type",
                       name);
  return *value;
}

template <class E>
E enum_setting(const Section& section, const std::string& name) {
  const auto text = setting<std::string>(section, name);
  const auto value = from_string<E>(text);
  require<FormatError>(value.has_value(),
                       "/sections/settings/settings/{}: unknown value \"{}\"; expected one of {}",
                       name, text, spellings<E>());
  return *value;
}

std::vector<int64_t> layers_setting(const Section& section) {
  std::vector<int64_t> layers(static_cast<size_t>(setting<int64_t>(section, "layers") & 0xff));
  for (size_t i = 0; i < layers.size(); ++i) {
    layers[i] = setting<int64_t>(section, fmt::format("layer {}", i + 1));
  }
  return layers;
}

Section to_section(const Settings& s) {
  Section section{std::string(settings_kind),
                  {{"data", s.data},
                   {"samples", s.samples},
                   {"layers", static_cast<int64_t>(s.layers.size())},
                   {"weight_bits", s.weight_bits},
                   {"activation_bits", s.activation_bits},
                   {"ste", std::string(to_string_view(s.ste))},
                   {"scale_mode", std::string(to_string_view(s.scale_mode))},
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

const Section& section_of(const Model& model, const std::string& name) {
  const auto found = model.sections.find(name);
  require<FormatError>(found != model.sections.end(),
                       "/sections/{}: missing; the file is not a checkpoint of train_mlp", name);
  return found->second;
}

Settings read_settings(const Section& section) {
  Settings s;
  s.data = setting<std::string>(section, "data");
  s.samples = setting<int64_t>(section, "samples");
  s.layers = layers_setting(section);
  s.weight_bits = setting<int64_t>(section, "weight_bits");
  s.activation_bits = setting<int64_t>(section, "activation_bits");
  s.ste = enum_setting<Ste>(section, "ste");
  s.scale_mode = enum_setting<ActivationScale>(section, "scale_mode");
  s.epochs = setting<int64_t>(section, "epochs");
  s.batch = setting<int64_t>(section, "batch");
  s.learning_rate = setting<double>(section, "learning_rate");
  s.seed = setting<int64_t>(section, "seed");
  return s;
}

double median(std::vector<double>& times) {
  if (times.empty()) return 0;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

}  // namespace

data::Split load_data(const Settings& settings) {
  if (!settings.data.empty()) return data::read_idx_directory(settings.data);
  return data::generate_digits(digits_seed, settings.samples, test_digits);
}

Settings settings_of(const Model& checkpoint) {
  const Section& section = section_of(checkpoint, "settings");
  require<FormatError>(section.kind == settings_kind,
                       "/sections/settings/kind: expected \"{}\", got \"{}\"", settings_kind,
                       section.kind);
  return read_settings(section);
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
      optimizer_(section_of(checkpoint, "optimizer")) {
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
  const int64_t finished = setting<int64_t>(section, "epochs");
  require<FormatError>(step_ >= 0 && finished >= 0 && finished <= settings_.epochs,
                       "/sections/progress: step {} and {} epochs are out of range", step_,
                       finished);
  for (int64_t epoch = 1; epoch <= finished; ++epoch) {
    epochs_.push_back({epoch, setting<double>(section, fmt::format("loss {}", epoch)),
                       setting<double>(section, fmt::format("test_accuracy {}", epoch))});
  }
}

void Training::save_checkpoint(const std::string& path, const Section& optimizer) const {
  save_model(path, network_.graph, parameters_,
             {{"optimizer", optimizer},
              {"progress", progress()},
              {"settings", to_section(settings_)}});
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

RunResult Training::run(const RunOptions& options) {
  Tape tape(network_.graph, parameters_,
            {.roots = {network_.loss},
             .threads = options.threads,
             .seed = static_cast<uint64_t>(settings_.seed)});
  tape.set_step(step_);
  data::Evaluator evaluator(network_.graph, parameters_, options.threads);
  data::Batches batches(data_.train, settings_.batch, static_cast<uint64_t>(settings_.seed));
  const int64_t steps = settings_.epochs * batches.per_epoch();
  Optimizer optimizer(parameters_, Adam{}, {}, options.threads);
  if (optimizer_) optimizer.load(*optimizer_);
  const Schedule schedule{.base = settings_.learning_rate, .shape = Cosine{.total = steps}};
  const auto x = tape.input<float>(network_.x);
  const auto labels = tape.input<int32_t>(network_.labels);
  std::vector<double> times;
  times.reserve(static_cast<size_t>(std::max<int64_t>(0, steps - step_)));
  while (step_ < steps) {
    const auto start = std::chrono::steady_clock::now();
    batches.fill(step_, x, labels);
    tape.forward(mode::qat);
    const double loss = tape.scalar(network_.loss);
    if (std::isfinite(loss)) {
      tape.backward();
      optimizer.step(schedule.learning_rate(step_));
      totals_.loss += loss;
      ++totals_.batches;
    } else {
      ++skipped_;
    }
    ++step_;
    const std::chrono::duration<double, std::micro> time =
        std::chrono::steady_clock::now() - start;
    times.push_back(time.count());
    if (options.on_step) {
      options.on_step({step_, steps, (step_ - 1) / batches.per_epoch() + 1, loss});
    }
    const bool epoch_ends = step_ % batches.per_epoch() == 0;
    if (epoch_ends) {
      const EpochResult result = finish_epoch(evaluator);
      if (options.on_epoch) options.on_epoch(result);
    }
    const bool due = options.checkpoint_every > 0 && step_ % options.checkpoint_every == 0;
    if (!options.checkpoint.empty() && (epoch_ends || due)) {
      save_checkpoint(options.checkpoint, optimizer.save());
    }
  }
  return {epochs_,  median(times), evaluator.run(data_.test), parameters_.sha256(),
          skipped_, tape.non_finite()};
}

}  // namespace qtape::examples
