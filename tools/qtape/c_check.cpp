#include "qtape/tools/qtape/c_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "qtape/c99/c_library.h"
#include "qtape/c99/c_names.h"
#include "qtape/core/error.h"
#include "qtape/io/files.h"
#include "qtape/programs/console/subprocess.h"
#include "qtape/programs/console/terminal.h"

namespace qtape::tool {
namespace {

/// A processor that QEMU emulates, with its board.
struct Board {
  std::string_view processor;
  std::string_view machine;
  std::vector<std::string> flags;
  /// Nanoseconds per timer clock. With -icount shift=0 an instruction takes 1 ns.
  double nanoseconds_by_clock;
};

const std::vector<Board>& boards() {
  // Code for a Cortex-M0 runs on the board of the M3, because QEMU's M0 board has too little
  // memory.
  static const std::vector<Board> all = {
      {"cortex-m0", "mps2-an385", {"-mcpu=cortex-m0"}, 40},
      {"cortex-m4",
       "mps2-an386",
       {"-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"},
       40},
      {"cortex-m55", "mps3-an547", {"-mcpu=cortex-m55", "-mfloat-abi=hard"}, 31.25}};
  return all;
}

constexpr std::string_view arm_compiler = "arm-none-eabi-gcc";
constexpr std::string_view arm_size = "arm-none-eabi-size";
constexpr std::string_view emulator = "qemu-system-arm";
constexpr int test_seconds = 1800;

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// Prints the messages of a compiler; throws Error if it failed.
void require_compiled(const std::string& compiler, const Finished& finished) {
  require_success(compiler, finished);
  fmt::print("{}", finished.output);
}

void compile(const std::vector<std::string>& arguments) {
  require_compiled(arguments[0], run_program(arguments));
}

/// Returns the number that follows `label` in `text`.
std::optional<int64_t> number_after(std::string_view text, std::string_view label) {
  const size_t at = text.find(label);
  if (at == std::string_view::npos) return std::nullopt;
  int64_t number = 0;
  const char* begin = text.data() + at + label.size();
  const auto [end, fault] = std::from_chars(begin, text.data() + text.size(), number);
  return fault == std::errc() ? std::optional(number) : std::nullopt;
}

/// Returns the total size of the sections whose names begin with `section`, from the output of
/// `size -A`.
int64_t bytes_of(const std::string& listing, std::string_view section) {
  int64_t bytes = 0;
  for (size_t at = 0; at < listing.size();) {
    const size_t end = std::min(listing.find('\n', at), listing.size());
    const std::string_view line = std::string_view(listing).substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(section)) continue;
    const size_t digits = line.find_first_of("0123456789", line.find(' '));
    if (digits == std::string_view::npos) continue;
    bytes += number_after(line.substr(digits), "").value_or(0);
  }
  return bytes;
}

/// The objects of a library, compiled by `compiler` in a temporary folder.
class LibraryObjects {
 public:
  LibraryObjects(std::vector<std::string> compiler, const std::optional<CmsisNn>& library,
                 std::string_view target) {
    if (!library) return;
    console::redraw(fmt::format("self-test on {}: compiling {} files of CMSIS-NN", target,
                                library->sources.size()));
    std::erase(compiler, "-std=c99");
    append(compiler, {"-std=gnu99", "-w", "-ffunction-sections", "-r", "-nostdlib", "-o",
                      folder_.file("library.o")});
    append(compiler, library->flags);
    append(compiler, library->sources);
    compile(compiler);
    arguments_ = {folder_.file("library.o"), "-Wl,--gc-sections"};
  }
  /// Returns linker arguments.
  const std::vector<std::string>& arguments() const { return arguments_; }

