#include "qtape/examples/classifier/program.h"

#include "qtape/examples/classifier/folding.h"

namespace qtape::examples {

void add_options(CommandLine& line, ProgramOptions& options) {
  line.add(threads_option(options.threads));
  line.add({"--save", &options.save, "write the trained model here"});
  line.add({"--checkpoint", &options.checkpoint, "write a checkpoint here every epoch"});
  line.add({"--checkpoint-every", &options.checkpoint_every,
            "also after every this many steps; 0: only after epochs",
            Limits<int64_t>{.low = 0}});
  line.add(
      {"--resume", &options.resume,
       "continue from this checkpoint, with its settings; checkpoints are also written to it "
       "unless --checkpoint names another file"});
  line.add(json_option(options.json));
  line.add(report_option(options.report));
  line.add({"--save-data", &options.save_data,
            "write the generated data to this folder, as MNIST-format IDX files for --data"});
}

void refuse_useless_options(const CommandLine& line, const TrainingSettings& recipe,
                            const ProgramOptions& options) {
  refuse_useless(line.app(), !recipe.data.empty(), "has no effect with --data",
                 {"--samples", "--digits"});
  refuse_useless(line.app(), recipe.weight_bits == 0 && recipe.activation_bits == 0,
                 "has no effect on networks in float",
                 {"--exact", "--products", "--ends-bits", "--mean-bits", "--quantize-after",
                  "--freeze-after", "--warm-up", "--scale-mode", "--power-of-two", "--ste"});
  refuse_useless(line.app(), recipe.weight_bits == 0, "has no effect on weights in float",
                 {"--weight-codes"});
  refuse_useless(line.app(), options.checkpoint.empty(),
                 "needs --checkpoint, or a file for --resume", {"--checkpoint-every"});
}

std::string describe(const TrainingSettings& recipe) {
  const auto bits = [](int64_t b) {
    return b == 0 ? std::string("float") : fmt::format("{} bits", b);
  };
  return fmt::format("weights {}, activations {}", bits(recipe.weight_bits),
                     bits(recipe.activation_bits));
}

void print_ends(const Graph& graph, const TrainingSettings& recipe) {
  console::print("{}", ends_note(default_ends_of(graph, recipe), recipe.ends_bits));
}

FitOptions fit_options(const TrainingSettings& recipe, const ProgramOptions& options,
                       int64_t samples) {
  FitOptions fit = fit_options(recipe, samples);
  fit.checkpoint = options.checkpoint;
  fit.checkpoint_every = options.checkpoint_every;
  fit.resume = !options.resume.empty();
  fit.report = options.report;
  fit.threads = options.threads;
  fit.exchange = options.exchange;
  return fit;
}

RunResult train(Model& model, const TrainingSettings& recipe, const data::Split& data,
                const ProgramOptions& options, Section settings) {
  FitOptions fit = fit_options(recipe, options, data.train.size());
  fit.sections = {{"settings", std::move(settings)}};
  try {
    return train(model, recipe, data, std::move(fit));
  } catch (const FitInterrupted& stopped) {
    const std::string left = options.checkpoint.empty()
                                 ? "nothing is kept without --checkpoint"
                                 : fmt::format("continue with --resume {}", options.checkpoint);
    throw console::Interrupted(stopped.signal(), fmt::format("{}; {}", stopped.what(), left));
  }
}

void print_folding(Model& model, const data::Dataset& images, int threads) {
  const auto found = compare_folded(model, images, threads);
  if (!found) return;
  console::print(
      "folded graph: {} of {} outputs differ in at least one bit from those of training with "
      "frozen norms\n",
      found->different, found->compared);
}

void finish(const Model& model, const TrainingSettings& recipe, const RunResult& result,
            const ProgramOptions& options, const std::string& json, OutputFiles& files) {
  console::print(
      "{} accuracy {:.2f} %{}\n", scored_data(recipe), result.test.accuracy.value_or(0),
      result.fit.step_us ? fmt::format(", median step {:.0f} us", *result.fit.step_us) : "");
  if (const std::string skipped = skipped_text(result.fit); !skipped.empty()) {
    console::print("{}\n", skipped);
  }
  if (options.exchange != nullptr) {
    console::print("{} processes; one process with --shards {} gives the same parameters\n",
                   result.fit.ranks, result.fit.shards);
  }
  console::print("parameters sha256 {}\noutputs sha256 {}\n", result.parameters_sha256,
                 result.test.outputs_sha256);
  files.save(options.save, [&](const std::string& path) { model.save(path); });
  files.write(options.json, json);
  files.add_failure(result.fit.report_failure);
  files.require_written();
}

}  // namespace qtape::examples
