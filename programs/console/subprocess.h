// Execution of other programs, without a shell.
#pragma once

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
