// Settings of `qtape train`, on the command line and in checkpoints.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "qtape/core/section.h"
#include "qtape/core/thread_count.h"
#include "qtape/model/model.h"
#include "qtape/model/recipe.h"
#include "qtape/optim/optimizer.h"
#include "qtape/programs/launch.h"
#include "qtape/tools/qtape/data.h"
#include "qtape/tools/qtape/options.h"

namespace qtape::tool {

/// Settings of the run.
struct TrainRun {
  int64_t epochs = 10;
  int64_t batch = 64;
  std::optional<int64_t> shards = std::nullopt;
  /// If empty, see default_learning_rate.
  std::optional<double> learning_rate = std::nullopt;
  int64_t seed = 1;

  static constexpr auto fields() {
    using R = TrainRun;
    return std::tuple{
        setting("epochs", &R::epochs, "passes over the data", {1, 100000}),
        setting("batch", &R::batch, "samples per step, at most all", {1, 1000000}),
        setting("shards", &R::shards, programs::shards_help, {1, 1024}),
        setting("lr", &R::learning_rate,
                "initial learning rate, decays to 0 by cosine; by default 0.003 for quantizers "
                "of 4 bits or fewer, otherwise 0.001",
                {0, 10}),
        setting("seed", &R::seed, "seed of the order of samples", {.low = 0})};
  }
};

/// Settings of training with quantizers, mostly of few bits, or without.
struct FewBits {
  std::string teacher = {};  ///< teacher model for distillation; empty: none
  double temperature = 2;
  double teacher_share = 0.5;
  double damping = 0;
  std::optional<double> freeze_above = std::nullopt;  ///< see Oscillations
  double scales_rate = 1;
  std::string frozen = {};  ///< patterns of parameters that are not trained, with commas
  bool norms = false;
  bool in_float = false;      ///< without quantizers
  bool fixed_scales = false;  ///< with the quantizers of the model

  static constexpr auto fields() {
    using F = FewBits;
    return std::tuple{
        setting("teacher", &F::teacher, "also learn from the answers of this model"),
        setting("temperature", &F::temperature, "temperature of the teacher's answers",
                {0.01, 100}),
        setting("teacher_share", &F::teacher_share,
                "weight of the teacher's answers in the loss; labels have the rest", {0, 1}),
        setting("damping", &F::damping,
                "pull weights towards their codes with a strength that increases up to this",
                {0, 1000}),
        setting("freeze_above", &F::freeze_above,
                "freeze weights whose code oscillates in more than this share of the steps",
                {1e-6, 0.999}),
        setting("scales_lr", &F::scales_rate, "factor on the learning rate of learned scales",
                {0, 1000}),
        setting("freeze", &F::frozen,
                "parameters that training does not change: names or patterns with * and ?, "
                "separated by commas, such as filters of a constant transform"),
        setting("norms", &F::norms,
                "use batch statistics until the end, then re-estimate the statistics of batch "
                "norms"),
        setting("float", &F::in_float, "train without quantizers"),
        setting("fixed_scales", &F::fixed_scales,
                "train with the model's own quantizers, whose fixed scales do not change")};
  }
};

struct TrainCommand : TrainRun, FewBits {
  std::string model;
  std::string output;  ///< file for the trained model; empty: none
  DataOptions data;
  QuantizationRecipe recipe;
  bool asked = false;              ///< a setting of the recipe was given
  const CLI::App* line = nullptr;  ///< the command line
  std::string checkpoint = {};
  bool resume = false;      ///< the model is a checkpoint from which to continue
  std::string report = {};  ///< folder for the record of the run; empty: none
  int threads = default_threads();
  std::string json = {};
  /// Factors on the learning rate, see rates_of_small_values.
  std::map<std::string, double> small_rates = {};
  Exchange* exchange = nullptr;  ///< to the other processes of the run, if there are any
};

/// Returns the settings as the section of a checkpoint, with the SHA-256 of the teacher's
/// values instead of its path.
Section settings_of(const TrainCommand& command, const std::optional<Model>& teacher);
/// Returns the parameter groups of the run: frozen parameters, `learned_scales` and parameters
/// with small values.
std::vector<ParameterGroup> groups_of(const TrainCommand& command,
                                      const std::vector<std::string>& learned_scales);
/// Takes the settings of the run that a checkpoint, `model`, continues. Throws ArgumentError
/// for an option with another value, for another teacher, and for a model that is not a
/// checkpoint of this command; prints a note if the checkpoint has no settings.
void take_settings(TrainCommand& command, const Model& model,
                   const std::optional<Model>& teacher);

}  // namespace qtape::tool
