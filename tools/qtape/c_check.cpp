#include "qtape/tools/qtape/c_check.h"

#include <fmt/format.h>

#include <filesystem>

#include "qtape/core/error.h"
#include "qtape/deploy/c_library.h"
#include "qtape/deploy/subprocess.h"

namespace qtape::tool {
namespace {

/// A temporary folder that goes away with its object.
class Temporary {
 public:
  Temporary() : path_(make_temporary_folder()) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string file(std::string_view name) const { return fmt::format("{}/{}", path_, name); }

 private:
  std::string path_;
};

CCheck check_on_host(const std::string& base) {
  const Temporary folder;
  const std::string program = folder.file("test");
  const std::string compiler = CCompiler{}.name();
  const Finished compiled =
      run_program({compiler, "-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic",
                   "-Wconversion", "-o", program, base + ".c", base + "_test.c"});
  require<Error>(compiled.exit_code == 0, "{} ended with {}: {}", compiler, compiled.exit_code,
                 compiled.output.substr(0, 4000));
  const Finished run = run_program({program});
  fmt::print("{}{}", compiled.output, run.output);
  return {.target = "host", .passed = run.exit_code == 0};
}

}  // namespace

std::vector<CCheck> check_c(const std::string& folder, const std::string& name) {
  const std::string base = (std::filesystem::path(folder) / name).string();
  return {check_on_host(base)};
}

}  // namespace qtape::tool