 private:
  TemporaryFolder folder_;
  std::vector<std::string> arguments_;
};

CCheck check_on_host(const std::string& base, const std::optional<CmsisNn>& library) {
  const TemporaryFolder folder;
  const std::string program = folder.file("test");
  const CCompiler compiler = CCompiler::of_environment();
  std::vector<std::string> arguments = {compiler.command};
  append(arguments, c_standard("c99"));
  append(arguments, {"-Wall", "-Wextra", "-Wpedantic", "-Wconversion"});
  append(arguments, compiler.flags);
  std::vector<std::string> plain = {compiler.command};
  append(plain, compiler.flags);
  const LibraryObjects objects(plain, library, "host");
  if (library) append(arguments, library->flags);
  append(arguments, {"-o", program, base + ".c", base + "_test.c"});
  append(arguments, objects.arguments());
  console::redraw("self-test on host: compiling");
  compile(arguments);
  console::redraw("self-test on host: running");
  const Finished run = run_program({program}, test_seconds);
  console::clear_line();
  if (run.exit_code != 0) fmt::print("{}", run.output);
  return {.target = "host", .passed = run.exit_code == 0};
}

CCheck check_on(const Board& board, const std::string& base, const std::string& name,
                int64_t steps, const std::optional<CmsisNn>& library) {
  const TemporaryFolder folder;
  for (const auto& [file, text] : firmware_texts()) write_file(folder.file(file), text);
  std::vector<std::string> compiler = {std::string(arm_compiler), "-std=c99", "-O2", "-mthumb"};
  compiler.insert(compiler.end(), board.flags.begin(), board.flags.end());

  const LibraryObjects objects(compiler, library, board.processor);
  std::vector<std::string> object = compiler;
  if (library) append(object, library->flags);
  object.insert(object.end(), {"-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-c", "-o",
                               folder.file("network.o"), base + ".c"});
  console::redraw(fmt::format("self-test on {}: compiling", board.processor));
  compile(object);
  std::vector<std::string> whole = compiler;
  whole.insert(
      whole.end(),
      {fmt::format("-DNETWORK={}", name), fmt::format("-DNETWORK_STEP_COUNT={}", steps),
       fmt::format("-DNETWORK_HEADER=\"{}.h\"", name), "-iquote",
       std::filesystem::path(base).parent_path().string(),
       fmt::format("-D{}_TEST_NO_MAIN", c_macro(name)), "-nostartfiles", "--specs=nosys.specs",
       "-T", folder.file("mps2.ld"), "-o", folder.file("firmware.elf"), folder.file("main.c"),
       folder.file("board.c"), folder.file("startup.c"), folder.file("network.o"),
       base + "_test.c"});
  append(whole, objects.arguments());
  const Finished linked = run_program(whole);
  if (linked.output.find("overflowed by") != std::string::npos) {
    console::clear_line();
    fmt::print("no self-test on {}: network and samples do not fit the memory of {}\n",
               board.processor, board.machine);
    return {.target = std::string(board.processor), .fits = false};
  }
  require_compiled(whole[0], linked);

  const Finished sizes = run_program({std::string(arm_size), "-A", folder.file("network.o")});
  require_success(std::string(arm_size), sizes);
  console::redraw(fmt::format("self-test on {}: running under QEMU, at most {} s",
                              board.processor, test_seconds));
  const Finished run = run_program(
      {std::string(emulator), "-M", std::string(board.machine), "-nographic", "-monitor",
       "none", "-semihosting", "-icount", "shift=0", "-kernel", folder.file("firmware.elf")},
      test_seconds);
  console::clear_line();
  CCheck result{.target = std::string(board.processor),
                .passed = run.exit_code == 0,
                .code_bytes = bytes_of(sizes.output, ".text"),
                .constant_bytes = bytes_of(sizes.output, ".rodata"),
                .ram_bytes = bytes_of(sizes.output, ".data") + bytes_of(sizes.output, ".bss")};
  if (const auto clocks = number_after(run.output, "clocks of a run: ")) {
    result.instructions =
        static_cast<int64_t>(static_cast<double>(*clocks) * board.nanoseconds_by_clock);
  }
  if (!result.passed) fmt::print("{}", run.output);
  return result;
}

void print(const CCheck& check) {
  fmt::print("self-test on {}: {}", check.target, check.passed ? "passed" : "FAILED");
  if (check.code_bytes) {
    fmt::print("; code {} bytes, constants {}, memory {}", *check.code_bytes,
               check.constant_bytes.value_or(0), check.ram_bytes.value_or(0));
  }
  if (check.instructions) {
    fmt::print("; {} instructions per run", *check.instructions);
  } else if (check.code_bytes) {
    fmt::print("; more instructions per run than the timer counts");
  }
  fmt::print("\n");
}

}  // namespace

std::vector<CCheck> check_c(const std::string& folder, const std::string& name, int64_t steps,
                            const std::optional<CmsisNn>& library) {
  // Absolute, because compilers interpret names that begin with - or @.
  const std::string base = (std::filesystem::absolute(folder) / name).string();
  std::vector<CCheck> checks = {check_on_host(base, library)};
  print(checks.back());
  for (std::string_view needed : {arm_compiler, arm_size, emulator}) {
    if (has_program(std::string(needed))) continue;
    fmt::print("no self-test on Cortex-M: {} is not installed\n", needed);
    return checks;
  }
  for (const Board& board : boards()) {
    checks.push_back(check_on(board, base, name, steps, library));
    if (checks.back().fits) print(checks.back());
  }
  return checks;
}

}  // namespace qtape::tool
