// MPI: connects the processes that mpirun started.
#pragma once

#include <memory>

#include "qtape/ops/core/shards.h"

/// Training on several processes and machines.
namespace qtape::distributed {

/// Exchange between the processes that mpirun started. Only one may exist in a process, and
/// only once; it must be destroyed by the thread that created it.
class Mpi : public Exchange {
 public:
  /// Initialises MPI. Throws Error if another part of the program did.
  Mpi();
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;
  /// Finalizes MPI, which waits for all other ranks.
  ~Mpi() override;

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  void gather(std::span<const std::byte> own, std::span<const int64_t> bytes,
              std::byte* all) override;
  /// True if all ranks call this within `seconds`.
  bool meet(double seconds) const;
  /// Terminates all ranks immediately because of an error on this one.
  [[noreturn]] void abort(int code) const;

 private:
  struct Requests;
  int rank_ = 0;
  int ranks_ = 1;
  std::unique_ptr<Requests> requests_;  // memory for those of one gather
};

}  // namespace qtape::distributed
