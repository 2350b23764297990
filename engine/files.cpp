#include "qtape/engine/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "qtape/ops/core/error.h"

namespace qtape {
namespace {

[[noreturn]] void fail_io(const std::string& path, std::string_view action, int error) {
  fail<IoError>("{}: cannot {}: {}", path, action, std::generic_category().message(error));
}

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }

  int get() const { return fd_; }
  /// Closes now; whether that succeeded.
  bool close() {
    const int fd = std::exchange(fd_, -1);
    return fd < 0 || ::close(fd) == 0;
  }

 private:
  int fd_;
};

void write_all(const Descriptor& file, const std::string& path, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(file.get(), content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_io(path, "write", errno);
    content.remove_prefix(static_cast<size_t>(written));
  }
}

constexpr int most_links = 40;  // as Linux follows

/// Devices and pipes take bytes, but must not be replaced by a file.
bool is_special(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) &&
         !S_ISDIR(status.st_mode);
}

/// What a symbolic link points to is replaced, not the link.
std::string resolved(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path target = path;
  for (int links = 0; links < most_links && fs::is_symlink(target, ignored); ++links) {
    target = target.parent_path() / fs::read_symlink(target, ignored);
  }
  return target.string();
}

void write_special(const std::string& path, std::string_view content) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.get() < 0) fail_io(path, "write", errno);
  write_all(file, path, content);
  if (!file.close()) fail_io(path, "write", errno);
}

void write_and_rename(const std::string& path, const std::string& partial,
                      std::string_view content) {
  Descriptor file(::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.get() < 0) fail_io(path, "write", errno);
  write_all(file, path, content);
  if (::fsync(file.get()) != 0) fail_io(path, "write", errno);
  if (!file.close()) fail_io(path, "write", errno);
  if (::rename(partial.c_str(), path.c_str()) != 0) fail_io(path, "replace", errno);
}

/// The rename itself must survive a power cut; a file system that cannot sync folders is left
/// be.
void sync_folder(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const Descriptor descriptor(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() >= 0) (void)::fsync(descriptor.get());
}

}  // namespace

std::string read_file(const std::string& path, int64_t limit) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail_io(path, "open", errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_io(path, "read", errno);
  require<IoError>(status.st_size <= limit, "{}: has {} bytes, more than the limit of {}", path,
                   status.st_size, limit);
  // To the end rather than by the size that was told: pipes have none.
  std::string content(static_cast<size_t>(status.st_size) + 1, '\0');
  size_t size = 0;
  for (;;) {
    if (size == content.size()) content.resize(2 * size);
    const ssize_t got = ::read(file.get(), content.data() + size, content.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_io(path, "read", errno);
    if (got == 0) break;
    size += static_cast<size_t>(got);
    require<IoError>(static_cast<int64_t>(size) <= limit,
                     "{}: has more than the limit of {} bytes", path, limit);
  }
  content.resize(size);
  return content;
}

void write_file(const std::string& path, std::string_view content) {
  if (is_special(path)) return write_special(path, content);
  const std::string target = resolved(path);
  const std::string partial = target + ".partial";
  try {
    write_and_rename(target, partial, content);
  } catch (...) {
    ::unlink(partial.c_str());
    throw;
  }
  sync_folder(target);
}

}  // namespace qtape
