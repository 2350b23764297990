#include "qtape/io/files.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "qtape/core/error.h"
#include "qtape/core/out_of_memory.h"
#include "qtape/core/printable.h"
#include "qtape/core/whole_write.h"
#include "qtape/io/descriptor.h"

namespace qtape {
namespace {

constexpr int max_links = 40;  // limit of Linux
constexpr int max_attempts = 1000;

/// Devices and pipes accept bytes, but must not be replaced by a file.
bool is_special(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) &&
         !S_ISDIR(status.st_mode);
}

/// Path of the temporary file next to `target`. A name that would be too long is truncated;
/// writers of different files with the same truncated name take turns.
std::string partial_of(const std::string& target) {
  constexpr std::string_view ending = ".partial";
  const size_t name = target.rfind('/') + 1;  // 0 if there is no slash
  const size_t most = name + NAME_MAX - ending.size();
  const bool fits = target.size() <= most || target.size() > name + NAME_MAX;
  return target.substr(0, fits ? target.size() : most) + std::string(ending);
}

void write_special(const std::string& path, std::string_view content) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.get() < 0) fail_io(path, "write", errno);
  write_all(file.get(), path, content);
  if (!file.close()) fail_io(path, "write", errno);
}

/// Gives an open file the permissions of the file that it will replace, if there is one, and
/// those in `more`. File systems without permissions are ignored.
void take_permissions(int file, const std::string& path, mode_t more) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  (void)!::fchmod(file, (status.st_mode & 0777) | more);
}

[[noreturn]] void fail_of_others(const std::string& path) {
  fail<IoError>(
      "{}: exists and is no regular file with a single name, so it is not written: remove it",
      path);
}

/// Opens the empty file `partial`, to which `path` is written. The file is locked, so that
/// writers of one path take turns; without locks in the file system they do not wait.
Descriptor open_partial(const std::string& path, const std::string& partial) {
  for (int attempt = 0; attempt < max_attempts; ++attempt) {
    Descriptor file(open_own_file(partial, O_WRONLY));
    if (file.get() < 0) fail_io(path, "write", errno);
    while (::flock(file.get(), LOCK_EX) != 0 && errno == EINTR) {
    }
    // The previous holder of the lock renamed or removed the file opened here.
    if (!is_open_at(file.get(), partial)) continue;
    require_own_file(file.get(), partial);
    if (::ftruncate(file.get(), 0) == 0) {
      // If the process is killed, the next one must be able to write the file.
      take_permissions(file.get(), path, S_IWUSR);
      return file;
    }
    const int error = errno;
    ::unlink(partial.c_str());
    fail_io(path, "write", error);
  }
  fail_io(path, "write", EBUSY);
}

void write_and_rename(Descriptor file, const std::string& path, const std::string& partial,
                      std::string_view content) {
  try {
    write_all(file.get(), path, content);
    take_permissions(file.get(), path, 0);
    if (::fsync(file.get()) != 0) fail_io(path, "write", errno);
    if (::rename(partial.c_str(), path.c_str()) != 0) fail_io(path, "replace", errno);
  } catch (...) {
    ::unlink(partial.c_str());
    throw;
  }
}

/// Throws IoError for a path that the system would cut at a NUL byte.
void require_whole(const std::string& path) {
  require<IoError>(path.find('\0') == std::string::npos, "{}: the path has a NUL byte",
                   printable(path));
}

std::string read_all(const std::string& path, int64_t limit) {
  require_whole(path);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail_io(path, "open", errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) fail_io(path, "read", errno);
  require<IoError>(status.st_size <= limit, "{}: has {} bytes, more than the limit of {}", path,
                   status.st_size, limit);
  // Reads to the end instead of the reported size, because pipes report none.
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

}  // namespace

std::string read_file(const std::string& path, int64_t limit) {
  return during("reading", path, [&] { return read_all(path, limit); });
}

void write_all(int file, std::string_view name, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(file, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_io(name, "write", errno);
    content.remove_prefix(static_cast<size_t>(written));
  }
}

int open_own_file(const std::string& path, int access) {
  const int file =
      ::open(path.c_str(), access | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  // ENXIO: a pipe that nothing reads.
  if (file < 0 && (errno == ELOOP || errno == ENXIO)) fail_of_others(path);
  return file;
}

void require_own_file(int file, const std::string& path) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return;
  if (!S_ISREG(status.st_mode) || status.st_nlink > 1) fail_of_others(path);
}

bool is_open_at(int file, const std::string& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(file, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

std::string written_path(const std::string& path) {
  namespace fs = std::filesystem;
  require_whole(path);
  std::error_code ignored;
  fs::path target = path;
  for (int links = 0; links < max_links && fs::is_symlink(target, ignored); ++links) {
    target = target.parent_path() / fs::read_symlink(target, ignored);
  }
  if (fs::is_symlink(target, ignored)) fail_io(path, "write", ELOOP);
  return target.string();
}

void write_file(const std::string& path, std::string_view content) {
  if (is_special(path)) return write_special(path, content);
  during("writing", path, [&] {
    const WholeWrite whole;
    const std::string target = written_path(path);
    const std::string partial = partial_of(target);
    write_and_rename(open_partial(target, partial), target, partial, content);
    sync_folder_of(target);
  });
}

void sync_folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const Descriptor descriptor(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() < 0 || ::fsync(descriptor.get()) == 0) return;
  const int error = errno;
  require<IoError>(error != EIO && error != ENOSPC && error != EDQUOT,
                   "{}: is written, but the disk could not record its name: {}", path,
                   std::generic_category().message(error));
}

void create_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  require<IoError>(!error, "{}: cannot create this folder: {}", printable(path),
                   error.message());
}

void require_writable(const std::string& path) {
  if (is_special(path)) {
    if (::access(path.c_str(), W_OK) != 0) fail_io(path, "write", errno);
    return;
  }
  const std::string target = written_path(path);
  std::error_code unknown;  // for a name that is too long; the next line reports it
  if (std::filesystem::is_directory(target, unknown)) fail_io(target, "write", EISDIR);
  const std::string partial = partial_of(target);
  const WholeWrite whole;
  const Descriptor file = open_partial(target, partial);
  ::unlink(partial.c_str());
}

}  // namespace qtape
