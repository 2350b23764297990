// Limits that the environment and the control groups set for this process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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

/// Bytes, in addition to those of its arrays, that oneDNN may take for code and buffers while
/// it binds the kernels of a graph. It can crash where its own allocations fail.
inline constexpr int64_t binding_bytes = int64_t{64} << 20;

/// Limit of the address space of this process in bytes (`ulimit -v`); nullopt if there is none.
std::optional<int64_t> address_space_limit();

/// Throws Error, with both numbers, unless the address space may still grow by `bytes`. The
/// error starts with `task`, a verb in -ing.
void require_address_space(std::string_view task, int64_t bytes);

}  // namespace qtape
