// Loaded before a program by LD_PRELOAD: one of its calls after main has begun fails.
//   FAILING_KIND    memory: allocations; files: calls that open, read, write, sync, rename,
//   map;
//                   signal: these succeed, and SIGTERM arrives in one of them
//   FAILING_CALL    the number of the call that fails, from 1; 0: none
//   FAILING_REPORT  a file that gets the name of the function that failed, or at the end of a
//                   program in which none did, the number of calls
//   FAILING_PATHS   a file that gets the number of the first allocation of each call path, one
//   a line
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<bool> in_main{false};
std::atomic<bool> failed{false};
std::atomic<long> calls{0};
bool memory = false;
bool signals = false;
long failing = 0;
const char* report = nullptr;
FILE* paths = nullptr;

/// Innermost frames that make a call path: enough to tell the callers of a container's
/// allocation, few enough that the depth of a recursion makes no new ones without end.
constexpr int path_frames = 8;

/// True for the first call with the innermost frames of this one.
bool is_new_path() {
  static uint64_t seen[1 << 18];
  void* frames[path_frames];
  const int count = ::backtrace(frames, path_frames);
  uint64_t hash = 14695981039346656037U;
  for (int i = 0; i < count; ++i) {
    hash = (hash ^ reinterpret_cast<uint64_t>(frames[i])) * 1099511628211U;
  }
  hash ^= hash >> 29;
  constexpr uint64_t size = sizeof seen / sizeof *seen;
  for (uint64_t at = hash; at != hash + size; ++at) {
    uint64_t& entry = seen[at % size];
    if (entry == hash) return false;
    if (entry != 0) continue;
    entry = hash;
    return true;
  }
  return false;
}

/// True while the number of a call is written: the unwinder and the file allocate as well.
thread_local bool recording = false;

/// Writes the number of a call to FAILING_PATHS if its path is new.
void record_path(long number) {
  recording = true;
  if (is_new_path()) (void)std::fprintf(paths, "%ld\n", number);
  recording = false;
}

void write_report(const char* text) {
  const long file = ::syscall(SYS_openat, AT_FDCWD, report, O_WRONLY | O_CREAT, 0600);
  (void)::syscall(SYS_write, file, text, std::strlen(text));
  (void)::syscall(SYS_close, file);
}

/// True for the call that fails; it sets errno.
bool fails(bool of_memory, const char* function, int error) {
  if (recording || !in_main.load(std::memory_order_relaxed) || of_memory != memory)
    return false;
  const long number = ++calls;
  if (paths != nullptr) record_path(number);
  if (number != failing) return false;
  failed = true;
  write_report(function);
  if (signals) {
    (void)::raise(SIGTERM);
    return false;
  }
  errno = error;
  return true;
}

/// True for an address within oneDNN, which crashes where its own allocations fail
/// (docs/limits.md).
bool in_onednn(const void* caller) {
  Dl_info found{};
  return ::dladdr(caller, &found) != 0 && std::strstr(found.dli_fname, "libdnnl") != nullptr;
}

/// Returns the function of the C library.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

using Main = int(int, char**, char**);
Main* real_main = nullptr;

int failing_main(int argc, char** argv, char** environment) {
  if (const char* number = std::getenv("FAILING_CALL")) failing = std::atol(number);
  report = std::getenv("FAILING_REPORT");
  const char* kind = std::getenv("FAILING_KIND");
  memory = kind != nullptr && std::strcmp(kind, "memory") == 0;
  signals = kind != nullptr && std::strcmp(kind, "signal") == 0;
  if (const char* file = std::getenv("FAILING_PATHS")) paths = std::fopen(file, "w");
  // Compilers and other programs that this one starts are not what is tested.
  ::unsetenv("LD_PRELOAD");
  in_main = report != nullptr;
  return real_main(argc, argv, environment);
}

struct AtEnd {
  ~AtEnd() {
    in_main = false;
    if (paths != nullptr) (void)std::fclose(paths);
    if (report == nullptr || failed) return;
    char text[32];
    (void)std::snprintf(text, sizeof text, "%ld", calls.load());
    write_report(text);
  }
} at_end;

}  // namespace

