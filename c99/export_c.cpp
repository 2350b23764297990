#include "qtape/c99/export_c.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
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
#include "qtape/io/descriptor.h"
#include "qtape/io/files.h"

namespace qtape {
namespace {

namespace fs = std::filesystem;

/// Creates and locks the folder `path`. Writers of the same files take turns; without locks in
/// the file system they do not wait.
Descriptor enter(const std::string& path) {
  constexpr int max_attempts = 1000;
  for (int attempt = 0; attempt < max_attempts; ++attempt) {
    const bool created = ::mkdir(path.c_str(), 0777) == 0;
    if (!created && errno != EEXIST) fail_io(path, "write", errno);
    Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (folder.get() < 0 && errno == ENOENT) continue;
    if (folder.get() < 0) {
      const int error = errno;
      if (created) ::rmdir(path.c_str());
      fail_io(path, "write", error);
    }
    while (::flock(folder.get(), LOCK_EX) != 0 && errno == EINTR) {
    }
    // The previous holder of the lock removed the folder opened here.
    if (is_open_at(folder.get(), path)) return folder;
  }
  fail_io(path, "write", EBUSY);
}

/// A hidden folder next to the target files, which are renamed out of it. One that a killed
/// process left is used again.
class Beside {
 public:
  Beside(const fs::path& folder, const std::vector<CFile>& files)
      : path_((folder / ("." + files.at(0).name + ".partial")).string()), lock_(enter(path_)) {
    for (const CFile& file : files) files_.push_back((fs::path(path_) / file.name).string());
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
  Descriptor lock_;
  std::vector<std::string> files_;
};

/// The old files at the target paths while they are replaced one by one. Those that were
/// replaced come back unless all are.
class OldFiles {
 public:
  OldFiles(const Beside& beside, const std::vector<std::string>& paths) {
    for (size_t i = 0; i < paths.size(); ++i) {
      files_.push_back({written_path(paths[i]), beside.file(i) + ".old"});
    }
    for (File& file : files_) {
      ::unlink(file.old.c_str());
      file.existed = ::access(file.path.c_str(), F_OK) == 0;
      file.kept = file.existed && ::link(file.path.c_str(), file.old.c_str()) == 0;
    }
  }
  OldFiles(const OldFiles&) = delete;
  OldFiles& operator=(const OldFiles&) = delete;
  ~OldFiles() {
    for (size_t i = 0; i < replaced_; ++i) {
      if (files_[i].kept) ::rename(files_[i].old.c_str(), files_[i].path.c_str());
      if (!files_[i].existed) ::unlink(files_[i].path.c_str());
    }
    for (const File& file : files_) ::unlink(file.old.c_str());
  }
  /// Notes that the next file was replaced.
  void replaced() { ++replaced_; }
  /// All files were replaced.
  void release() { replaced_ = 0; }

 private:
  struct File {
    std::string path;
    std::string old;
    bool existed = false;
    bool kept = false;
  };
  std::vector<File> files_;
  size_t replaced_ = 0;
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
  std::vector<std::string> paths;
  for (const CFile& file : exported.files) {
    paths.push_back((fs::path(folder) / file.name).string());
    require_writable(paths.back());
  }
  const Beside beside(folder, exported.files);
  for (size_t i = 0; i < paths.size(); ++i) {
    write_for(paths[i], beside.file(i), exported.files[i]);
  }
  OldFiles old(beside, paths);
  for (size_t i = 0; i < paths.size(); ++i) {
    move_to(beside.file(i), paths[i], exported.files[i]);
    old.replaced();
  }
  old.release();
}

void write_c(const std::string& folder, const IntegerProgram& program,
             const CExportOptions& options) {
  write_c(folder, export_c(program, options));
}

}  // namespace qtape
