#include "qtape/examples/classifier/program.h"

#include "qtape/examples/classifier/folding.h"

namespace qtape::examples {

void add_options(CommandLine& line, ProgramOptions& options) {
  line.add(threads_option(options.threads));
  line.add({"--save", &options.save, "write the trained model here"});
  line.add({"--checkpoint", &options.checkpoint, "write a checkpoint here every epoch"});
  line.add({"--checkpoint-every", &options.checkpoint_every,
            "and also every so many steps; 0: epochs only", Limits<int64_t>{.low = 0}});
  line.add({"--resume", &options.resume,
            "go on from this checkpoint, with its settings; checkpoints go there as well "
            "unless --checkpoint names another file"});
  line.add(report_option(options.report));
}

std::string describe(const Recipe& recipe) {
  const auto bits = [](int64_t b) {
    return b == 0 ? std::string("float") : fmt::format("{} bits", b);
  };
  return fmt::format("weights {}, activations {}", bits(recipe.weight_bits),
                     bits(recipe.activation_bits));
}

RunResult train_with_progress(Training& training, const ProgramOptions& options) {
  ProgressDisplay display(training.step());
  const Interruption interruption;
  RunResult result = training.run(
      {.threads = options.threads,
       .checkpoint = options.checkpoint,
       .checkpoint_every = options.checkpoint_every,
       .on_step = [&](const Progress& progress) { display.step(progress); },
       .on_epoch =
           [&](const EpochResult& epoch) {
             display.epoch(epoch.epoch, epoch.loss,
                           fmt::format("test accuracy {:.2f} %", epoch.test_accuracy));
           },
       .stop = [&] { return interruption.signal() != 0; }});
  if (!result.stopped) return result;
  const int signal = interruption.signal();
  const std::string left = options.checkpoint.empty()
                               ? "nothing is kept without --checkpoint"
                               : fmt::format("go on with --resume {}", options.checkpoint);
  throw Interrupted(signal,
                    fmt::format("stopped by {} after step {} of {}; {}", signal_name(signal),
                                training.step(), training.steps(), left));
}

void print_folding(Training& training, const data::Dataset& images, int threads) {
  const auto found = compare_folded(training.network(), training.parameters(), images, threads);
  if (!found) return;
  print("folded graph: {} of {} outputs differ in any bit from training's with frozen norms\n",
        found->different, found->compared);
}

void finish(const Training& training, const RunResult& result, const ProgramOptions& options,
            const std::string& report, OutputFiles& files) {
  print("test accuracy {:.2f} %, median step {:.0f} us\n", result.test.accuracy,
        result.step_us);
  if (result.skipped_batches + result.non_finite_elements > 0) {
    print("skipped {} batches without a finite loss, {} NaN or infinite elements\n",
          result.skipped_batches, result.non_finite_elements);
  }
  print("parameters sha256 {}\noutputs sha256 {}\n", result.parameters_sha256,
        result.test.outputs_sha256);
  files.save(options.save, [&](const std::string& path) { training.save(path); });
  files.write(options.report, report);
  files.require_written();
}

}  // namespace qtape::examples
