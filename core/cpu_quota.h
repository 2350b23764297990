// How many processors a process may use, by its environment and its control groups.
#pragma once

#include <optional>
#include <string>

namespace qtape {

/// The first number of OMP_NUM_THREADS, as in "4" and "4,2"; nothing for a null pointer and
/// where it is no number from 1.
std::optional<int> threads_asked(const char* setting);

/// Seconds of processor time per second that the control groups of this process, version 1 or
/// 2, leave it; nothing where none of them has a quota. `root` goes before every path: empty
/// but for tests.
std::optional<double> cpu_quota(const std::string& root);

}  // namespace qtape
