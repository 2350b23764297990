#include "qtape/core/process_limits.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "qtape/core/aligned.h"
#include "qtape/core/error.h"
#include "qtape/core/out_of_memory.h"
#include "qtape/core/thread_count.h"
#include "qtape/io/files.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"
#include "qtape/tests/support/sanitized.h"
#include "qtape/tests/support/skip.h"

using namespace qtape;

namespace {

using Files = std::map<std::string, std::string>;

/// Returns `limit` of a file system with these files.
template <class T>
T in(const Files& files, T (*limit)(const std::string&)) {
  const test::Folder folder;
  for (const auto& [path, content] : files) {
    const std::string whole = folder.path() + path;
    std::filesystem::create_directories(std::filesystem::path(whole).parent_path());
    write_file(whole, content);
  }
  return limit(folder.path());
}

std::optional<double> quota(const Files& files) { return in(files, cpu_quota); }
std::optional<int64_t> memory(const Files& files) { return in(files, memory_limit); }

}  // namespace

TEST_CASE("threads: OMP_NUM_THREADS is its first number, and nothing where it is none") {
  CHECK(threads_asked("3") == 3);
  CHECK(threads_asked(" 4,2") == 4);
  CHECK(threads_asked("1024") == 1024);
  for (const char* text : {"", "0", "-2", "two", "4x", "99999999999"}) {
    CAPTURE(text);
    CHECK(threads_asked(text) == std::nullopt);
  }
  CHECK(threads_asked(nullptr) == std::nullopt);
  CHECK(default_threads() >= 1);
  CHECK(default_threads() <= 1024);
}

TEST_CASE("threads: quotas of control groups, version 2") {
  const std::string self = "/proc/self/cgroup";
  CHECK(quota({{self, "0::/a/b\n"}, {"/sys/fs/cgroup/a/b/cpu.max", "150000 100000\n"}}) == 1.5);
  // The parent group has a smaller quota.
  CHECK(quota({{self, "0::/a/b\n"},
               {"/sys/fs/cgroup/a/b/cpu.max", "400000 100000\n"},
               {"/sys/fs/cgroup/a/cpu.max", "50000 100000\n"}}) == 0.5);
  CHECK(quota({{self, "0::/a\n"}, {"/sys/fs/cgroup/a/cpu.max", "max 100000\n"}}) ==
        std::nullopt);
  // A container that sees its own group as the root.
  CHECK(quota({{self, "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "200000 100000\n"}}) == 2);
  CHECK(quota({{self, "0::/../other\n"}, {"/sys/fs/cgroup/cpu.max", "200000 100000\n"}}) == 2);
}

TEST_CASE("threads: quotas of control groups, version 1") {
  const std::string self = "/proc/self/cgroup";
  const std::string groups = "4:memory:/a\n3:cpu,cpuacct:/a\n2:cpuset:/a\n";
  const auto files = [&](const std::string& folder, const std::string& microseconds) {
    return Files{{self, groups},
                 {"/sys/fs/cgroup/" + folder + "/cpu.cfs_quota_us", microseconds + "\n"},
                 {"/sys/fs/cgroup/" + folder + "/cpu.cfs_period_us", "50000\n"}};
  };
  CHECK(quota(files("cpu,cpuacct/a", "150000")) == 3);
  CHECK(quota(files("cpu/a", "25000")) == 0.5);
  // The path is that of the host; the mounted group is that of the container.
  CHECK(quota(files("cpu", "100000")) == 2);
  CHECK(quota(files("cpu/a", "-1")) == std::nullopt);
  CHECK(quota(files("memory/a", "100000")) == std::nullopt);
}

TEST_CASE("threads: no control groups, no quota") {
  CHECK(quota({}) == std::nullopt);
  CHECK(quota({{"/proc/self/cgroup", "nonsense\n:\n"}}) == std::nullopt);
  CHECK(quota({{"/proc/self/cgroup", "0::/a\n"}, {"/sys/fs/cgroup/a/cpu.max", "many\n"}}) ==
        std::nullopt);
}

TEST_CASE("memory: limits of control groups") {
  const std::string self = "/proc/self/cgroup";
  CHECK(memory({{self, "0::/a/b\n"},
                {"/sys/fs/cgroup/a/b/memory.max", "max\n"},
                {"/sys/fs/cgroup/a/memory.max", "104857600\n"}}) == 104857600);
  CHECK(memory({{self, "0::/a\n"}, {"/sys/fs/cgroup/a/memory.max", "max\n"}}) == std::nullopt);
  CHECK(memory({{self, "4:memory:/a\n3:cpu:/b\n"},
                {"/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "4096\n"},
                {"/sys/fs/cgroup/cpu/b/memory.limit_in_bytes", "1\n"}}) == 4096);
  CHECK(memory({}) == std::nullopt);
}

TEST_CASE("memory: blocks count while they live, and all together have one limit") {
  const int64_t before = AlignedBuffer::in_use();
  {
    AlignedBuffer held(1 << 20);
    CHECK(AlignedBuffer::in_use() == before + (1 << 20));
    AlignedBuffer moved = std::move(held);
    CHECK(AlignedBuffer::in_use() == before + (1 << 20));
    const int64_t machine = int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
    const int64_t least = std::min(machine, memory_limit("").value_or(machine));
    const int64_t bytes = (least - before - (1 << 20)) / alignment * alignment + alignment;
    CHECK(test::error_text<Error>([&] { AlignedBuffer too_large(bytes); })
              .starts_with(fmt::format("cannot allocate {} bytes in addition to {} in use: ",
                                       bytes, before + (1 << 20))));
    moved = AlignedBuffer();
    CHECK(AlignedBuffer::in_use() == before);
  }
  CHECK(AlignedBuffer::in_use() == before);
}

TEST_CASE(
    "memory: a task that the address space has no room for is refused with both numbers") {
  if (QTAPE_TEST_SANITIZED != 0)
    return test::skip("sanitizers take the address space themselves");
  if (test::emulated()) return test::skip("the emulator does not limit the address space");
  CHECK_NOTHROW(require_address_space("writing m.json", int64_t{1} << 50));
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{.rlim_cur = rlim_t{1} << 36, .rlim_max = RLIM_INFINITY};
    bool right = ::setrlimit(RLIMIT_AS, &limit) == 0;
    require_address_space("writing m.json", 1 << 20);
    const std::string text = test::error_text<Error>(
        [] { require_address_space("writing m.json", int64_t{1} << 37); });
    right = right && text.starts_with(
                         "writing m.json may take 137438953472 bytes of memory, "
                         "and the limit of the address space (ulimit -v) leaves ");
    right = right && std::string(OutOfMemory("reading", "m.json", 7).what()) ==
                         "out of memory while reading m.json: cannot allocate 7 bytes; the "
                         "address space is limited to 68719476736 bytes (ulimit -v)";
    ::_exit(right ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
}
