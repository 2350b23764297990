#include "qtape/c99/export_c.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/core/float_environment.h"
#include "qtape/core/whole_write.h"
#include "qtape/integer/program/signed_codes.h"
#include "qtape/io/files.h"

namespace qtape {
namespace {

namespace fs = std::filesystem;

/// A hidden folder of its own next to the target files, which are renamed out of it.
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

/// A file that is replaced together with others, and its old content.
class Replaced {
 public:
  /// Keeps the old content, if there is any, as `old`, or in memory where the file system has
  /// no second names or is another one.
  Replaced(const std::string& path, std::string old)
      : path_(path), target_(written_path(path)), old_(std::move(old)) {
    existed_ = ::access(target_.c_str(), F_OK) == 0;
    linked_ = existed_ && ::link(target_.c_str(), old_.c_str()) == 0;
    if (existed_ && !linked_) content_ = read_file(target_, max_old_bytes);
  }
  /// Moves the new file to its place. Symbolic links stay; targets in other file systems are
  /// written directly.
  void move_from(const std::string& from, const CFile& file) {
    if (::rename(from.c_str(), target_.c_str()) != 0) {
      require<IoError>(errno == EXDEV, "{}: cannot replace: {}", path_, std::strerror(errno));
      write_file(path_, file.text);
    }
    moved_ = true;
  }
  /// Makes the move survive a power loss.
  void sync() const { sync_folder_of(target_); }
  /// Restores the old content. Returns false if that failed; a linked one is still `old`.
  bool restore() const noexcept {
    if (moved_ && !existed_) ::unlink(target_.c_str());
    if (moved_ && linked_) return ::rename(old_.c_str(), target_.c_str()) == 0;
    forget();
    if (!moved_ || !existed_) return true;
    try {
      write_file(path_, content_);
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }
  /// Returns what to say of old content that could not be restored.
  std::string lost() const {
    return linked_ ? fmt::format("; the old {} is {}", path_, old_)
                   : fmt::format("; the old {} could not be restored", path_);
  }
  /// Removes the old content.
  void forget() const noexcept {
    if (linked_) ::unlink(old_.c_str());
  }

 private:
  static constexpr int64_t max_old_bytes = int64_t{1} << 32;

  std::string path_;
  std::string target_;
  std::string old_;
  std::string content_;
  bool existed_ = false;
  bool linked_ = false;
  bool moved_ = false;
};

/// Moves the new files to their places, all or none of them.
void replace_all(const Beside& beside, const std::vector<std::string>& paths,
                 const std::vector<CFile>& contents) {
  std::vector<Replaced> files;
  try {
    for (size_t i = 0; i < paths.size(); ++i) {
      files.emplace_back(paths[i], beside.file(i) + ".old");
    }
    for (size_t i = 0; i < paths.size(); ++i) files[i].move_from(beside.file(i), contents[i]);
    for (const Replaced& each : files) each.sync();
  } catch (const IoError& error) {
    std::string text = error.what();
    for (const Replaced& each : files) {
      if (!each.restore()) text += each.lost();
    }
    fail<IoError>("{}", text);
  } catch (...) {
    for (const Replaced& each : files) (void)each.restore();
    throw;
  }
  for (const Replaced& each : files) each.forget();
}

/// Writes a file to `to`; errors name `path`.
void write_for(const std::string& path, const std::string& to, const CFile& file) {
  try {
    write_file(to, file.text);
  } catch (const IoError& error) {
    const std::string text = error.what();
    fail<IoError>("{}{}", path, text.starts_with(to) ? text.substr(to.size()) : ": " + text);
  }
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
  const WholeWrite whole;
  const Beside beside(folder, exported.files);
  for (size_t i = 0; i < paths.size(); ++i) {
    write_for(paths[i], beside.file(i), exported.files[i]);
  }
  replace_all(beside, paths, exported.files);
}

void write_c(const std::string& folder, const IntegerProgram& program,
             const CExportOptions& options) {
  write_c(folder, export_c(program, options));
}

}  // namespace qtape
