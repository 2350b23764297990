#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "qtape/console/terminal.h"
#include "qtape/core/printable.h"
#include "qtape/deploy/c_self_test.h"
#include "qtape/engine/files.h"
#include "qtape/engine/plan.h"
#include "qtape/examples/shared/output_files.h"
#include "qtape/integer/c/c_names.h"
#include "qtape/integer/c/c_program.h"
#include "qtape/integer/signed_codes.h"
#include "qtape/model/feed.h"
#include "qtape/tools/qtape/c_check.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/exported_program.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/random_inputs.h"

namespace qtape::tool {
namespace {

namespace fs = std::filesystem;

struct StepReport {
  std::string label;
  int64_t products = 0;
  int64_t constant_bytes = 0;
  int64_t live_bytes = 0;

  static constexpr auto fields() {
    using S = StepReport;
    return std::tuple{field("label", &S::label, "of the node"),
                      field("multiply_adds", &S::products, "with constant weights"),
                      field("constant_bytes", &S::constant_bytes, "of weights and others"),
                      field("live_bytes", &S::live_bytes, "of the arena, in use")};
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
  int64_t golden = 0;
  std::vector<CCheck> checks;

  static constexpr auto fields() {
    using R = ExportReport;
    return std::tuple{
        field("name", &R::name, "prefix of all names"),
        field("requantization", &R::requantization, "how accumulators become codes"),
        field("steps", &R::steps, "in the order in which they run"),
        field("multiply_adds", &R::multiply_adds, "of all"),
        field("constant_bytes", &R::constant_bytes, "in flash, beside code"),
        field("weight_bytes", &R::weight_bytes, "of packed weights, in these"),
        field("arena_bytes", &R::arena_bytes, "static memory"),
        field("live_bytes", &R::live_bytes, "the most of it that is in use at once"),
        field("buffer_bytes", &R::buffer_bytes, "of static memory that CMSIS-NN is lent"),
        field("golden", &R::golden, "samples of the self-test"),
        field("checks", &R::checks, "runs of the self-test")};
  }
};

/// The name of files without their ending, as a C identifier.
std::string name_from(const std::string& path) {
  const std::string name = c_words(fs::path(path).stem().string());
  return refused_c_name(name).empty() ? name : "network";
}

/// Inputs of the self-test: the first samples of the data, else random ones.
std::vector<GoldenSample> golden_samples(const IntegerProgram& program, const CProgram& written,
                                         const ExportCCommand& command) {
  GoldenSample buffers;
  std::vector<FedInput> inputs;
  for (const CArgument& each : written.inputs) {
    const Shape& shape = program[each.node].value.type.shape;
    buffers.emplace_back(static_cast<size_t>(shape.elements()));
    const auto extents = shape.extents();
    inputs.push_back({.label = program[each.node].label,
                      .sample = Shape(extents.subspan(std::min<size_t>(1, extents.size())))});
  }
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i].floats = buffers[i];
  std::vector<GoldenSample> samples;
  const data::Dataset dataset = load_data(command.data, features_of(program)).test;
  try {
    Feed feed(inputs, dataset);
    require<ArgumentError>(command.golden <= dataset.size(),
                           "--golden: the data have {} samples, {} are wanted", dataset.size(),
                           command.golden);
    for (int64_t i = 0; i < command.golden; ++i) {
      feed.fill_from(i);
      samples.push_back(buffers);
    }
    return samples;
  } catch (const ArgumentError&) {
    if (command.data.given() || command.golden > dataset.size()) throw;
  }
  for (int64_t i = 0; i < command.golden; ++i) {
    RandomSample random(1, i);
    for (size_t k = 0; k < buffers.size(); ++k) {
      random.fill(range_of(program, written.inputs[k].node), buffers[k]);
    }
    samples.push_back(buffers);
  }
  return samples;
}

ExportReport report_of(const IntegerProgram& program, const CProgram& written,
                       const std::string& name) {
  ExportReport report{.name = name,
                      .requantization = program.requantization(),
                      .constant_bytes = written.constant_bytes,
                      .arena_bytes = written.arena_bytes,
                      .live_bytes = written.live_bytes,
                      .buffer_bytes = written.buffer_bytes};
  for (const CStep& step : written.steps) {
    report.multiply_adds += step.products;
    report.steps.push_back({step.label, step.products, step.constant_bytes, step.live_bytes});
  }
  for (const IntegerNode& node : program.nodes()) {
    if (const QuantizedWeights* weights = weights_of(node.op)) {
      report.weight_bytes += weights->codes.type.bytes();
    }
  }
  return report;
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
    fmt::print("CMSIS-NN is lent up to {} bytes beside it\n", report.buffer_bytes);
  }
}

/// Makes a folder and those above it where there are none, and removes what it has made unless
/// that is kept. Failures show when files are written there.
class NewFolder {
 public:
  explicit NewFolder(const fs::path& path) {
    std::error_code ignored;
    for (fs::path each = fs::absolute(path, ignored);
         !each.empty() && !fs::exists(each, ignored) && each != each.parent_path();
         each = each.parent_path()) {
      made_.push_back(each);
    }
    fs::create_directories(path, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder() {
    std::error_code ignored;
    for (const fs::path& each : made_) fs::remove(each, ignored);
  }
  void keep() { made_.clear(); }

 private:
  std::vector<fs::path> made_;
};

/// Refuses what takes more memory than there is.
void check_ram(const CProgram& written, const ExportCCommand& command) {
  const int64_t bytes = written.arena_bytes + written.buffer_bytes;
  if (!command.ram || bytes <= *command.ram) return;
  const auto most = std::ranges::max_element(written.steps, {}, &CStep::live_bytes);
  fail<ArgumentError>(
      "--ram: the arena takes {} bytes{}, there are {}; {} needs most of it, {} bytes at once",
      written.arena_bytes,
      written.buffer_bytes > 0
          ? fmt::format(", what CMSIS-NN is lent up to {}", written.buffer_bytes)
          : "",
      *command.ram, most == written.steps.end() ? "no step" : printable(most->label),
      most == written.steps.end() ? 0 : most->live_bytes);
}

}  // namespace

bool export_c(const ExportCCommand& command) {
  const std::string name = command.name.empty() ? name_from(command.file) : command.name;
  const std::string refused = refused_c_name(name);
  require<ArgumentError>(refused.empty(), "--name: '{}' is no C identifier: {}",
                         printable(name), refused);
  AnyFile file = load_any(command.file);
  const IntegerProgram stored =
      exported_program(file, command.file, command.requantization,
                       Requantization::FloatMultiply, command.integer_outputs);
  const IntegerProgram program = naming<GraphError>(command.file, [&] {
    IntegerProgram one = stored.batch() ? stored.with_batch(1) : stored;
    if (command.kernels == CKernels::CmsisNn) return with_signed_codes(one).program;
    return one;
  });
  const CProgram written = naming<GraphError>(command.file, [&] {
    return write_c_program(program, name, command.kernels, sha256_of(stored));
  });
  check_ram(written, command);
  std::optional<CmsisNn> library;
  if (command.check && command.kernels == CKernels::CmsisNn) {
    library = CmsisNn::of_environment(program.requantization());
  }
  std::string test;
  const std::string base = (fs::path(command.folder) / name).string();
  const std::pair<std::string, const std::string*> texts[] = {{base + ".h", &written.header},
                                                              {base + ".c", &written.source},
                                                              {base + "_test.c", &test}};
  examples::OutputFiles files;
  files.reads({command.file});
  files.reads(command.data.paths());
  NewFolder folder(command.folder);
  for (const auto& [path, text] : texts) files.expect_text("--output", path);
  files.expect_text("--json", command.json);
  const std::vector<GoldenSample> samples = golden_samples(program, written, command);
  test = write_c_self_test(program, written, name, samples);
  folder.keep();
  ExportReport report = report_of(program, written, name);
  report.golden = command.golden;
  print(report);
  if (written.has_wide_sums) {
    fmt::print("sums of 64 bits are added, which is slow on processors of 32 bits\n");
  }
  for (const auto& [path, text] : texts) {
    files.save(path, [&](const std::string& to) { write_file(to, *text); });
  }
  if (command.check) {
    report.checks = check_c(command.folder, name, std::ssize(written.steps), library);
  }
  write_report(files, command.json, report);
  files.require_written();
  return std::ranges::all_of(report.checks,
                             [](const CCheck& each) { return each.passed || !each.fits; });
}

}  // namespace qtape::tool
