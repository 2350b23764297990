// qtape: inspects, runs, calibrates, trains and exports saved models.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>

#include "qtape/calibrate/observer_method.h"
#include "qtape/console/program.h"
#include "qtape/core/error.h"
#include "qtape/core/thread_count.h"
#include "qtape/examples/data/digits.h"
#include "qtape/examples/shared/command_line.h"
#include "qtape/model/recipe.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/levels.h"
#include "qtape/tools/qtape/preparation.h"

namespace {

using namespace qtape;
using examples::range;

struct Commands {
  std::string model;
  tool::ReplayOptions replay{.threads = default_threads()};
  tool::CalibrateOptions calibrate{.threads = default_threads()};
  tool::QuantizersOptions quantizers{.threads = default_threads()};
  tool::ConvertCommand convert;
  tool::ExportCCommand export_c;
  tool::ExportOnnxCommand export_onnx{.threads = default_threads()};
  tool::VerifyCommand verify{.threads = default_threads()};
  tool::TrainCommand train{.threads = default_threads()};
  tool::SearchCommand search{.threads = default_threads()};
  tool::WeightsCommand weights;
  tool::ImportCommand import;
  std::string written;
  std::vector<std::string> runs;
  std::string json;
  tool::ProfileOptions profile{.threads = default_threads()};
  std::string arithmetic = "Codes";
  std::string profiled = "FloatMultiply";
  std::string requantization = "FloatMultiply";
  std::string exported;
  std::string kernels = "portable";
  std::string form = "qdq";
  std::string verified = "all";
  std::vector<std::string> levels = {"L0", "L1", "L2", "L3"};
  bool quantizers_off = false;
  bool no_sensitivity = false;
  bool no_notes = false;
};

void add_model(CLI::App& command, std::string& model) {
  command.add_option("model", model, "model file")->required();
}

void add_file(CLI::App& command, std::string& file) {
  command.add_option("file", file, "file of a model or an integer program")->required();
}

void add_data_files(CLI::App& command, tool::DataOptions& data) {
  command.add_option("--data", data.directory, "directory with MNIST-format IDX files");
  command
      .add_option("--holdout", data.holdout,
                  "judge by the last training samples, so many, which nothing else sees, "
                  "instead of by the test samples")
      ->check(range<int64_t>(0, 1000000))
      ->capture_default_str();
  command.add_option("--input", data.input,
                     "inputs, samples along the first axis: a .npy, .npz or .safetensors file, "
                     "FILE:NAME where it holds several arrays");
  command.add_option("--labels", data.labels,
                     "the same of their labels, or of what a model should answer");
}

void add_data(CLI::App& command, tool::DataOptions& data, int& threads) {
  add_data_files(command, data);
  command.add_option("--threads", threads, "threads")
      ->check(range(1, 1024))
      ->capture_default_str();
}

/// Adds --json, which every command has.
void add_json(CLI::App& command, std::string& json) {
  command.add_option("--json", json,
                     "write what is printed here as JSON; - is standard output");
}

void add_commands(CLI::App& app, Commands& c) {
  CLI::App& inspect = *app.add_subcommand("inspect", "Print nodes, quantizers and sizes");
  add_file(inspect, c.model);
  add_json(inspect, c.json);
  CLI::App& replay =
      *app.add_subcommand("replay", "Run a model or an integer program over test images");
  add_file(replay, c.replay.model);
  add_data(replay, c.replay.data, c.replay.threads);
  add_json(replay, c.replay.json);
  replay.add_flag("--float", c.quantizers_off, "switch the quantizers off");
  replay.add_option("-o,--output", c.replay.answers,
                    "write all answers here as f32: .npy, .npz or .safetensors");
}

void add_weight_codes(CLI::App& command, std::string& codes) {
  command
      .add_option(
          "--weight-codes", codes,
          "codes of the weights of new quantizers; without it, Narrow, but calibrate gives "
          "Full ones up to 4 bits where no batch norm follows")
      ->transform(CLI::IsMember({"Narrow", "Full"}, CLI::ignore_case));
}

void add_float_parts(CLI::App& command, bool& float_parts) {
  command.add_flag("--float-parts", float_parts, tool::float_parts_help);
}

void add_calibrate(CLI::App& app, tool::CalibrateOptions& o) {
  CLI::App& calibrate = *app.add_subcommand(
      "calibrate", "Fill quantizers from training images, adding them where there are none");
  add_model(calibrate, o.model);
  add_data(calibrate, o.data, o.threads);
  add_json(calibrate, o.json);
  calibrate.add_option("-o,--output,--save", o.save, "write the calibrated model here");
  calibrate
      .add_option("--observer", o.observer,
                  names_from_data() +
                      "; usual: Lsq for learned scales of at most 4 bits, else MinMax; search: "
                      "the best for each quantizer; all: a table")
      ->capture_default_str();
  calibrate
      .add_option("--weight-observer", o.weight_observer,
                  "the same for weights; a search tries all for them, too")
      ->capture_default_str();
  calibrate.add_option("--images", o.images, "training images to calibrate with")
      ->check(range<int64_t>(1, 1000000))
      ->capture_default_str();
  add_float_parts(calibrate, o.float_parts);
  calibrate.add_option("--weight-bits", o.weight_bits, "bits of weights, where added")
      ->check(range(2, 16))
      ->capture_default_str();
  calibrate
      .add_option("--activation-bits", o.activation_bits, "bits of activations, where added")
      ->check(range(1, 16))
      ->capture_default_str();
  add_weight_codes(calibrate, o.weight_codes);
}

void add_quantizers(CLI::App& app, Commands& c) {
  tool::QuantizersOptions& o = c.quantizers;
  CLI::App& quantizers =
      *app.add_subcommand("quantizers", "Report what each quantizer does and costs");
  add_model(quantizers, o.model);
  add_data(quantizers, o.data, o.threads);
  add_json(quantizers, o.json);
  quantizers.add_option("--images", o.images, "test images to report on")
      ->check(range<int64_t>(1, 1000000))
      ->capture_default_str();
  quantizers.add_flag("--no-sensitivity", c.no_sensitivity, "do not score quantizers alone");
}

/// Adds `--requantization`: a requantization by name, in any letter case, or one of `more`.
void add_requantization(CLI::App& command, std::string& name,
                        const std::vector<std::string>& more) {
  std::vector<std::string> names(enum_names<Requantization>.begin(),
                                 enum_names<Requantization>.end());
  names.insert(names.end(), more.begin(), more.end());
  command.add_option("--requantization", name, "how accumulators become codes")
      ->transform(CLI::IsMember(names, CLI::ignore_case))
      ->capture_default_str();
}

/// Returns the named requantization, or for "all" those that all levels support.
std::vector<Requantization> requantizations_of(const std::string& name,
                                               const std::vector<Level>& levels = {}) {
  if (const auto requantization = from_string<Requantization>(name)) return {*requantization};
  std::vector<Requantization> all;
  const RunnerFactories targets = tool::target_levels();
  for (Requantization each : requantization::values) {
    const auto computed = [&](const Level& level) { return computes(level, each, targets); };
    if (std::ranges::all_of(levels, computed)) all.push_back(each);
  }
  require<ArgumentError>(!all.empty(),
                         "--levels: no requantization is computed by all of them");
  return all;
}

/// Accepts any non-empty text.
CLI::Validator not_empty() {
  return {[](const std::string& text) {
            return text.empty() ? std::string("must not be empty") : std::string();
          },
          ""};
}

/// Returns `L0` and so on, in the order of levels.
std::vector<std::string> level_numbers() {
  std::vector<std::string> all;
  for (const Level& level : tool::known_levels()) all.emplace_back(tool::number_of(level));
  return all;
}

std::vector<Level> levels_of(const std::vector<std::string>& numbers) {
  std::vector<Level> levels;
  for (const Level& level : tool::known_levels()) {
    if (std::ranges::count(numbers, tool::number_of(level)) > 0) levels.push_back(level);
  }
  return levels;
}

void add_integers(CLI::App& app, Commands& c) {
  CLI::App& convert = *app.add_subcommand("convert", "Write a model as an integer program");
  add_model(convert, c.convert.model);
  add_json(convert, c.convert.json);
  convert.add_option("-o,--output", c.convert.output, "file to write; - is standard output")
      ->required()
      ->check(not_empty());
  add_requantization(convert, c.requantization, {});
  convert.add_flag("--integer-outputs", c.convert.integer_outputs,
                   "yield codes and accumulators instead of floats");
  convert.add_flag("-v,--verbose", c.convert.verbose,
                   "print all nodes with their certificates");
  CLI::App& verify = *app.add_subcommand(
      "verify", "Prove that training, reference and int8 agree in every bit");
  add_model(verify, c.verify.model);
  add_data(verify, c.verify.data, c.verify.threads);
  add_json(verify, c.verify.json);
  add_requantization(verify, c.verified, {"all"});
  verify.add_option(
      "--program", c.verify.program,
      "integer program that the model must convert to; needs one --requantization");
  verify
      .add_option("--random", c.verify.random,
                  "random inputs to compare, beside data or without any")
      ->check(range<int64_t>(0, 1000000000));
  verify
      .add_option(
          "--levels", c.levels,
          "levels of arithmetic to compare; L2 always is. L4, the program in C, needs a "
          "compiler: that of CC and CFLAGS, else cc -O2. L6 needs the tree of CMSIS-NN that "
          "QTAPE_CMSIS_NN names as well, L7 a python3 with onnxruntime; L5 and L7, the program "
          "as ONNX, take OnnxQdq alone")
      ->delimiter(',')
      ->check(CLI::IsMember(level_numbers()))
      ->capture_default_str();
  verify.add_option("--seed", c.verify.seed, "seed of the random inputs")
      ->check(range<uint64_t>(0, UINT64_MAX))
      ->capture_default_str();
  CLI::App& lint = *app.add_subcommand("lint", "Find what may go wrong in integers");
  add_file(lint, c.model);
  add_json(lint, c.json);
  lint.add_flag("--no-notes", c.no_notes, "print errors and warnings only");
}

void add_export(CLI::App& app, Commands& c) {
  CLI::App& commands =
      *app.add_subcommand("export", "Write integers for other programs and machines");
  commands.require_subcommand(1);
  tool::ExportCCommand& o = c.export_c;
  CLI::App& to_c = *commands.add_subcommand(
      "c", "Write an integer program as C99 for microcontrollers, with a self-test");
  to_c.add_option("file", o.file, "file of an integer program or a model")->required();
  to_c.add_option("-o,--output", o.folder, "folder to write NAME.h, NAME.c and NAME_test.c to")
      ->required()
      ->check(not_empty());
  to_c.add_option("--name", o.name, "what all names begin with; from the file's if not given");
  add_data_files(to_c, o.data);
  const std::vector<std::string> kernels(enum_names<CKernels>.begin(),
                                         enum_names<CKernels>.end());
  to_c.add_option("--kernels", c.kernels,
                  "portable: its own; cmsis-nn: those of CMSIS-NN, which --check compiles from "
                  "the tree that QTAPE_CMSIS_NN names")
      ->check(CLI::IsMember(kernels))
      ->capture_default_str();
  to_c.add_option("--test-inputs", o.test_inputs,
                  "inputs that the self-test makes on the device and compares hashes of")
      ->check(range<int64_t>(1, 100000))
      ->capture_default_str();
  to_c.add_option("--golden", o.golden,
                  "samples that it stores with the codes of every step, to find where codes "
                  "differ; 3 of given data, else none")
      ->check(range<int64_t>(0, 10000));
  to_c.add_option("--ram", o.ram, "most bytes of memory for activations")
      ->check(range<int64_t>(0, int64_t{1} << 31));
  to_c.add_flag("--check", o.check, "compile and run the self-test, also under QEMU");
  const std::vector<std::string> names(enum_names<Requantization>.begin(),
                                       enum_names<Requantization>.end());
  to_c.add_option("--requantization", c.exported,
                  "of a model: how accumulators become codes; FloatMultiply if not given")
      ->transform(CLI::IsMember(names, CLI::ignore_case));
  to_c.add_flag("--integer-outputs", o.integer_outputs,
                "of a model: yield codes and accumulators instead of floats");
  add_json(to_c, o.json);
  tool::ExportOnnxCommand& onnx = c.export_onnx;
  CLI::App& to_onnx =
      *commands.add_subcommand("onnx", "Write an integer program of OnnxQdq as an ONNX model");
  to_onnx.add_option("file", onnx.file, "file of an integer program or a model")->required();
  to_onnx.add_option("-o,--output", onnx.output, "file to write")
      ->required()
      ->check(not_empty());
  const std::vector<std::string> forms(enum_names<OnnxForm>.begin(),
                                       enum_names<OnnxForm>.end());
  to_onnx
      .add_option("--form", c.form,
                  "qdq: products in float between codes, for runtimes that fuse them; integer: "
                  "products in integers, the very codes of the program")
      ->check(CLI::IsMember(forms))
      ->capture_default_str();
  add_data(to_onnx, onnx.data, onnx.threads);
  to_onnx.add_option("--opset", onnx.opset, "version of ONNX's operators")
      ->check(range(first_onnx_opset, last_onnx_opset))
      ->capture_default_str();
  to_onnx.add_flag("--integer-outputs", onnx.integer_outputs,
                   "of a model: yield codes and accumulators instead of floats");
  add_json(to_onnx, onnx.json);
}

void add_profile(CLI::App& app, Commands& c) {
  tool::ProfileOptions& o = c.profile;
  CLI::App& profile = *app.add_subcommand(
      "profile", "Print where the time and the memory of a step go, by node");
  add_model(profile, o.model);
  add_json(profile, o.json);
  profile.add_option("--batch", o.batch, "samples of a step; without it, as stored")
      ->check(range<int64_t>(1, 1000000));
  profile.add_option("--steps", o.steps, "steps to measure")
      ->check(range<int64_t>(1, 1000000))
      ->capture_default_str();
  const std::vector<std::string> names(enum_names<tool::StepArithmetic>.begin(),
                                       enum_names<tool::StepArithmetic>.end());
  profile.add_option("--arithmetic", c.arithmetic, "what steps compute with")
      ->transform(CLI::IsMember(names, CLI::ignore_case))
      ->capture_default_str();
  add_requantization(profile, c.profiled, {});
  profile.add_option("--threads", o.threads, "threads")
      ->check(range(1, 1024))
      ->capture_default_str();
}

void add_scales(CLI::App& command, std::string& scales) {
  const std::vector<std::string> names(enum_names<RecipeScales>.begin(),
                                       enum_names<RecipeScales>.end());
  command
      .add_option("--scales", scales,
                  "where scales of new quantizers come from; without it, Learned up to 3 bits, "
                  "else Observed")
      ->transform(CLI::IsMember(names, CLI::ignore_case));
}

/// Adds the options of `train` for few bits.
void add_few_bits(CLI::App& train, tool::TrainCommand& o) {
  train
      .add_option("--weight-bits", o.weight_bits,
                  "bits of weights; given, the model gets new quantizers, else where it has "
                  "none that can be trained, of 8 bits")
      ->check(range(2, 16));
  train.add_option("--activation-bits", o.activation_bits, "the same of activations")
      ->check(range(2, 16));
  train
      .add_option(
          "--ends-bits", o.ends_bits,
          "bits of weights and inputs of the first and the last layer; without it, 8 in "
          "the place of 3 or fewer where there are batch norms, else as of all others")
      ->check(range(2, 16));
  add_scales(train, o.scales);
  add_weight_codes(train, o.weight_codes);
  train.add_option("--teacher", o.teacher, "learn from the answers of this model as well");
  train.add_option("--temperature", o.temperature, "of its answers")
      ->check(range(0.01, 100.0))
      ->capture_default_str();
  train.add_option("--teacher-share", o.teacher_share, "weight of it, of the labels the rest")
      ->check(range(0.0, 1.0))
      ->capture_default_str();
  train
      .add_option("--damping", o.damping,
                  "pull weights to their codes, ever stronger up to this")
      ->check(range(0.0, 1000.0))
      ->capture_default_str();
  train
      .add_option("--freeze-above", o.freeze_above,
                  "freeze weights whose code turns back in more than this part of the steps")
      ->check(range(1e-6, 0.999));
  train
      .add_option("--scales-lr", o.scales_rate, "factor on the learning rate of learned scales")
      ->check(range(0.0, 1000.0))
      ->capture_default_str();
  train.add_flag(
      "--norms", o.norms,
      "use the statistics of each batch to the end, then measure those of batch norms again");
}

void add_train(CLI::App& app, tool::TrainCommand& o) {
  CLI::App& train =
      *app.add_subcommand("train", "Fine-tune a model, with its quantizers or with new ones");
  add_model(train, o.model);
  add_data(train, o.data, o.threads);
  add_json(train, o.json);
  o.data.trains = true;
  train.add_option("--test-input", o.data.test_input, "inputs to test with");
  train.add_option("--test-labels", o.data.test_labels, "their labels");
  train.add_option("-o,--output", o.output,
                   "write the trained model here; needed, unless there is --checkpoint");
  train.add_option("--epochs", o.epochs, "passes over the data")
      ->check(range<int64_t>(1, 100000))
      ->capture_default_str();
  train.add_option("--batch", o.batch, "samples of a step, at most all")
      ->check(range<int64_t>(1, 1000000))
      ->capture_default_str();
  train
      .add_option("--lr", o.learning_rate,
                  "learning rate at the start; decays to 0 by cosine; without it, 0.003 where "
                  "quantizers have 3 bits or fewer, else 0.001")
      ->check(range(0.0, 10.0));
  train.add_option("--seed", o.seed, "seed of the order")
      ->check(range<uint64_t>(0, UINT64_MAX))
      ->capture_default_str();
  add_few_bits(train, o);
  train.add_flag("--float", o.in_float, "train without quantizers");
  add_float_parts(train, o.float_parts);
  train.add_option("--checkpoint", o.checkpoint, "write a checkpoint here every epoch");
  train.add_flag("--resume", o.resume, "the model is a checkpoint: go on with its run");
  train.add_option("--report", o.report, examples::report_help);
}

void add_import(CLI::App& app, Commands& c) {
  CLI::App& import = *app.add_subcommand("import", "Write an ONNX float model as a model");
  import.add_option("model", c.import.model, "ONNX file")->required();
  import.add_option("-o,--output", c.import.output, "file to write")
      ->required()
      ->check(not_empty());
  add_float_parts(import, c.import.float_parts);
  add_json(import, c.import.json);
}

void add_fold(CLI::App& app, Commands& c) {
  CLI::App& fold = *app.add_subcommand(
      "fold", "Write a model with batch norms as part of the layers before");
  add_model(fold, c.model);
  fold.add_option("-o,--output", c.written, "file to write")->required()->check(not_empty());
  add_json(fold, c.json);
}

void add_search(CLI::App& app, tool::SearchCommand& o) {
  CLI::App& search =
      *app.add_subcommand("search", "Find bits for each layer's weights within a size");
  add_model(search, o.model);
  add_data(search, o.data, o.threads);
  add_json(search, o.json);
  o.data.trains = true;
  search.add_option("--budget", o.budget, "most bytes of all weights")
      ->check(range<int64_t>(1, int64_t{1} << 50))
      ->required();
  search.add_option("--activation-bits", o.activation_bits, "bits of activations")
      ->check(range(2, 16))
      ->capture_default_str();
  add_scales(search, o.scales);
  add_weight_codes(search, o.weight_codes);
  add_float_parts(search, o.float_parts);
  search.add_option("--samples", o.samples, "samples to measure on")
      ->check(range<int64_t>(1, 1000000))
      ->capture_default_str();
  search.add_option("-o,--output", o.output,
                    "write the model with these bits here, calibrated");
}

void add_weights(CLI::App& app, tool::WeightsCommand& o) {
  CLI::App& weights =
      *app.add_subcommand("weights", "Write a model's values as arrays, or take them over");
  add_model(weights, o.model);
  weights.add_option("--from", o.from,
                     "take values from this .npz or .safetensors file, by name");
  weights
      .add_option("-o,--output", o.output,
                  "file to write: .npz or .safetensors; with --from, the model")
      ->required()
      ->check(not_empty());
  add_json(weights, o.json);
}

void add_graph(CLI::App& app, Commands& c) {
  CLI::App& graph = *app.add_subcommand("graph", "Draw a model's graph");
  add_model(graph, c.model);
  graph.add_option("-o,--output", c.written, "file to write: .svg, by Graphviz, or .dot")
      ->required()
      ->check(not_empty());
  add_json(graph, c.json);
}

void add_report(CLI::App& app, Commands& c) {
  CLI::App& report = *app.add_subcommand("report", "Write a page that shows training runs");
  report.add_option("runs", c.runs, "folders that --report of training wrote to")->required();
  report.add_option("-o,--output", c.written, "HTML file to write; - is standard output")
      ->required()
      ->check(not_empty());
  add_json(report, c.json);
}

/// Runs the command; returns 1 if verification found a mismatch, or lint an error or a warning.
int run(const CLI::App& app, Commands& c) {
  c.replay.quantize = !c.quantizers_off;
  c.quantizers.sensitivity = !c.no_sensitivity;
  if (app.got_subcommand("inspect")) tool::inspect(c.model, c.json);
  if (app.got_subcommand("replay")) tool::replay(c.replay);
  if (app.got_subcommand("calibrate")) tool::calibrate(c.calibrate);
  if (app.got_subcommand("quantizers")) tool::report_quantizers(c.quantizers);
  if (app.got_subcommand("convert")) {
    c.convert.requantization = requantizations_of(c.requantization)[0];
    tool::convert(c.convert);
  }
  if (app.got_subcommand("export") && app.get_subcommand("export")->got_subcommand("onnx")) {
    c.export_onnx.form = from_string<OnnxForm>(c.form).value();
    tool::export_onnx(c.export_onnx);
    return 0;
  }
  if (app.got_subcommand("export")) {
    c.export_c.requantization = from_string<Requantization>(c.exported);
    c.export_c.kernels = from_string<CKernels>(c.kernels).value();
    return tool::export_c(c.export_c) ? 0 : 1;
  }
  if (app.got_subcommand("verify")) {
    c.verify.levels = levels_of(c.levels);
    c.verify.requantizations = requantizations_of(c.verified, c.verify.levels);
    require<ArgumentError>(c.verify.program.empty() || c.verify.requantizations.size() == 1,
                           "--program needs one --requantization, got all");
    return tool::verify(c.verify) ? 0 : 1;
  }
  if (app.got_subcommand("train")) tool::train(c.train);
  if (app.got_subcommand("search")) tool::search(c.search);
  if (app.got_subcommand("weights")) tool::weights(c.weights);
  if (app.got_subcommand("graph")) tool::draw_graph(c.model, c.written, c.json);
  if (app.got_subcommand("report")) tool::draw_runs(c.runs, c.written, c.json);
  if (app.got_subcommand("import")) tool::import_model(c.import);
  if (app.got_subcommand("fold")) tool::fold(c.model, c.written, c.json);
  if (app.got_subcommand("profile")) {
    c.profile.arithmetic = from_string<tool::StepArithmetic>(c.arithmetic).value();
    c.profile.requantization = requantizations_of(c.profiled)[0];
    tool::profile(c.profile);
  }
  if (app.got_subcommand("lint")) return tool::lint(c.model, !c.no_notes, c.json) == 0 ? 0 : 1;
  return 0;
}

/// Groups the commands in the help: groups in order of their first command, commands as added.
void group_commands(CLI::App& app) {
  const std::vector<std::pair<const char*, std::vector<const char*>>> groups = {
      {"Models", {"import", "fold", "inspect", "graph", "replay", "weights", "profile"}},
      {"Quantization and training", {"calibrate", "train", "search", "quantizers", "report"}},
      {"Integers", {"convert", "verify", "lint", "export"}}};
  for (const auto& [group, names] : groups) {
    for (const char* name : names) app.get_subcommand(name)->group(group);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app("Looks into saved qtape models, runs and calibrates them.", "qtape");
  app.require_subcommand(1);
  Commands commands;
  add_import(app, commands);
  add_fold(app, commands);
  add_commands(app, commands);
  add_graph(app, commands);
  add_weights(app, commands.weights);
  add_profile(app, commands);
  add_calibrate(app, commands.calibrate);
  add_train(app, commands.train);
  add_search(app, commands.search);
  add_quantizers(app, commands);
  add_report(app, commands);
  add_integers(app, commands);
  add_export(app, commands);
  group_commands(app);
  return examples::run_program(app, argc, argv, [&] { return run(app, commands); });
} catch (const std::exception& error) {
  return console::report_failure("qtape", error);
}
