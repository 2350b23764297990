#include "qtape/io/files.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/io/file_lock.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"

using namespace qtape;
using test::error_text;

namespace {

/// Limits the size of files written by this process, to simulate a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    handler_ = ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

}  // namespace

TEST_CASE("files: what is written is read back, and no partial file stays") {
  const test::Folder folder;
  const std::string path = folder.file("a");
  write_file(path, "first");
  write_file(path, std::string("second\0!", 8));
  CHECK(read_file(path, 100) == std::string("second\0!", 8));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("files: missing, too large and unwritable paths are errors that name them") {
  const test::Folder folder;
  const std::string path = folder.file("a");
  CHECK(error_text<IoError>([&] { (void)read_file(path, 9); }) ==
        path + ": cannot open: No such file or directory");
  write_file(path, "0123456789");
  CHECK(error_text<IoError>([&] { (void)read_file(path, 9); }) ==
        path + ": has 10 bytes, more than the limit of 9");
  const std::string nowhere = folder.file("no/such/file");
  CHECK(error_text<IoError>([&] { write_file(nowhere, "x"); }) ==
        nowhere + ": cannot write: No such file or directory");
  CHECK(error_text<IoError>([&] { write_file(folder.path(), "x"); }) ==
        folder.path() + ": cannot replace: Is a directory");
}

TEST_CASE("files: a path is tried as it will be written, and nothing is left") {
  const test::Folder folder;
  const std::string path = folder.file("a");
  require_writable(path);
  CHECK(std::filesystem::is_empty(folder.path()));
  write_file(path, "old");
  require_writable(path);
  CHECK(read_file(path, 100) == "old");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  require_writable("/dev/null");
  const std::string nowhere = folder.file("no/such/file");
  CHECK(error_text<IoError>([&] { require_writable(nowhere); }) ==
        nowhere + ": cannot write: No such file or directory");
  CHECK(error_text<IoError>([&] { require_writable(folder.path()); }) ==
        folder.path() + ": cannot write: Is a directory");
}

TEST_CASE("files: of several writers of one path each writes it whole") {
  const test::Folder folder;
  const std::string path = folder.file("a");
  std::vector<pid_t> writers;
  for (int i = 0; i < 4; ++i) {
    const auto size = static_cast<size_t>(100000 + 1000 * i);
    const std::string content(size, static_cast<char>('a' + i));
    writers.push_back(::fork());
    if (writers.back() != 0) continue;
    try {
      for (int k = 0; k < 30; ++k) write_file(path, content);
    } catch (const Error&) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  for (pid_t writer : writers) {
    int status = 1;
    ::waitpid(writer, &status, 0);
    CHECK(status == 0);
    const std::string content = read_file(path, 1 << 20);
    CHECK(content.find_first_not_of(content.substr(0, 1)) == std::string::npos);
    CHECK(content.size() == 100000 + 1000 * static_cast<size_t>(content[0] - 'a'));
  }
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("files: links stay links and devices stay devices") {
  const test::Folder folder;
  const std::string path = folder.file("a");
  const std::string link = folder.file("link");
  write_file(path, "old");
  std::filesystem::create_symlink(path, link);
  write_file(link, "new");
  CHECK(std::filesystem::is_symlink(link));
  CHECK(read_file(path, 100) == "new");
  std::filesystem::remove(path);
  write_file(link, "again");
  CHECK(std::filesystem::is_symlink(link));
  CHECK(read_file(path, 100) == "again");
  std::filesystem::create_symlink(folder.file("there"), folder.file("back"));
  std::filesystem::create_symlink(folder.file("back"), folder.file("there"));
  CHECK(error_text<IoError>([&] { write_file(folder.file("back"), "x"); }) ==
        folder.file("back") + ": cannot write: Too many levels of symbolic links");
  CHECK(std::filesystem::is_symlink(folder.file("back")));
  write_file("/dev/null", "x");
  CHECK(std::filesystem::is_character_file("/dev/null"));
  CHECK(error_text<IoError>([&] { write_file("/dev/full", "x"); }) ==
        "/dev/full: cannot write: No space left on device");
}

TEST_CASE(
    "files: what others put in the place of an incomplete file or a lock is not written") {
  namespace fs = std::filesystem;
  const std::string refused =
      ": exists and is no regular file with a single name, so it is not written: remove it";
  for (const std::string ending : {".partial", ".lock"}) {
    CAPTURE(ending);
    const test::Folder folder;
    const std::string path = folder.file("a");
    const std::string victim = folder.file("victim");
    write_file(victim, "precious");
    const auto error = [&] {
      return error_text<IoError>(
          [&] { ending == ".lock" ? (void)FileLock(path) : write_file(path, "new"); });
    };
    fs::create_symlink(victim, path + ending);
    CHECK(error() == path + ending + refused);
    fs::remove(path + ending);
    fs::create_hard_link(victim, path + ending);
    CHECK(error() == path + ending + refused);
    fs::remove(path + ending);
    REQUIRE(::mkfifo((path + ending).c_str(), 0600) == 0);
    CHECK(error() == path + ending + refused);
    CHECK(read_file(victim, 100) == "precious");
    CHECK(!fs::exists(path));
  }
}

TEST_CASE("files: one that is replaced keeps its permissions") {
  namespace fs = std::filesystem;
  const test::Folder folder;
  const std::string path = folder.file("a");
  for (const fs::perms wanted :
       {fs::perms::owner_read | fs::perms::owner_write, fs::perms::owner_read}) {
    write_file(path, "old");
    fs::permissions(path, wanted);
    write_file(path, "new");
    CHECK(fs::status(path).permissions() == wanted);
    CHECK(read_file(path, 100) == "new");
  }
}

TEST_CASE("files: a full disk leaves the old file as it was") {
  const test::Folder folder;
  const std::string path = folder.file("a");
  write_file(path, "old");
  {
    const FileSizeLimit limit(4096);
    CHECK(error_text<IoError>([&] { write_file(path, std::string(100000, 'n')); }) ==
          path + ": cannot write: File too large");
  }
  CHECK(read_file(path, 100) == "old");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("files: a kill at any moment leaves the old or the new content whole") {
  const test::Folder folder;
  const std::string path = folder.file("a");
  const std::string contents[2] = {std::string(300000, 'a'), std::string(500000, 'b')};
  write_file(path, contents[0]);
  for (int delay = 0; delay < 40; ++delay) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (int i = 1;; ++i) write_file(path, contents[i % 2]);
    }
    ::usleep(static_cast<useconds_t>(200 + 150 * delay));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::string left = read_file(path, 1 << 20);
    CHECK((left == contents[0] || left == contents[1]));
  }
}
