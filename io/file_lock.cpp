#include "qtape/io/file_lock.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include "qtape/core/error.h"
#include "qtape/io/descriptor.h"
#include "qtape/io/files.h"

namespace qtape {
namespace {

constexpr int lock_attempts = 1000;

/// Description of this run, written to its lock file.
std::string this_run() {
  std::array<char, 256> host{};
  (void)::gethostname(host.data(), host.size() - 1);
  return fmt::format("process {} on {}, since {:%Y-%m-%d %H:%M:%S}", ::getpid(), host.data(),
                     fmt::localtime(std::time(nullptr)));
}

/// Description of the run that holds the lock, with characters unfit for messages removed.
std::string other_run(int file) {
  std::array<char, 200> text{};
  const ssize_t size = ::pread(file, text.data(), text.size(), 0);
  std::string run(text.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
  std::erase_if(run, [](unsigned char c) { return c < 32 || c > 126; });
  return run.empty() ? "another run" : run;
}

}  // namespace

FileLock::FileLock(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path whole = fs::weakly_canonical(written_path(path), ignored);
  if (path.empty() || (fs::exists(whole, ignored) && !fs::is_regular_file(whole, ignored))) {
    return;
  }
  name_ = whole.string() + ".lock";
  const std::string holder = this_run();
  int attempt = 0;
  while (attempt < lock_attempts && !lock(path, holder)) ++attempt;
  require<IoError>(attempt < lock_attempts, "{}: cannot lock: other runs keep removing it",
                   name_);
}

/// Returns false if the locked file was removed by the run that held the lock before. Throws
/// nothing once the file is locked, since no destructor would remove it.
bool FileLock::lock(const std::string& path, const std::string& holder) {
  file_ = open_own_file(name_, O_RDWR);
  if (file_ < 0) {
    fail<IoError>("{}: cannot lock: {}", name_, std::generic_category().message(errno));
  }
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    const Descriptor locked(std::exchange(file_, -1));
    fail<FileInUse>("{}: {} writes checkpoints there", path, other_run(locked.get()));
  }
  if (!is_open_at(file_, name_)) {
    ::close(std::exchange(file_, -1));
    return false;
  }
  try {
    require_own_file(file_, name_);
  } catch (...) {
    ::close(std::exchange(file_, -1));
    throw;
  }
  (void)::ftruncate(file_, 0);
  (void)!::pwrite(file_, holder.data(), holder.size(), 0);
  return true;
}

FileLock::~FileLock() {
  if (file_ < 0) return;
  ::unlink(name_.c_str());
  ::close(file_);
}

}  // namespace qtape
