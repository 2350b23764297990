#include "qtape/c99/export_c.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/core/float_environment.h"
#include "qtape/integer/program/signed_codes.h"
#include "qtape/io/files.h"

namespace qtape {
namespace {

namespace fs = std::filesystem;

/// A hidden folder next to the target files, which are renamed out of it.
class Beside {
 public:
  Beside(const fs::path& folder, const std::vector<CFile>& files)
      : path_((folder / ("." + files.at(0).name + "-XXXXXX")).string()) {
    for (const CFile& file : files) files_.push_back((fs::path(path_) / file.name).string());
    require<IoError>(::mkdtemp(path_.data()) != nullptr, "{}: cannot write: {}",
                     folder.string(), std::strerror(errno));
    for (std::string& file : files_) file.replace(0, path_.size(), path_);
  }
  Beside(const Beside&) = delete;
  Beside& operator=(const Beside&) = delete;
  /// Removes what is left, also where there is no memory.
  ~Beside() {
    for (const std::string& file : files_) ::unlink(file.c_str());
    ::rmdir(path_.c_str());
  }
  /// Path of the file of this number.
  const std::string& file(size_t number) const { return files_[number]; }

 private:
  std::string path_;
  std::vector<std::string> files_;
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
  const FloatEnvironment floats;
  require<ArgumentError>(options.test.inputs >= 1, "test.inputs must be at least 1, got {}",
                         options.test.inputs);
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
  const Beside beside(folder, exported.files);
  for (size_t i = 0; i < exported.files.size(); ++i) {
    write_for(path(exported.files[i]), beside.file(i), exported.files[i]);
  }
  for (size_t i = 0; i < exported.files.size(); ++i) {
    move_to(beside.file(i), path(exported.files[i]), exported.files[i]);
  }
}

void write_c(const std::string& folder, const IntegerProgram& program,
             const CExportOptions& options) {
  write_c(folder, export_c(program, options));
}

}  // namespace qtape
