// The files that a run writes: tried before the work, written after it, not lost when a path
// fails then.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qtape::examples {

class OutputFiles {
 public:
  using Save = std::function<void(const std::string& path)>;

  OutputFiles() = default;
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;
  ~OutputFiles();

  /// What the program reads: files, and folders with files directly in them. `expect_text`
  /// refuses them. Empty paths, and such as do not exist, are none.
  void reads(const std::vector<std::string>& paths);
  /// Tries a path that `option` names; an empty one is none. Throws IoError where it cannot be
  /// written, ArgumentError where another option names the same file.
  void expect(std::string_view option, const std::string& path);
  /// The same, and throws ArgumentError for what is read.
  void expect_unread(std::string_view option, const std::string& path);
  /// The same for a text. `-` is standard output, which then takes that text alone: whatever
  /// is printed from here on goes to standard error.
  void expect_text(std::string_view option, const std::string& path);

  /// The same for the folder of a run's record, which is made where there is none.
  void expect_run(std::string_view option, const std::string& folder);

  /// Calls `content` with the path, if there is one, and prints that it is saved. Where that
  /// fails it is called with a temporary file instead, and the failure kept.
  void save(const std::string& path, const Save& content);
  /// Writes a text, if there is a path. A failure is kept as well.
  void write(const std::string& path, std::string_view text);

  /// Keeps what failed elsewhere, unless it is empty.
  void add_failure(const std::string& failure);

  /// Throws IoError with all failures, each with the temporary file that holds the content.
  void require_written() const;

 private:
  void attempt(const std::string& path, const Save& content);

  void require_unread(std::string_view option, const std::string& path) const;

  std::map<std::string, std::string, std::less<>> options_;  // by the file they name
  std::vector<std::string> read_;
  std::vector<std::string> failures_;
  int standard_output_ = -1;  // where it is that of a text alone
};

}  // namespace qtape::examples
