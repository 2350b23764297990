#include "qtape/programs/console/subprocess.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "qtape/core/error.h"
#include "qtape/programs/console/interruption.h"

extern char** environ;

namespace qtape {
namespace {

/// The two ends of a pipe, closed by the destructor.
struct Pipe {
  std::array<int, 2> ends{-1, -1};

  Pipe() {
    require<Error>(::pipe2(ends.data(), O_CLOEXEC) == 0, "cannot create a pipe: {}",
                   std::strerror(errno));
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    for (int end : ends) {
      if (end >= 0) ::close(end);
    }
  }
  void close_write() {
    ::close(ends[1]);
    ends[1] = -1;
  }
};

enum class Event { Output, Signal, TimeOver };

/// Waits for the first of these events.
Event wait_for(int end, std::optional<std::chrono::steady_clock::time_point> deadline,
               const console::Interruption& interruption) {
  // A signal that arrives just before poll, or in another thread, does not interrupt it.
  constexpr int milliseconds = 50;
  for (;;) {
    if (interruption.signal() != 0) return Event::Signal;
    if (deadline && std::chrono::steady_clock::now() >= *deadline) return Event::TimeOver;
    pollfd waiting{end, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, milliseconds);
    if (ready > 0 || (ready < 0 && errno != EINTR)) return Event::Output;
  }
}

}  // namespace

Finished run_program(const std::vector<std::string>& arguments, int seconds) {
  Pipe pipe;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, pipe.ends[1], 1);
  ::posix_spawn_file_actions_adddup2(&actions, pipe.ends[1], 2);
  std::vector<char*> pointers;
  for (const std::string& each : arguments) pointers.push_back(const_cast<char*>(each.c_str()));
  pointers.push_back(nullptr);
  pid_t child = 0;
  // Temporary files are removed by destructors, so a signal must end the other program first.
  const console::Interruption interruption;
  // A separate process group, so that signals also reach the processes that the program starts.
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const int refused =
      ::posix_spawnp(&child, pointers[0], &actions, &attributes, pointers.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  require<Error>(refused == 0, "cannot run {}: {}", arguments[0], std::strerror(refused));
  pipe.close_write();
  Finished result;
  std::array<char, 4096> part{};
  std::optional<std::chrono::steady_clock::time_point> deadline;
  if (seconds > 0) deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (;;) {
    const Event event = wait_for(pipe.ends[0], deadline, interruption);
    if (event == Event::TimeOver) {
      ::kill(-child, SIGKILL);
      result.output += fmt::format("{} was still running after {} s\n", arguments[0], seconds);
      break;
    }
    if (event == Event::Signal) {
      ::kill(-child, interruption.signal());
      break;
    }
    const ssize_t got = ::read(pipe.ends[0], part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    result.output.append(part.data(), static_cast<size_t>(got));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (const int signal = interruption.signal(); signal != 0) {
    throw console::Interrupted(
        signal, fmt::format("{} while {} ran", console::signal_name(signal), arguments[0]));
  }
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

void require_success(const std::string& program, const Finished& finished) {
  require<Error>(finished.exit_code == 0, "{} ended with {}: {}", program, finished.exit_code,
                 finished.output.substr(0, 4000));
}

bool has_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return ::access(name.c_str(), X_OK) == 0;
  const char* path = std::getenv("PATH");
  std::string rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const std::string folder = end == 0 ? "." : rest.substr(0, end);
    if (::access((folder + "/" + name).c_str(), X_OK) == 0) return true;
    rest.erase(0, end + 1);
  }
  return false;
}

TemporaryFolder::TemporaryFolder() {
  std::error_code failed;
  const std::filesystem::path parent = std::filesystem::temp_directory_path(failed);
  require<IoError>(!failed, "TMPDIR: no folder for temporary files: {}", failed.message());
  path_ = (parent / "qtape-XXXXXX").string();
  require<IoError>(::mkdtemp(path_.data()) != nullptr, "{}: cannot create a folder: {}", path_,
                   std::strerror(errno));
}

TemporaryFolder::~TemporaryFolder() { remove(); }

void TemporaryFolder::remove() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::file(std::string_view name) const {
  return fmt::format("{}/{}", path_, name);
}

}  // namespace qtape
