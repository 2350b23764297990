// bench_step: whole training steps of networks, with different arithmetic interleaved, compared
// with the limits of the machine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

#include "qtape/bench/limits.h"
#include "qtape/bench/networks.h"
#include "qtape/bench/work.h"
#include "qtape/core/enum_names.h"
#include "qtape/engine/json_file.h"
#include "qtape/integer/training/exact.h"
#include "qtape/io/json_fields.h"
#include "qtape/kernels/onednn/gemm.h"
#include "qtape/optim/optimizer.h"
#include "qtape/programs/command_line.h"
#include "qtape/programs/console/program.h"

namespace {

using namespace qtape;
using bench::Arithmetics;
using Clock = std::chrono::steady_clock;

struct Settings {
  std::vector<std::string> networks;
  std::vector<std::string> arithmetics;
  int64_t steps = 200;
  int threads = default_threads();
  bool ops = false;
  std::string json;
};

/// One network, trained with one arithmetic.
class Subject {
 public:
  Subject(const std::string& name, Arithmetics arithmetics, int threads)
      : arithmetics_(arithmetics),
        network_(bench::make_trained(name, arithmetics != Arithmetics::Float)),
        parameters_(network_.graph, 1),
        tape_(network_.graph, parameters_, options(threads)),
        optimizer_(parameters_, Adam{}, {}, threads) {
    bench::fill_batch(tape_);
  }

  void step() {
    const auto begin = Clock::now();
    tape_.forward(mode::qat);
    tape_.backward();
    const auto middle = Clock::now();
    optimizer_.step(1e-3);
    const auto end = Clock::now();
    times_.push_back(std::chrono::duration<double, std::micro>(end - begin).count());
    optimizer_time_ += std::chrono::duration<double, std::micro>(end - middle).count();
  }

  /// Discards all measurements so far.
  void restart(bool timing) {
    times_.clear();
    optimizer_time_ = 0;
    tape_.set_timing(timing);
  }

  /// Returns the time in microseconds that the share `share` of all steps did not exceed.
  double quantile(double share) {
    const auto at = static_cast<std::ptrdiff_t>(share * static_cast<double>(times_.size() - 1));
    std::nth_element(times_.begin(), times_.begin() + at, times_.end());
    return times_[static_cast<size_t>(at)];
  }

  /// Returns the mean microseconds per step by op, largest first.
  std::vector<std::pair<std::string, double>> times_by_op() const {
    std::map<std::string, double> sums;
    const auto times = tape_.times();
    for (size_t i = 0; i < times.size(); ++i) {
      const std::string name{name_of(network_.graph.nodes()[i].op)};
      sums[name] += 1e-3 * static_cast<double>(times[i].forward);
      sums[name + " gradient"] += 1e-3 * static_cast<double>(times[i].backward);
    }
    sums["optimizer"] = optimizer_time_;
    std::vector<std::pair<std::string, double>> found;
    for (const auto& [name, time] : sums) {
      if (time > 0) found.emplace_back(name, time / static_cast<double>(times_.size()));
    }
    std::ranges::sort(found, std::greater<>(), &std::pair<std::string, double>::second);
    return found;
  }

  std::string title() const {
    return fmt::format("{} b{} {}", network_.name, network_.batch,
                       to_string_view(arithmetics_));
  }
  double roofline(const bench::Limits& limits) const {
    return bench::roofline(bench::work_of(network_.graph, tape_.memory()), arithmetics_,
                           limits);
  }
  Json report(const bench::Limits& limits) {
    Json json{{"network", network_.name},
              {"batch", network_.batch},
              {"arithmetics", to_string_view(arithmetics_)},
              {"median_us", quantile(0.5)},
              {"p10_us", quantile(0.1)},
              {"p90_us", quantile(0.9)},
              {"roofline_us", roofline(limits)},
              {"arena_bytes", tape_.memory().arena_bytes}};
    for (const auto& [name, time] : times_by_op()) json["ops_us"][name] = time;
    return json;
  }

