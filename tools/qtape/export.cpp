#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "qtape/c99/c_names.h"
#include "qtape/c99/export_c.h"
#include "qtape/core/printable.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/programs/console/terminal.h"
#include "qtape/programs/output_files.h"
#include "qtape/tools/qtape/c_check.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/exported_program.h"
#include "qtape/tools/qtape/golden_samples.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/load_file.h"
#include "qtape/tools/qtape/options.h"

namespace qtape::tool {

struct ExportCCommand {
  std::string file;  ///< integer program, or model
  DataOptions data;  ///< source of the samples for the self-test
  std::string folder;
  std::string name;  ///< prefix of all names; empty: derived from the file name
  std::optional<Requantization> requantization = std::nullopt;  ///< for models
  bool integer_outputs = false;
  Layout layout = Layout::nhwc;
  int64_t test_inputs = 128;  ///< number of generated inputs of the self-test
  /// Number of samples stored in the self-test; if empty, a default with data, otherwise none.
  std::optional<int64_t> golden = std::nullopt;
  std::optional<int64_t> ram = std::nullopt;  ///< maximum bytes of the arena
  CKernels kernels = CKernels::Portable;
  bool check = false;  ///< compile and run the self-test
  std::string json = {};

  static constexpr auto fields() {
    using C = ExportCCommand;
    return std::tuple{
        setting("test_inputs", &C::test_inputs,
                "inputs that the self-test generates on the device and compares by hashes",
                {1, 100000}),
        setting("golden", &C::golden,
                "samples of the data, or random inputs without data, that it stores with the "
                "codes of every step, to locate differences; 3 with data, otherwise none",
                {0, 10000}),
        setting("ram", &C::ram, "maximum number of bytes for activations",
                {0, int64_t{1} << 31}),
        setting("check", &C::check, "compile and run the self-test, also under QEMU"),
        setting("requantization", &C::requantization,
                "of a model: conversion of accumulators to codes; by default FloatMultiply"),
        setting("integer_outputs", &C::integer_outputs,
                "output codes and accumulators instead of floats"),
        setting("layout", &C::layout, layout_doc)};
  }
};

namespace {

namespace fs = std::filesystem;

struct StepReport {
  std::string label;
  int64_t products = 0;
  int64_t constant_bytes = 0;
  int64_t live_bytes = 0;
  std::string kernel;
  std::string reason;

  static constexpr auto fields() {
    using S = StepReport;
    return std::tuple{field("label", &S::label, "of the node"),
                      field("multiply_adds", &S::products, "with constant weights"),
                      field("constant_bytes", &S::constant_bytes, "of weights and others"),
                      field("live_bytes", &S::live_bytes, "of the arena, in use"),
                      field("kernel", &S::kernel, "own C, or the function of CMSIS-NN"),
                      field("reason", &S::reason, "for own C although CMSIS-NN was requested")};
  }
};

/// An integer output.
struct IntegerOutputReport {
  std::string name;
  DType dtype = DType::S32;
  int64_t zero_point = 0;
  std::vector<double> scales;

  static constexpr auto fields() {
    using R = IntegerOutputReport;
    return std::tuple{
        field("name", &R::name, "of the parameter"), field("dtype", &R::dtype, "of elements"),
        field("zero_point", &R::zero_point, "integer that represents 0"),
        field("scales", &R::scales, "one, or one for each index of the last axis")};
  }
};

struct ExportReport {
  std::string name;
  Requantization requantization = Requantization::FloatMultiply;
  std::vector<StepReport> steps;
  int64_t multiply_adds = 0;
  int64_t constant_bytes = 0;
  int64_t weight_bytes = 0;
  int64_t arena_bytes = 0;
  int64_t live_bytes = 0;
  int64_t buffer_bytes = 0;
  int64_t test_inputs = 0;
  int64_t golden = 0;
  std::vector<IntegerOutputReport> integer_outputs;
  std::vector<CCheck> checks;

