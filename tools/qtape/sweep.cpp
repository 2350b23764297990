#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <thread>

#include "qtape/core/launcher.h"
#include "qtape/core/printable.h"
#include "qtape/io/file_lock.h"
#include "qtape/io/files.h"
#include "qtape/io/json_document.h"
#include "qtape/programs/console/standard_output.h"
#include "qtape/programs/console/subprocess.h"
#include "qtape/programs/report/page.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/json_report.h"
#include "qtape/tools/qtape/options.h"
#include "qtape/tools/qtape/report.h"
#include "qtape/tools/qtape/sweep_grid.h"

namespace qtape::tool {

namespace {

namespace fs = std::filesystem;

constexpr int64_t max_result_bytes = int64_t{64} << 20;
constexpr auto pause = std::chrono::milliseconds(200);

struct SweepOptions {
  std::string grid;
  std::string output;
  std::string json;
};

struct SweepReport {
  int64_t runs = 0;
  int64_t finished = 0;
  int64_t failed = 0;
  std::vector<std::string> failures = {};

  static constexpr auto fields() {
    using R = SweepReport;
    return std::tuple{field("runs", &R::runs, "runs of the grid"),
                      field("finished", &R::finished, "runs with a result"),
                      field("failed", &R::failed, "runs that ended with an error"),
                      field("failures", &R::failures, "their names")};
  }
};

/// All runs of a grid, each in its folder, shared with other processes that run the same sweep.
class Sweep {
 public:
  Sweep(SweepGrid grid, std::string folder)
      : grid_(std::move(grid)), folder_(std::move(folder)) {
    std::vector<std::string> asking = grid_.command;
    asking.push_back("--help");
    const Finished help = run_program(asking);
    require_success(grid_.command[0], help);
    help_ = help.output;
    require_options(grid_, help_);
    require<ArgumentError>(has_option(help_, "--json"), "{} has no option --json",
                           grid_.command[0]);
  }

  /// Creates the folder of each run, with its command.
  void create_folders() const {
    for (const SweepRun& run : grid_.runs) {
      create_folder(in(run, ""));
      keep_command(run);
    }
  }

  /// Returns when every run has ended, in this process or another one.
  void run() {
    for (bool waiting = true; waiting;) {
      waiting = false;
      for (const SweepRun& each : grid_.runs) {
        if (!ended(each) && !try_to_run(each)) waiting = true;
      }
      if (waiting) std::this_thread::sleep_for(pause);
    }
  }

  SweepReport report() const {
    SweepReport report{.runs = static_cast<int64_t>(grid_.runs.size())};
    for (const SweepRun& each : grid_.runs) {
      if (fs::exists(in(each, "result.json"))) {
        ++report.finished;
      } else {
        report.failures.push_back(each.name);
      }
    }
    report.failed = static_cast<int64_t>(report.failures.size());
    return report;
  }

  /// Writes a table of settings and numbers of results, and the page of all records.
  void write_tables() const {
    std::vector<std::string> columns;
    std::vector<Json> results;
    for (const SweepRun& each : grid_.runs) {
      results.push_back(result_of(each));
      for (const auto& [key, value] : results.back().items()) {
        const bool listed = std::ranges::count(columns, key) > 0;
        if (!listed && (value.is_number() || value.is_string())) columns.push_back(key);
      }
    }
    std::string table = "run";
    for (const auto& [key, value] : grid_.runs[0].settings) table += "," + quoted(key);
    for (const std::string& key : columns) table += "," + quoted(key);
    table += '\n';
    for (size_t i = 0; i < grid_.runs.size(); ++i) {
      table += quoted(grid_.runs[i].name);
      for (const auto& [key, value] : grid_.runs[i].settings) table += "," + quoted(value);
      for (const std::string& key : columns) {
        const auto* found = results[i].find(key);
        table += ',';
        if (found == nullptr) continue;
        table += found->value.is_string() ? quoted(found->value.text()) : found->value.dump();
      }
      table += '\n';
    }
    write_file(folder_ + "/table.csv", table);
    std::vector<std::string> records;
    for (const SweepRun& each : grid_.runs) {
      if (fs::exists(in(each, "run.json"))) records.push_back(in(each, ""));
    }
    if (!records.empty()) write_file(folder_ + "/report.html", page_of_runs(records));
  }

 private:
  std::string in(const SweepRun& run, const std::string& file) const {
    return folder_ + "/" + run.name + (file.empty() ? "" : "/" + file);
  }

  static std::string quoted(const std::string& text) {
    if (text.find_first_of(",\"\n") == std::string::npos) return text;
    std::string result = "\"";
    for (const char c : text) result += c == '"' ? std::string("\"\"") : std::string(1, c);
    return result + "\"";
  }

  /// Writes the command of a run, one argument on each line. Throws ArgumentError if its folder
  /// holds another one.
  void keep_command(const SweepRun& run) const {
    const std::string path = in(run, "command.txt");
    std::vector<std::string> command = grid_.command;
    command.insert(command.end(), run.arguments.begin(), run.arguments.end());
    const std::string text = fmt::format("{}\n", fmt::join(command, "\n"));
    if (!fs::exists(path)) return write_file(path, text);
    require<ArgumentError>(read_file(path, max_result_bytes) == text,
                           "{} was written for a different command: name another folder "
                           "for the results, or remove this one",
                           path);
  }

