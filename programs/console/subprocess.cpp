#include "qtape/programs/console/subprocess.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <sstream>
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

/// A program that runs. Destroying it kills the program and those that it started.
class Child {
 public:
  /// `index`: of its command.
  Child(const std::vector<std::string>& arguments, size_t index)
      : name_(arguments[0]), index_(index) {
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, pipe_.ends[1], 1);
    ::posix_spawn_file_actions_adddup2(&actions, pipe_.ends[1], 2);
    std::vector<char*> pointers;
    for (const std::string& each : arguments) {
      pointers.push_back(const_cast<char*>(each.c_str()));
    }
    pointers.push_back(nullptr);
    // A separate process group, so that signals also reach the processes that it starts.
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    pid_t id = 0;
    const int refused =
        ::posix_spawnp(&id, pointers[0], &actions, &attributes, pointers.data(), environ);
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
    require<Error>(refused == 0, "cannot run {}: {}", name_, std::strerror(refused));
    id_ = id;
    pipe_.close_write();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    kill(SIGKILL);
    (void)reap(0);
  }

  const std::string& name() const { return name_; }
  size_t index() const { return index_; }
  /// True once its output can no longer grow; it may still run.
  bool is_silent() const { return silent_; }
  pollfd waiting() const { return {silent_ ? -1 : pipe_.ends[0], POLLIN, 0}; }

  /// Reads what it has written. True if nothing more can follow and it has ended.
  bool has_ended() {
    if (!silent_) read();
    return silent_ && reap(WNOHANG);
  }
  void kill(int signal) {
    if (id_ != 0) ::kill(-id_, signal);
  }
  void add_output(std::string_view text) { result_.output += text; }
  /// Waits for its end.
  Finished finish() {
    (void)reap(0);
    return std::move(result_);
  }

 private:
  void read() {
    pollfd now = waiting();
    if (::poll(&now, 1, 0) == 0) return;
    std::array<char, 4096> part{};
    const ssize_t got = ::read(now.fd, part.data(), part.size());
    if (got < 0 && errno == EINTR) return;
    silent_ = got <= 0;
    if (!silent_) result_.output.append(part.data(), static_cast<size_t>(got));
  }

  /// Takes its exit status by waitpid with `options`. Returns false if it still runs.
  bool reap(int options) {
    if (id_ == 0) return true;
    int status = 0;
    pid_t reaped = 0;
    do {
      reaped = ::waitpid(id_, &status, options);
    } while (reaped < 0 && errno == EINTR);
    if (reaped == 0) return false;
    id_ = 0;
    result_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return true;
  }

  std::string name_;
  size_t index_;
  Pipe pipe_;
  pid_t id_ = 0;  // 0 once it has ended
  bool silent_ = false;
  Finished result_;
};

using Children = std::vector<std::unique_ptr<Child>>;
using Clock = std::chrono::steady_clock;

/// Waits for output or the end of a child, for a signal or for the deadline.
void wait_for(const Children& children, const std::optional<Clock::time_point>& deadline,
              const console::Interruption& interruption) {
  // A signal that arrives just before poll, or in another thread, does not interrupt it.
  constexpr int milliseconds = 50;
  std::vector<pollfd> waiting;
  for (const auto& each : children) waiting.push_back(each->waiting());
  // The end of a child without output can only be asked for.
  const bool asks =
      std::ranges::any_of(children, [](const auto& each) { return each->is_silent(); });
  for (;;) {
    if (interruption.signal() != 0 || (deadline && Clock::now() >= *deadline)) return;
    const int ready = ::poll(waiting.data(), waiting.size(), asks ? 1 : milliseconds);
    if (asks || ready > 0 || (ready < 0 && errno != EINTR)) return;
  }
}

/// Throws Interrupted after a signal, once all children, to which it is forwarded, have ended.
/// `name`: the program that runs, or ran last.
void forward_signal(const console::Interruption& interruption, Children& children,
                    const std::string& name) {
  const int signal = interruption.signal();
  if (signal == 0) return;
  for (const auto& each : children) each->kill(signal);
  for (const auto& each : children) (void)each->finish();
  throw console::Interrupted(
      signal, fmt::format("{} while {} ran", console::signal_name(signal), name));
}

/// Runs `commands`, up to `at_once` at a time; `seconds` is the limit of all.
std::vector<Finished> run_all(std::span<const std::vector<std::string>> commands,
                              size_t at_once, int seconds, const FinishedFunction& finished) {
  std::vector<Finished> all(commands.size());
  // Temporary files are removed by destructors, so a signal must end the other programs first.
  const console::Interruption interruption;
  Children children;
  std::optional<Clock::time_point> deadline;
  if (seconds > 0) deadline = Clock::now() + std::chrono::seconds(seconds);
  for (size_t next = 0; next < commands.size() || !children.empty();) {
    for (; next < commands.size() && children.size() < at_once; ++next) {
      children.push_back(std::make_unique<Child>(commands[next], next));
    }
    wait_for(children, deadline, interruption);
    forward_signal(interruption, children, children[0]->name());
    const bool over = deadline && Clock::now() >= *deadline;
    for (auto& each : children) {
      if (over) {
        each->kill(SIGKILL);
        each->add_output(
            fmt::format("{} was still running after {} s\n", each->name(), seconds));
      } else if (!each->has_ended()) {
        continue;
      }
      const size_t index = each->index();
      all[index] = each->finish();
      each.reset();
      if (finished) finished(index, all[index]);
    }
    std::erase(children, nullptr);
  }
  if (!commands.empty()) forward_signal(interruption, children, commands.back()[0]);
  return all;
}

}  // namespace

Finished run_program(const std::vector<std::string>& arguments, int seconds) {
  return std::move(run_all(std::span(&arguments, 1), 1, seconds, {})[0]);
}

std::vector<Finished> run_programs(std::span<const std::vector<std::string>> commands,
                                   int at_once, const FinishedFunction& finished) {
  require<ArgumentError>(at_once >= 1, "programs at once: expected at least 1, got {}",
                         at_once);
  return run_all(commands, static_cast<size_t>(at_once), 0, finished);
}

std::vector<std::string> compiler_of_environment(const char* command, const char* flags,
                                                 const std::string& otherwise) {
  const auto words = [](const char* name) {
    const char* text = std::getenv(name);
    std::istringstream rest(text == nullptr ? "" : text);
    return std::vector<std::string>(std::istream_iterator<std::string>(rest), {});
  };
  std::vector<std::string> arguments = words(command);
  if (arguments.empty()) arguments = {otherwise};
  std::vector<std::string> more = words(flags);
  if (more.empty()) more = {"-O2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
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
  // It allocates, and a destructor may not throw: memory may have been short for a moment only.
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      std::filesystem::remove_all(path_, ignored);
      return;
    } catch (const std::bad_alloc&) {
    }
  }
}

std::string TemporaryFolder::file(std::string_view name) const {
  return fmt::format("{}/{}", path_, name);
}

}  // namespace qtape
