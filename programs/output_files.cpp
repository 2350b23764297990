#include "qtape/programs/output_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "qtape/core/error.h"
#include "qtape/io/files.h"
#include "qtape/model/training/run_record.h"
#include "qtape/programs/console/standard_output.h"

namespace qtape::programs {
namespace {

namespace fs = std::filesystem;

/// Returns the path of the file that is written, the same for all names of it.
std::string canonical(const std::string& path) {
  std::error_code ignored;
  return fs::weakly_canonical(fs::absolute(written_path(path)), ignored).string();
}

/// Creates an empty temporary file for content that cannot be written to `path`. Throws
/// IoError.
std::string temporary_file(const std::string& path) {
  const std::string ending = fs::path(path).extension().string();
  std::error_code none;
  const fs::path folder = fs::temp_directory_path(none);
  std::string name = ((none ? fs::path("/tmp") : folder) / ("qtape-XXXXXX" + ending)).string();
  const int file = ::mkstemps(name.data(), static_cast<int>(ending.size()));
  if (file < 0) {
    fail<IoError>("{}: cannot write: {}", name, std::generic_category().message(errno));
  }
  ::close(file);
  return name;
}

/// Saves the content elsewhere after `error`; returns the message about both.
std::string rescue(const std::string& path, const OutputFiles::Save& content,
                   const std::string& error) {
  std::string name;
  try {
    name = temporary_file(path);
    content(name);
    return fmt::format("{}; saved as {} instead", error, name);
  } catch (const std::exception& second) {
    if (!name.empty()) ::unlink(name.c_str());
    return fmt::format("{}; and {}", error, second.what());
  }
}

}  // namespace

OutputFiles::~OutputFiles() {
  if (standard_output_ >= 0) ::close(standard_output_);
}

void OutputFiles::expect(std::string_view option, const std::string& path) {
  if (path.empty()) return;
  require<ArgumentError>(path != "-", "{}: expected a file, got -, which is standard output",
                         option);
  const std::string whole = canonical(path);
  if (const auto folder = folders_.find(whole); folder != folders_.end()) {
    fail<ArgumentError>("{}: {} is already the folder of {}", option, path, folder->second);
  }
  try {
    require_writable(path);
  } catch (const IoError& error) {
    fail<IoError>("{}: {}", option, error.what());
  }
  std::error_code ignored;
  if (fs::exists(whole, ignored) && !fs::is_regular_file(whole, ignored)) return;
  const auto [known, added] = options_.emplace(whole, option);
  require<ArgumentError>(added, "{}: {} is already the file of {}", option, path,
                         known->second);
}

void OutputFiles::reads(const std::vector<std::string>& paths) {
  read_.insert(read_.end(), paths.begin(), paths.end());
}

void OutputFiles::found_to_read(const std::vector<std::string>& paths) {
  reads(paths);
  for (const auto& [path, option] : options_) require_not_among(paths, option, path);
}

void OutputFiles::require_not_among(const std::vector<std::string>& inputs,
                                    std::string_view option, const std::string& path) {
  std::error_code missing;
  for (const std::string& each : inputs) {
    const bool within = fs::is_directory(each, missing) && fs::exists(path, missing) &&
                        fs::equivalent(each, fs::absolute(path).parent_path(), missing);
    require<ArgumentError>(!within && !fs::equivalent(each, path, missing),
                           "{}: {} is the file to read", option, path);
  }
}

void OutputFiles::expect_folder(std::string_view option, const std::string& folder,
                                const std::vector<std::string>& files) {
  if (folder.empty()) return;
  const std::string whole = canonical(folder);
  const auto known = options_.find(whole);
  if (known != options_.end()) {
    fail<ArgumentError>("{}: {} is already the file of {}", option, folder, known->second);
  }
  try {
    create_folder(folder);
  } catch (const IoError& error) {
    fail<IoError>("{}: {}", option, error.what());
  }
  folders_.emplace(whole, option);
  for (const std::string& each : files) expect_unread(option, each);
}

void OutputFiles::expect_run(std::string_view option, const std::string& folder) {
  expect_folder(option, folder, {report::run_file(folder)});
}

void OutputFiles::expect_unread(std::string_view option, const std::string& path) {
  require_not_among(read_, option, path);
  expect(option, path);
}

void OutputFiles::expect_text(std::string_view option, const std::string& path) {
  if (path != "-") return expect_unread(option, path);
  const auto [known, added] = options_.emplace(path, option);
  require<ArgumentError>(added, "{}: standard output is already used by {}", option,
                         known->second);
  console::flush();
  standard_output_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (standard_output_ < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    console::fail_standard_output(errno);
  }
}

void OutputFiles::save(const std::string& path, const Save& content) {
  if (path.empty()) return;
  const size_t failures = failures_.size();
  attempt(path, content);
  if (failures_.size() == failures) console::print("saved {}\n", path);
}

void OutputFiles::write(const std::string& path, std::string_view text) {
  if (path.empty()) return;
  attempt(path, [&](const std::string& name) {
    if (name == "-") return write_all(standard_output_, "standard output", text);
    write_file(name, text);
  });
}

void OutputFiles::add_failure(const std::string& failure) {
  if (!failure.empty()) failures_.push_back(failure);
}

void OutputFiles::attempt(const std::string& path, const Save& content) {
  try {
    content(path);
  } catch (const IoError& error) {
    failures_.push_back(rescue(path, content, error.what()));
  } catch (const Error& error) {
    failures_.emplace_back(error.what());
  }
}

void OutputFiles::require_written() const {
  if (!failures_.empty()) throw IoError(fmt::format("{}", fmt::join(failures_, "; ")));
}

}  // namespace qtape::programs
