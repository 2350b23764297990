#include "qtape/distributed/mpi.h"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "qtape/core/error.h"

namespace qtape::distributed {
namespace {

// Messages of MPI count bytes by int.
constexpr int64_t max_bytes = int64_t{1} << 30;

}  // namespace

struct Mpi::Requests {
  std::vector<MPI_Request> all;
};

Mpi::Mpi() : requests_(std::make_unique<Requests>()) {
  int initialised = 0;
  MPI_Initialized(&initialised);
  require<Error>(initialised == 0, "MPI is already in use in this process");
  int provided = 0;  // only the thread that constructs this object calls MPI
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  require<Error>(provided >= MPI_THREAD_FUNNELED, "this MPI does not support threads");
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
}

Mpi::~Mpi() { MPI_Finalize(); }

/// Each rank sends to all others. Large blocks travel in pieces, in the same order everywhere.
void Mpi::gather(std::span<const std::byte> own, std::span<const int64_t> bytes,
                 std::byte* all) {
  std::vector<MPI_Request>& requests = requests_->all;
  requests.clear();
  int64_t begin = 0;
  for (int other = 0; other < ranks_; ++other) {
    const int64_t size = bytes[static_cast<size_t>(other)];
    if (other == rank_) {
      std::memcpy(all + begin, own.data(), static_cast<size_t>(size));
    } else {
      for (int64_t i = 0; i < size; i += max_bytes) {
        MPI_Irecv(all + begin + i, static_cast<int>(std::min(max_bytes, size - i)), MPI_BYTE,
                  other, 0, MPI_COMM_WORLD, &requests.emplace_back());
      }
      const auto length = static_cast<int64_t>(own.size());
      for (int64_t i = 0; i < length; i += max_bytes) {
        MPI_Isend(own.data() + i, static_cast<int>(std::min(max_bytes, length - i)), MPI_BYTE,
                  other, 0, MPI_COMM_WORLD, &requests.emplace_back());
      }
    }
    begin += size;
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
}

bool Mpi::meet(double seconds) const {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int met = 0;
  while (met == 0 && std::chrono::steady_clock::now() < end) {
    MPI_Test(&request, &met, MPI_STATUS_IGNORE);
    if (met == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return met != 0;
}

void Mpi::abort(int code) const {
  MPI_Abort(MPI_COMM_WORLD, code);
  std::abort();
}

}  // namespace qtape::distributed
