#include "qtape/c99/export_c.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "qtape/core/error.h"
#include "qtape/integer/program/signed_codes.h"
#include "qtape/io/files.h"

namespace qtape {
namespace {

namespace fs = std::filesystem;

/// A hidden folder next to the target files, which are renamed out of it.
class Beside {
 public:
  Beside(const fs::path& folder, const std::string& name)
      : path_((folder / ("." + name + "-XXXXXX")).string()) {
    require<IoError>(::mkdtemp(path_.data()) != nullptr, "{}: cannot write: {}",
                     folder.string(), std::strerror(errno));
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;
  ~Beside() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string file(const std::string& name) const { return (fs::path(path_) / name).string(); }

 private:
  std::string path_;
};

/// Writes a file to `to`; errors name `path`.
void write_for(const std::string& path, const std::string& to, const CFile& file) {
  try {
    write_file(to, file.text);
  } catch (const IoError& error) {
    const std::string text = error.what();
    fail<IoError>("{}{}", path, text.starts_with(to) ? text.substr(to.size()) : ": " + text);
  }
}

/// Moves a written file to its place. Symbolic links stay; targets in other file systems are
/// written directly.
void move_to(const std::string& from, const std::string& path, const CFile& file) {
  const std::string target = written_path(path);
  if (::rename(from.c_str(), target.c_str()) == 0) return;
  require<IoError>(errno == EXDEV, "{}: cannot replace: {}", path, std::strerror(errno));
  write_file(path, file.text);
}

}  // namespace

CExport export_c(const IntegerProgram& program, const CExportOptions& options) {
  const IntegerProgram one = program.batch() ? program.with_batch(1) : program;
  CExport result{.program = program_for_c(one, options.kernels).program};
  result.written =
      write_c_program(result.program, options.name, options.kernels, sha256_of(program));
  result.files = {{options.name + ".h", result.written.header},
                  {options.name + ".c", result.written.source},
                  {options.name + "_test.c", write_c_self_test(result.program, result.written,
                                                               options.name, options.test)}};
  return result;
}

void write_c(const std::string& folder, const CExport& exported) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  require<IoError>(!failed, "{}: cannot create a folder: {}", folder, failed.message());
  const auto path = [&](const CFile& file) { return (fs::path(folder) / file.name).string(); };
  for (const CFile& file : exported.files) require_writable(path(file));
  const Beside beside(folder, exported.files.at(0).name);
  for (const CFile& file : exported.files) {
    write_for(path(file), beside.file(file.name), file);
  }
  for (const CFile& file : exported.files) move_to(beside.file(file.name), path(file), file);
}

void write_c(const std::string& folder, const IntegerProgram& program,
             const CExportOptions& options) {
  write_c(folder, export_c(program, options));
}

}  // namespace qtape
