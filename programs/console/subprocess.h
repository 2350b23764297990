// Execution of other programs, without a shell.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qtape {

/// Exit status of a program, and its standard output and error.
struct Finished {
  int exit_code = 0;  ///< 128 plus the signal number if a signal ended it
  std::string output;
};

/// Runs `arguments[0]`, found in PATH, to completion, with empty standard input. If it is still
/// running after `seconds` (0: no limit), it is killed together with the processes that it
/// started. Throws Error if it cannot be started. Throws console::Interrupted on SIGINT or
/// SIGTERM, which is forwarded to it.
Finished run_program(const std::vector<std::string>& arguments, int seconds = 0);

/// Receives the index of a command and its result.
using FinishedFunction = std::function<void(size_t index, const Finished& result)>;

/// Runs programs as `run_program` does, up to `at_once` at a time, and returns their results in
/// the order of `commands`. Calls `finished` as soon as one has ended; if that throws, the
/// others are killed.
std::vector<Finished> run_programs(std::span<const std::vector<std::string>> commands,
                                   int at_once, const FinishedFunction& finished = {});

/// Returns the command line of a compiler: the words of the environment variable `command`,
/// otherwise `otherwise`, and those of the variable `flags`, otherwise -O2.
std::vector<std::string> compiler_of_environment(const char* command, const char* flags,
                                                 const std::string& otherwise);

/// Throws Error with the beginning of the output of `program` if it did not succeed.
void require_success(const std::string& program, const Finished& finished);

/// True if PATH has a program `name`.
bool has_program(const std::string& name);

/// A new folder for temporary files, removed by the destructor.
class TemporaryFolder {
 public:
  /// Throws IoError.
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  /// Removes the folder.
  void remove();
  /// Returns the path of file `name` in the folder.
  std::string file(std::string_view name) const;

 private:
  std::string path_;
};

}  // namespace qtape
