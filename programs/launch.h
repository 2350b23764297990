// Launch: the processes that mpirun started to run one program.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "qtape/ops/core/shards.h"

namespace qtape::programs {

/// Help of --shards.
inline constexpr std::string_view shards_help =
    "parts of a batch, whose sums are added in a fixed order, so that the number of processes, "
    "at most this, does not affect results; by default that of the checkpoint, otherwise 1, or "
    "with mpirun the largest divisor of the batch up to 8 (at least 2 samples in each)";

/// True for the process that writes the files of a run: the first one, or the only one.
inline bool leads(const Exchange* exchange) {
  return exchange == nullptr || exchange->rank() == 0;
}

/// The connection of this process to the others, if mpirun started it.
class Launch {
 public:
  /// Connects the processes; all but the first one no longer write to standard output. Throws
  /// Error if mpirun started this process but the program was built without MPI.
  explicit Launch(std::string program);
  ~Launch();

  /// Null if this process runs alone.
  Exchange* exchange() const;
  int ranks() const;

  /// Calls `body` in each process. An exception that all of them throw is rethrown, and printed
  /// only by the first one; one that others do not throw within 3 seconds is printed with
  /// the rank and ends all processes.
  void run(const std::function<void()>& body);

 private:
  struct Connection;
  std::string program_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace qtape::programs