  bool ended(const SweepRun& run) const {
    return fs::exists(in(run, "result.json")) || fs::exists(in(run, "failure.txt"));
  }

  /// Members of the report of a run; null if it has none.
  Json result_of(const SweepRun& run) const {
    const std::string path = in(run, "result.json");
    if (!fs::exists(path)) return {};
    return naming<FormatError>(
        path, [&] { return parse_document(read_file(path, max_result_bytes)); });
  }

  /// Returns false if another process runs it.
  bool try_to_run(const SweepRun& run) const {
    std::optional<FileLock> lock;
    try {
      lock.emplace(in(run, "result.json"));
    } catch (const FileInUse&) {
      return false;
    }
    return !is_orphaned(run) && (ended(run) || run_one(run));
  }

  /// True if a process that a killed sweep left behind still computes the run.
  bool is_orphaned(const SweepRun& run) const {
    try {
      const FileLock checkpoint(in(run, "checkpoint.json"));
      return false;
    } catch (const FileInUse&) {
      return true;
    }
  }

  std::vector<std::string> arguments(const SweepRun& run) const {
    std::vector<std::string> all = grid_.command;
    all.insert(all.end(), run.arguments.begin(), run.arguments.end());
    const auto add = [&](const std::string& option, const std::string& value) {
      if (has_option(help_, option)) all.insert(all.end(), {option, value});
    };
    add("--json", in(run, "partial.json"));
    add("--report", in(run, ""));
    const std::string checkpoint = in(run, "checkpoint.json");
    // Where --resume is a flag, the run begins again.
    const bool takes_file = help_.find("--resume TEXT") != std::string::npos;
    const bool continues = takes_file && fs::exists(checkpoint);
    add(continues ? "--resume" : "--checkpoint", checkpoint);
    return all;
  }

  /// Returns false if an orphaned process still computes the run.
  bool run_one(const SweepRun& run) const {
    const auto start = std::chrono::steady_clock::now();
    const Finished finished = run_program(arguments(run));
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    const std::string partial = in(run, "partial.json");
    if (finished.exit_code == 0 && fs::exists(partial)) {
      const std::string result = in(run, "result.json");
      std::error_code failed;
      fs::rename(partial, result, failed);
      require<IoError>(!failed, "{}: cannot replace: {}", result, failed.message());
      write_file(in(run, "log.txt"), finished.output);
      console::print("{}: finished in {:.1f} s\n", printable(run.name), time.count());
      return true;
    }
    write_file(in(run, "log.txt"), finished.output);
    if (is_orphaned(run)) return false;
    write_file(in(run, "failure.txt"), fmt::format("exit code {}\n", finished.exit_code));
    console::print("{}: failed with exit code {}: {}\n", printable(run.name),
                   finished.exit_code, printable(last_line(finished.output)));
    return true;
  }

  static std::string last_line(std::string text) {
    while (text.ends_with('\n')) text.pop_back();
    const size_t begin = text.find_last_of("\n\r");
    return begin == std::string::npos ? text : text.substr(begin + 1);
  }

  SweepGrid grid_;
  std::string folder_;
  std::string help_;
};

int sweep(const SweepOptions& options) {
  // The runs are processes of their own.
  const bool leads = launched_rank() == 0;
  leave_launcher();
  programs::OutputFiles files;
  files.reads({options.grid});
  if (leads) files.expect_text("--json", options.json);
  SweepGrid grid = read_grid(options.grid);
  Sweep sweep = naming<ArgumentError>(options.grid,
                                      [&] { return Sweep(std::move(grid), options.output); });
  if (leads) {
    const fs::path folder = options.output;
    files.expect_folder("--output", options.output,
                        {folder / "table.csv", folder / "report.html"});
  }
  sweep.create_folders();
  sweep.run();
  if (!leads) return 0;
  sweep.write_tables();
  const SweepReport report = sweep.report();
  console::print("{} of {} runs finished; {}/table.csv\n", report.finished, report.runs,
                 options.output);
  for (const std::string& name : report.failures) {
    console::print("{} failed; see {}/{}/log.txt, and remove failure.txt there to repeat it\n",
                   printable(name), options.output, printable(name));
  }
  write_report(files, options.json, report);
  files.require_written();
  return report.failed == 0 ? 0 : 1;
}

}  // namespace

Command add_sweep(CLI::App& app) {
  const auto o = std::make_shared<SweepOptions>();
  CLI::App& sweep_app = *app.add_subcommand(
      "sweep",
      "Run a training program with all combinations of settings; processes that run the same "
      "sweep share its runs");
  sweep_app
      .add_option("grid", o->grid,
                  R"(JSON file: {"command": ["train_mlp"], "settings": {"seed": [1, 2]}})")
      ->required();
  add_output(sweep_app, o->output,
             "folder for the results: a folder for each run, table.csv and report.html");
  add_json(sweep_app, o->json);
  return {&sweep_app, [o] { return sweep(*o); }};
}

}  // namespace qtape::tool
