// Output files of a run: paths are tested before the work, and content that cannot be written
// afterwards is saved elsewhere.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qtape::programs {

class OutputFiles {
 public:
  using Save = std::function<void(const std::string& path)>;

  OutputFiles() = default;
  OutputFiles(const OutputFiles&) = delete;
  OutputFiles& operator=(const OutputFiles&) = delete;
  ~OutputFiles();

  /// Declares the inputs of the program: files, and folders with files directly in them.
  /// `expect_text` rejects these paths. Empty and nonexistent paths are ignored.
  void reads(const std::vector<std::string>& paths);
  /// Declares inputs that are known only after outputs were tested. Throws ArgumentError if an
  /// option names one of them.
  void found_to_read(const std::vector<std::string>& paths);
  /// Tests a path given by `option`; an empty path is ignored. Throws IoError if it cannot be
  /// written, ArgumentError if another option names the same file.
  void expect(std::string_view option, const std::string& path);
  /// Tests a path like `expect`, and throws ArgumentError if the program reads it.
  void expect_unread(std::string_view option, const std::string& path);
  /// Tests the path of a text like `expect_unread`. `-` is standard output, which is then
  /// reserved for that text: everything printed from here on goes to standard error.
  void expect_text(std::string_view option, const std::string& path);

  /// Tests `files`, which are written to a folder, like `expect_unread`. The folder is created
  /// if necessary; no option may name it as a file. An empty path is ignored.
  void expect_folder(std::string_view option, const std::string& folder,
                     const std::vector<std::string>& files);
  /// Tests the folder of a run's record like `expect_folder`.
  void expect_run(std::string_view option, const std::string& folder);

  /// Calls `content` with the path, unless it is empty, and prints that the file is saved. On
  /// failure, `content` is called with a temporary file instead, and the failure is recorded.
  void save(const std::string& path, const Save& content);
  /// Writes a text, unless the path is empty. A failure is recorded as in `save`.
  void write(const std::string& path, std::string_view text);

  /// Records a failure, unless it is empty.
  void add_failure(const std::string& failure);

  bool all_written() const { return failures_.empty(); }
  /// Throws IoError with all failures, each with the temporary file that holds the content.
  void require_written() const;

 private:
  void attempt(const std::string& path, const Save& content);

  static void require_not_among(const std::vector<std::string>& inputs, std::string_view option,
                                const std::string& path);

  std::map<std::string, std::string, std::less<>> options_;  // by the file they name
  std::map<std::string, std::string, std::less<>> folders_;  // options by the folder they name
  std::vector<std::string> read_;
  std::vector<std::string> failures_;
  int standard_output_ = -1;  // its descriptor while it is reserved for a text
};

}  // namespace qtape::programs
