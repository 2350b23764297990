#include "qtape/core/process_limits.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <optional>

#include "qtape/core/thread_count.h"
#include "qtape/io/files.h"
#include "qtape/tests/support/folder.h"

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
