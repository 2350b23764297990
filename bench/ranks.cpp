// The exchange of gradients between ranks: messages, the sum over shards in its fixed order,
// and MPI_Allreduce, which has no fixed order. Run with mpirun.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include "qtape/core/aligned.h"
#include "qtape/core/median.h"
#include "qtape/distributed/mpi.h"
#include "qtape/ops/families/shard_sums.h"

using namespace qtape;

namespace {

constexpr int64_t shards = 8;

/// Median time of a call in microseconds, after all ranks have met.
double time_of(const std::function<void()>& body, int64_t bytes) {
  const int rounds = bytes > (int64_t{1} << 22) ? 20 : 200;
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double, std::micro> time =
        std::chrono::steady_clock::now() - start;
    times.push_back(time.count());
  }
  return median(times);
}

}  // namespace

int main() {
  distributed::Mpi mpi;
  const Shards division = Shards::of(shards, mpi);
  if (mpi.rank() == 0) {
    fmt::print("{} ranks, {} shards; us\n", mpi.ranks(), shards);
    fmt::print("{:>10} {:>10} {:>10} {:>10}\n", "bytes", "gather", "fixed sum", "allreduce");
  }
  for (const int64_t elements : {1, 1024, 16384, 65536, 262144, 4194304}) {
    const TensorType type{DType::F32, {elements}};
    const int64_t bytes = type.bytes();
    AlignedBuffer own(bytes);
    AlignedBuffer all(bytes * mpi.ranks());
    const std::vector<int64_t> sizes(static_cast<size_t>(mpi.ranks()), bytes);
    const double gather = time_of(
        [&] {
          mpi.gather({own.data(), static_cast<size_t>(bytes)}, sizes, all.data());
        },
        bytes);
    AlignedBuffer memory(ShardSums::bytes(division, type));
    const ShardSums sums(division, type, memory.data(), 1);
    const double fixed = time_of([&] { sums.finish(own.data(), false, 1); }, bytes);
    const double reduce = time_of(
        [&] {
          MPI_Allreduce(MPI_IN_PLACE, own.data(), static_cast<int>(elements), MPI_FLOAT,
                        MPI_SUM, MPI_COMM_WORLD);
        },
        bytes);
    if (mpi.rank() == 0) {
      fmt::print("{:>10} {:>10.1f} {:>10.1f} {:>10.1f}\n", bytes, gather, fixed, reduce);
    }
  }
}