  static constexpr auto fields() {
    using R = ExportReport;
    return std::tuple{
        field("name", &R::name, "prefix of all names"),
        field("requantization", &R::requantization, "conversion of accumulators to codes"),
        field("steps", &R::steps, "in the order in which they run"),
        field("multiply_adds", &R::multiply_adds, "of all"),
        field("constant_bytes", &R::constant_bytes, "in flash, in addition to code"),
        field("weight_bytes", &R::weight_bytes, "of these, weights as stored"),
        field("arena_bytes", &R::arena_bytes, "memory of a run"),
        field("live_bytes", &R::live_bytes, "most bytes of it in use at once"),
        field("buffer_bytes", &R::buffer_bytes, "of static memory for buffers of CMSIS-NN"),
        field("test_inputs", &R::test_inputs, "generated by the self-test"),
        field("golden", &R::golden, "samples stored in it"),
        field("integer_outputs", &R::integer_outputs, "outputs that are not floats"),
        field("checks", &R::checks, "runs of the self-test")};
  }
};

/// Returns the file name without extension as a C identifier, or "network".
std::string name_from(const std::string& path) {
  const std::string name = c_words(fs::path(path).stem().string());
  return refused_c_name(name).empty() ? name : "network";
}

/// Returns the number of stored samples: as requested, or a default if data are given, else
/// none.
int64_t golden_of(const ExportCCommand& command) {
  constexpr int64_t of_data = 3;
  return command.golden.value_or(command.data.given() ? of_data : 0);
}

/// Throws ArgumentError for a prefix that C refuses, and for options without effect.
void check_command(const ExportCCommand& command, const std::string& name) {
  const std::string refused = refused_c_name(name);
  require<ArgumentError>(refused.empty(), "--name: '{}' cannot be the prefix of C names: {}",
                         printable(name), refused);
  check_options(command.data);
  require<ArgumentError>(golden_of(command) > 0 || !command.data.given(),
                         "--data and --input have no effect with --golden 0");
}

ExportReport report_of(const IntegerProgram& program, const CProgram& written,
                       const std::string& name) {
  ExportReport report{.name = name,
                      .requantization = program.requantization(),
                      .constant_bytes = written.constant_bytes,
                      .weight_bytes = written.weight_bytes,
                      .arena_bytes = written.arena_bytes,
                      .live_bytes = written.live_bytes,
                      .buffer_bytes = written.buffer_bytes};
  for (const CStep& step : written.steps) {
    report.multiply_adds += step.products;
    report.steps.push_back({step.label, step.products, step.constant_bytes, step.live_bytes,
                            step.library.empty() ? "own C" : step.library, step.own_because});
  }
  for (const CArgument& each : written.outputs) {
    const IntegerValue& v = program[each.node].value;
    if (v.type.dtype == DType::F32) continue;
    report.integer_outputs.push_back({each.name, v.type.dtype, v.zero_point, v.scales});
  }
  return report;
}

/// Prints which kernels run, if CMSIS-NN was requested.
void print_kernels(const CProgram& written) {
  const auto called = std::ranges::count_if(
      written.steps, [](const CStep& each) { return !each.library.empty(); });
  fmt::print("CMSIS-NN computes {} of {} steps\n", called, written.steps.size());
  for (const CStep& step : written.steps) {
    fmt::print("  {:<30} {}\n", printable(step.label), c_kernel_text(step));
  }
  if (called == 0) {
    fmt::print(
        "warning: no step uses CMSIS-NN; leave out --kernels cmsis-nn, which stores "
        "weights in 8 bits\n");
  }
}

/// Prints the meaning of an integer output.
void print(const IntegerOutputReport& output) {
  const std::string_view dtype = to_string_view(output.dtype);
  if (output.scales.size() == 1) {
    fmt::print("output {}: {}, value (q - {}) {}\n", output.name, dtype, output.zero_point,
               output.scales[0]);
    return;
  }
  const auto [low, high] = std::ranges::minmax(output.scales);
  fmt::print(
      "output {}: {}, value q[i] scale[i], {} scales from {} to {}\nwarning: its channels have "
      "different scales, so the largest integer need not be the largest value; the header has "
      "scales and ratios\n",
      output.name, dtype, output.scales.size(), low, high);
}

void print(const ExportReport& report) {
  fmt::print("{:<32} {:>14} {:>12} {:>10}\n", "step", "multiply-adds", "flash bytes",
             "RAM bytes");
  for (const StepReport& step : report.steps) {
    fmt::print("{:<32} {:>14} {:>12} {:>10}\n", printable(step.label), step.products,
               step.constant_bytes, step.live_bytes);
  }
  fmt::print("{:<32} {:>14} {:>12} {:>10}\n", "all", report.multiply_adds,
             report.constant_bytes, report.arena_bytes);
  fmt::print("weights {} bytes; {} bytes of the arena are in use at once\n",
             report.weight_bytes, report.live_bytes);
  if (report.buffer_bytes > 0) {
    fmt::print("CMSIS-NN uses up to {} additional bytes for buffers\n", report.buffer_bytes);
  }
  for (const IntegerOutputReport& output : report.integer_outputs) print(output);
}

/// Creates a folder and its parents if necessary, and removes what it created unless it is
/// kept. Throws IoError.
class NewFolder {
 public:
  explicit NewFolder(const fs::path& path) {
    std::error_code ignored;
    for (fs::path each = fs::absolute(path, ignored);
         !each.empty() && !fs::exists(each, ignored) && each != each.parent_path();
         each = each.parent_path()) {
      made_.push_back(each);
    }
    std::error_code failed;
    fs::create_directories(path, failed);
    if (!failed) return;
    remove();
    fail<IoError>("--output: {}: cannot create a folder: {}", path.string(), failed.message());
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder() { remove(); }
  void keep() { made_.clear(); }

 private:
  void remove() {
    std::error_code ignored;
    for (const fs::path& each : made_) fs::remove(each, ignored);
  }

  std::vector<fs::path> made_;
};

/// Throws if the program needs more memory than is available.
void check_ram(const CProgram& written, const ExportCCommand& command) {
  const int64_t bytes = written.arena_bytes + written.buffer_bytes;
  if (!command.ram || bytes <= *command.ram) return;
  const auto most = std::ranges::max_element(written.steps, {}, &CStep::live_bytes);
  fail<ArgumentError>(
      "--ram: the arena takes {} bytes{}, the limit is {}; {} needs the most, {} bytes at once",
      written.arena_bytes,
      written.buffer_bytes > 0
          ? fmt::format(", buffers of CMSIS-NN up to {}", written.buffer_bytes)
          : "",
      *command.ram, most == written.steps.end() ? "no step" : printable(most->label),
      most == written.steps.end() ? 0 : most->live_bytes);
}

/// Exports the program to C; draws progress on a terminal.
CExport exported_c(const ExportCCommand& command, const std::string& name,
                   const IntegerProgram& program) {
  CExportOptions options{.name = name, .kernels = command.kernels};
  options.test.inputs = command.test_inputs;
  options.test.samples = golden_samples(program.batch() ? program.with_batch(1) : program,
                                        golden_of(command), command.data, command.file);
  options.test.progress = [](int64_t done, int64_t all) {
    console::redraw(fmt::format("self-test: input {} of {} in the reference", done + 1, all));
  };
  CExport result =
      naming<GraphError>(command.file, [&] { return qtape::export_c(program, options); });
  console::clear_line();
  return result;
}

}  // namespace

/// Writes a program as C99 with a self-test; prints its memory requirements. Returns false if
/// the self-test was run and failed.
bool export_c(const ExportCCommand& command) {
  const std::string name = command.name.empty() ? name_from(command.file) : command.name;
  check_command(command, name);
  programs::OutputFiles files;
  AnyFile file = load_file(command.file, files);
  const IntegerProgram program =
      exported_program(file, command.file, command.requantization,
                       Requantization::FloatMultiply, command.integer_outputs, command.layout);
  std::optional<CmsisNn> library;
  if (command.check && command.kernels == CKernels::CmsisNn) {
    library = CmsisNn::of_environment(program.requantization());
  }
  files.reads({command.file});
  files.reads(command.data.paths());
  NewFolder folder(command.folder);
  const std::string base = (fs::path(command.folder) / name).string();
  for (std::string_view end : {".h", ".c", "_test.c"}) {
    files.expect_text("--output", fmt::format("{}{}", base, end));
  }
  files.expect_text("--json", command.json);
  const CExport exported = exported_c(command, name, program);
  const CProgram& written = exported.written;
  check_ram(written, command);
  ExportReport report = report_of(exported.program, written, name);
  report.test_inputs = command.test_inputs;
  report.golden = golden_of(command);
  print(report);
  if (command.kernels == CKernels::CmsisNn) print_kernels(written);
  if (written.has_wide_sums) {
    fmt::print("accumulators have 64 bits, which is slow on 32-bit processors\n");
  }
  write_c(command.folder, exported);
  folder.keep();
  for (const CFile& each : exported.files) {
    fmt::print("saved {}\n", (fs::path(command.folder) / each.name).string());
  }
  if (command.check) {
    report.checks = check_c(command.folder, name, std::ssize(written.steps), library);
  }
  write_report(files, command.json, report);
  files.require_written();
  return std::ranges::all_of(report.checks,
                             [](const CCheck& each) { return each.passed || !each.fits; });
}

Command add_export_c(CLI::App& app) {
  const auto o = std::make_shared<ExportCCommand>();
  CLI::App& to_c = *app.add_subcommand(
      "c", "Write an integer program as C99 for microcontrollers, with a self-test");
  to_c.add_option("file", o->file, "file of an integer program or a model")->required();
  add_output(to_c, o->folder, "folder to write NAME.h, NAME.c and NAME_test.c to");
  to_c.add_option("--name", o->name, "prefix of all names; by default from the file's name");
  add_settings(to_c, o->data);
  const auto kernel = std::make_shared<std::string>("portable");
  CLI::Option& kernels =
      *to_c.add_option("--kernels", *kernel,
                       "portable: included; cmsis-nn: CMSIS-NN's kernels, compiled by --check "
                       "from the tree in QTAPE_CMSIS_NN")
           ->capture_default_str();
  programs::take_one_of(kernels, settings::Choices<CKernels>().names());
  add_settings(to_c, *o);
  add_json(to_c, o->json);
  return {&to_c, [o, kernel] {
            o->kernels = from_string<CKernels>(*kernel).value();
            return qtape::tool::export_c(*o) ? 0 : 1;
          }};
}

}  // namespace qtape::tool
