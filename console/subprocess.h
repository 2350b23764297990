// Other programs, run without a shell.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace qtape {

/// How a program ended, and what it wrote to standard output and error.
struct Finished {
  int exit_code = 0;  ///< 128 and the signal's number where one ended it
  std::string output;
};

/// Runs `arguments[0]`, found in PATH, to its end; its standard input is empty. One that is
/// still running after `seconds`, unless they are 0, is killed with all that it started. Throws
/// Error where it cannot be started, console::Interrupted where SIGINT or SIGTERM came, which
/// it is sent as well.
Finished run_program(const std::vector<std::string>& arguments, int seconds = 0);

/// Throws Error with the beginning of what `program` wrote, unless it succeeded.
void require_success(const std::string& program, const Finished& finished);

/// Whether PATH has a program `name`.
bool has_program(const std::string& name);

/// A new folder for temporary files, which goes away with its object.
class TemporaryFolder {
 public:
  /// Throws IoError.
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  /// Removes it now.
  void remove();
  /// The path of a file in it.
  std::string file(std::string_view name) const;

 private:
  std::string path_;
};

}  // namespace qtape
