// Limits that the environment and the control groups set for this process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace qtape {

/// Parses the first number of OMP_NUM_THREADS, as in "4" and "4,2". Returns nullopt if
/// `setting` is null or its first item is not an integer >= 1.
std::optional<int> threads_asked(const char* setting);

/// CPU time per second of wall time that the control groups (version 1 or 2) grant this
/// process, in seconds. Returns nullopt if no group sets a quota. `root` is prepended to every
/// path; only tests pass a non-empty one.
std::optional<double> cpu_quota(const std::string& root);

/// Bytes of memory that the control groups (version 1 or 2) allow this process, shared with the
/// other processes of the group. Returns nullopt if no group sets a limit. `root` as above.
std::optional<int64_t> memory_limit(const std::string& root);

/// Bytes that the address space of this process (`ulimit -v`) may still grow by. Returns
/// nullopt if it has no limit.
std::optional<int64_t> address_space_left();

}  // namespace qtape