 private:
  TapeOptions options(int threads) const {
    TapeOptions options{.roots = {network_.graph.at("loss")}, .threads = threads};
    switch (arithmetics_) {
      case Arithmetics::Float:
      case Arithmetics::Quantized:
        break;
      case Arithmetics::Bf16:
        options.gradient_precision = GradientPrecision::BF16;
        [[fallthrough]];
      case Arithmetics::Codes:
        options.arithmetic = products_of_codes();
        break;
      case Arithmetics::Exact:
        options.arithmetic = exact(Requantization::SingleRounding);
        break;
    }
    return options;
  }

  Arithmetics arithmetics_;
  bench::TrainedNetwork network_;
  Parameters parameters_;
  Tape tape_;
  Optimizer optimizer_;
  std::vector<double> times_;
  double optimizer_time_ = 0;
};

void print(Subject& subject, const bench::Limits& limits, bool ops) {
  const double median = subject.quantile(0.5);
  fmt::print("{:<36} {:>10.1f} {:>10.1f} {:>10.1f} {:>8.0f} %\n", subject.title(), median,
             subject.quantile(0.1), subject.quantile(0.9),
             100 * subject.roofline(limits) / median);
  if (!ops) return;
  for (const auto& [name, time] : subject.times_by_op()) {
    fmt::print("    {:<40} {:>10.1f}\n", name, time);
  }
}

int run(const Settings& settings) {
  std::vector<std::unique_ptr<Subject>> subjects;
  for (const std::string& name : settings.networks) {
    for (const std::string& arithmetics : settings.arithmetics) {
      subjects.push_back(std::make_unique<Subject>(
          name, from_string<Arithmetics>(arithmetics).value(), settings.threads));
    }
  }
  const bench::Limits limits = bench::measure_limits(settings.threads);
  for (const bool timed : {false, true}) {
    for (const auto& each : subjects) each->restart(timed && settings.ops);
    const int64_t rounds = timed ? settings.steps : std::min<int64_t>(settings.steps, 20);
    for (int64_t i = 0; i < rounds; ++i) {
      for (const auto& each : subjects) each->step();
    }
  }
  fmt::print(
      "{} threads; copy {:.1f} GB/s, f32 {:.0f} GFLOP/s, bf16 {:.0f} GFLOP/s, int8 {:.0f} Gop/s"
      "\n\n",
      settings.threads, limits.copy * 1e-9, limits.f32 * 1e-9, limits.bf16 * 1e-9,
      limits.int8 * 1e-9);
  fmt::print("{:<36} {:>10} {:>10} {:>10} {:>10}\n", "us per step", "median", "p10", "p90",
             "roofline");
  for (const auto& each : subjects) print(*each, limits, settings.ops);
  if (settings.json.empty()) return 0;
  Json json{{"threads", settings.threads}, {"limits", write_json(limits)}};
  for (const auto& each : subjects) json["steps"].push_back(each->report(limits));
  write_text(settings.json, json.dump(2) + "\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  const auto names = [](const auto& all) {
    return std::vector<std::string>(std::begin(all), std::end(all));
  };
  settings.networks = {"mlp784-256-128-10", "mlp784-1024-1024-10", "cnn", "lenet", "resnet8"};
  std::vector<std::string> arithmetics = names(enum_names<Arithmetics>);
  if (!kernels::has_bf16_products()) {
    std::erase(arithmetics, to_string_view(Arithmetics::Bf16));
  }
  settings.arithmetics = arithmetics;
  CLI::App app("Measures whole training steps.", "bench_step");
  app.add_option("--network", settings.networks,
                 fmt::format("networks: {}, or mlpA-LxB-C:N of these widths and L layers of "
                             "width B at batch N",
                             fmt::join(bench::network_names(), ", ")))
      ->capture_default_str();
  app.add_option("--arithmetics", settings.arithmetics, "arithmetic of the steps")
      ->check(CLI::IsMember(arithmetics))
      ->capture_default_str();
  app.add_option("--steps", settings.steps, "steps per measurement")
      ->check(programs::range<int64_t>(1, 1000000))
      ->capture_default_str();
  app.add_option("--threads", settings.threads, "threads")
      ->check(programs::range(1, 1024))
      ->capture_default_str();
  app.add_flag("--ops", settings.ops, "print the time of each op");
  app.add_option("--json", settings.json, "write the results here");
  return console::run_program("bench_step", [&] {
    return programs::run_parsed(app, argc, argv, [&] { return run(settings); });
  });
}
