#include "qtape/core/process_limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <sstream>

#include "qtape/core/error.h"

namespace qtape {
namespace {

template <class T>
std::optional<T> smaller(std::optional<T> a, std::optional<T> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

/// Quota per period, both in microseconds; nullopt if there is no quota ("max" or -1).
std::optional<double> ratio(const std::string& quota, const std::string& period) {
  const auto number = [](const std::string& text) {
    int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return static_cast<double>(value);
  };
  if (number(quota) <= 0 || number(period) <= 0) return std::nullopt;
  return number(quota) / number(period);
}

std::string word(const std::string& path) {
  std::string text;
  std::ifstream(path) >> text;
  return text;
}

/// Quota set by one cgroup directory, of version 1 or 2.
std::optional<double> quota_of(const std::string& folder) {
  std::string quota;
  std::string period;
  if (std::ifstream(folder + "/cpu.max") >> quota >> period) return ratio(quota, period);
  return ratio(word(folder + "/cpu.cfs_quota_us"), word(folder + "/cpu.cfs_period_us"));
}

/// Limit of memory set by one cgroup directory, of version 1 or 2; nullopt for "max".
std::optional<int64_t> memory_of(const std::string& folder) {
  int64_t bytes = 0;
  for (const char* name : {"/memory.max", "/memory.limit_in_bytes"}) {
    if (std::ifstream(folder + name) >> bytes && bytes > 0) return bytes;
  }
  return std::nullopt;
}

/// Smallest limit of a group and its ancestors. In a container, /proc may name the group by its
/// path on the host, which does not exist here; the group itself is then the mount point.
template <class T>
std::optional<T> limit_along(const std::string& mount, std::string group,
                             std::optional<T> (*limit_of)(const std::string&)) {
  if (group.find("..") != std::string::npos) group.clear();
  std::optional<T> found = limit_of(mount);
  while (group.size() > 1) {
    found = smaller(found, limit_of(mount + group));
    group.resize(std::min(group.rfind('/'), group.size() - 1));
  }
  return found;
}

bool contains(const std::string& controllers, const std::string& controller) {
  std::stringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == controller) return true;
  }
  return false;
}

/// Smallest limit of all groups of this process that have the controller.
template <class T>
std::optional<T> smallest_limit(const std::string& root, const std::string& controller,
                                std::optional<T> (*limit_of)(const std::string&)) {
  const std::string groups = root + "/sys/fs/cgroup";
  std::optional<T> found;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // hierarchy:controllers:group
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) found = smaller(found, limit_along(groups, group, limit_of));
    if (!contains(controllers, controller)) continue;
    for (const std::string& folder : {controllers, controller}) {
      found = smaller(found, limit_along(groups + "/" + folder, group, limit_of));
    }
  }
  return found;
}

}  // namespace

std::optional<int> threads_asked(const char* setting) {
  if (setting == nullptr) return std::nullopt;
  std::string text = setting;
  text.erase(0, text.find_first_not_of(" \t"));
  int threads = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, threads);
  const bool whole = rest == end || *rest == ',' || *rest == ' ';
  if (error != std::errc{} || !whole || threads < 1) return std::nullopt;
  return threads;
}

std::optional<double> cpu_quota(const std::string& root) {
  return smallest_limit(root, "cpu", quota_of);
}

std::optional<int64_t> address_space_limit() {
  rlimit limit{};
  const bool none = ::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY;
  if (none) return std::nullopt;
  return static_cast<int64_t>(limit.rlim_cur);
}

void require_address_space(std::string_view task, int64_t bytes) {
  const std::optional<int64_t> limit = address_space_limit();
  if (!limit) return;
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const int64_t left = *limit - pages * ::sysconf(_SC_PAGESIZE);
  require<Error>(bytes <= left,
                 "{} may take {} bytes of memory, and the limit of the address space "
                 "(ulimit -v) leaves {}",
                 task, bytes, left);
}

std::optional<int64_t> memory_limit(const std::string& root) {
  return smallest_limit(root, "memory", memory_of);
}

}  // namespace qtape