extern "C" {

int __libc_start_main(Main* main, int argc, char** argv, void (*init)(), void (*fini)(),
                      void (*loader_fini)(), void* stack_end) {
  real_main = main;
  using Start = int(Main*, int, char**, void (*)(), void (*)(), void (*)(), void*);
  return next<Start>("__libc_start_main")(failing_main, argc, argv, init, fini, loader_fini,
                                          stack_end);
}

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* data, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) noexcept {
  return fails(true, "malloc", ENOMEM) ? nullptr : __libc_malloc(size);
}
void* calloc(size_t count, size_t size) noexcept {
  return fails(true, "calloc", ENOMEM) ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* data, size_t size) noexcept {
  return fails(true, "realloc", ENOMEM) ? nullptr : __libc_realloc(data, size);
}
void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return fails(true, "aligned_alloc", ENOMEM) ? nullptr : __libc_memalign(alignment, size);
}
int posix_memalign(void** data, size_t alignment, size_t size) noexcept {
  const bool counts = !in_onednn(__builtin_return_address(0));
  if (counts && fails(true, "posix_memalign", ENOMEM)) return ENOMEM;
  *data = __libc_memalign(alignment, size);
  return *data == nullptr ? ENOMEM : 0;
}

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if (fails(false, "open", EMFILE)) return -1;
  static const auto real = next<int(const char*, int, ...)>("open");
  return real(path, flags, mode);
}
int open64(const char* path, int flags, ...) __attribute__((alias("open")));
FILE* fopen(const char* path, const char* mode) {
  if (fails(false, "fopen", EMFILE)) return nullptr;
  static const auto real = next<FILE*(const char*, const char*)>("fopen");
  return real(path, mode);
}
FILE* fopen64(const char* path, const char* mode) __attribute__((alias("fopen")));
int close(int file) {
  static const auto real = next<int(int)>("close");
  if (!fails(false, "close", EIO)) return real(file);
  (void)real(file);  // as Linux does
  errno = EIO;
  return -1;
}
ssize_t read(int file, void* data, size_t size) {
  if (fails(false, "read", EIO)) return -1;
  static const auto real = next<ssize_t(int, void*, size_t)>("read");
  return real(file, data, size);
}
ssize_t write(int file, const void* data, size_t size) {
  if (fails(false, "write", ENOSPC)) return -1;
  static const auto real = next<ssize_t(int, const void*, size_t)>("write");
  return real(file, data, size);
}
int fsync(int file) {
  if (fails(false, "fsync", EIO)) return -1;
  static const auto real = next<int(int)>("fsync");
  return real(file);
}
int ftruncate(int file, off_t size) noexcept {
  if (fails(false, "ftruncate", EIO)) return -1;
  static const auto real = next<int(int, off_t)>("ftruncate");
  return real(file, size);
}
int fstat(int file, struct stat* status) noexcept {
  if (fails(false, "fstat", EIO)) return -1;
  static const auto real = next<int(int, struct stat*)>("fstat");
  return real(file, status);
}
// The function of the C library has the name of a struct as well.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
int flock(int file, int operation) noexcept {
  if (fails(false, "flock", ENOLCK)) return -1;
  static const auto real = next<int(int, int)>("flock");
  return real(file, operation);
}
#pragma GCC diagnostic pop
int rename(const char* from, const char* to) noexcept {
  if (fails(false, "rename", EIO)) return -1;
  static const auto real = next<int(const char*, const char*)>("rename");
  return real(from, to);
}
int mkdir(const char* path, mode_t mode) noexcept {
  if (fails(false, "mkdir", ENOSPC)) return -1;
  static const auto real = next<int(const char*, mode_t)>("mkdir");
  return real(path, mode);
}
void* mmap(void* address, size_t size, int protection, int flags, int file,
           off_t offset) noexcept {
  const bool counts = !in_onednn(__builtin_return_address(0));
  if (counts && fails(false, "mmap", ENOMEM)) return reinterpret_cast<void*>(-1);
  static const auto real = next<void*(void*, size_t, int, int, int, off_t)>("mmap");
  return real(address, size, protection, flags, file, offset);
}

}  // extern "C"
