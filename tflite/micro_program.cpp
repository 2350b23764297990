#include "qtape/tflite/micro_program.h"

#include <fmt/format.h>

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/io/files.h"
#include "qtape/io/sha256.h"
#include "qtape/programs/console/subprocess.h"
#include "qtape/tflite/import/layers.h"
#include "qtape/tflite/micro_texts.h"
#include "qtape/tflite/micro_tree.h"

namespace qtape::tflite {
namespace {

using Command = std::vector<std::string>;

constexpr int64_t largest_program = int64_t{1} << 30;

Command with(Command command, std::initializer_list<std::string> more) {
  command.insert(command.end(), more);
  return command;
}

/// Returns the compiler and all arguments but files. Exceptions and run-time types are switched
/// off as the library's own build does, without which it does not compile.
Command compiler_of(const MicroTree& tree) {
  Command command = compiler_of_environment("CXX", "CXXFLAGS", "c++");
  command =
      with(std::move(command), {"-std=c++17", "-w", "-fno-exceptions", "-fno-rtti",
                                "-ffp-contract=off", "-ffunction-sections", "-fdata-sections",
                                "-DTF_LITE_STATIC_MEMORY", "-DTF_LITE_USE_CTIME"});
  for (const std::string& each : tree.includes) command.push_back("-I" + each);
  return command;
}

/// Returns the name of an operator in the methods of the library: `Conv2D` of `CONV_2D`.
std::string method_of(const std::string& name) {
  if (name == "PADV2") return "PadV2";
  std::string method;
  bool capital = true;
  for (const char each : name) {
    if (each == '_') {
      capital = true;
      continue;
    }
    method += capital ? each : static_cast<char>(std::tolower(each));
    // Of a word that begins with a digit, all letters stay capital.
    capital = capital && std::isdigit(static_cast<unsigned char>(each)) != 0;
  }
  return method;
}

/// Returns `ADD(Conv2D)` and so on, a line for each operator that is read.
std::string operators() {
  std::string lines;
  for (const auto readers : all_readers()) {
    for (const OperatorReader& each : readers) {
      lines += fmt::format("ADD({})\n", method_of(name_of(each.op)));
    }
  }
  return lines;
}

/// Compiles the header that all sources include; returns the command for them.
Command precompiled(const Command& compiler, const TemporaryFolder& folder) {
  const std::string header = folder.file("precompiled.hh");
  const Finished finished =
      run_program(with(compiler, {"-x", "c++-header", header, "-o", header + ".gch"}));
  require_success(compiler[0], finished);
  return with(compiler, {"-include", header});
}

std::string compiled(const MicroTree& tree, const Command& compiler, int threads,
                     const CompileProgress& progress) {
  const TemporaryFolder folder;
  for (const auto& [name, text] : micro_texts()) write_file(folder.file(name), text);
  write_file(folder.file("operators.inc"), operators());
  std::vector<std::string> sources = tree.sources;
  sources.push_back(folder.file("run.cc"));
  const int64_t all = std::ssize(sources);
  int64_t done = 0;
  if (progress) progress(done, all);
  const Command command = precompiled(compiler, folder);
  std::vector<Command> commands;
  Command link = compiler;
  for (size_t i = 0; i < sources.size(); ++i) {
    link.push_back(folder.file(fmt::format("{}.o", i)));
    commands.push_back(with(command, {"-c", sources[i], "-o", link.back()}));
  }
  (void)run_programs(commands, threads, [&](size_t, const Finished& finished) {
    require_success(compiler[0], finished);
    if (progress) progress(++done, all);
  });
  const std::string program = folder.file("run");
  const Finished linked =
      run_program(with(std::move(link), {"-Wl,--gc-sections", "-lm", "-o", program}));
  require_success(compiler[0], linked);
  return read_file(program, largest_program);
}

/// Returns where a compiled program is kept between runs, if the user names a folder for it: by
/// the compiler, the tree, its sources and those of the program.
std::optional<std::string> kept_path(const MicroTree& tree, const Command& compiler) {
  const char* folder = std::getenv("QTAPE_TFLITE_MICRO_CACHE");
  if (folder == nullptr || *folder == '\0') return std::nullopt;
  std::string key = operators();
  for (const std::string& each : compiler) key += each + '\n';
  for (const auto& [name, text] : micro_texts()) key += text;
  for (const std::string& each : tree.sources) {
    key += fmt::format("{} {}\n", each,
                       std::filesystem::last_write_time(each).time_since_epoch().count());
  }
  const std::string hash = sha256_hex(std::as_bytes(std::span(key)));
  return fmt::format("{}/tflite-micro-{}", folder, hash.substr(0, 16));
}

std::string kept_or_compiled(const MicroTree& tree, const Command& compiler, int threads,
                             const CompileProgress& progress) {
  const auto path = kept_path(tree, compiler);
  if (path && std::filesystem::exists(*path)) return read_file(*path, largest_program);
  if (path) require_writable(*path);
  std::string program = compiled(tree, compiler, threads, progress);
  if (path) write_file(*path, program);
  return program;
}

}  // namespace

const std::string& micro_program(int threads, const CompileProgress& progress) {
  const MicroTree tree = MicroTree::of_environment();
  const Command compiler = compiler_of(tree);
  // As content and not as a file: a signal that ends this process would leave a file behind.
  static std::map<Command, std::string> programs;
  const auto found = programs.find(compiler);
  if (found != programs.end()) return found->second;
  return programs.emplace(compiler, kept_or_compiled(tree, compiler, threads, progress))
      .first->second;
}

}  // namespace qtape::tflite
