#include "qtape/programs/launch.h"

#include <fmt/format.h>

#include <cstdio>

#include "qtape/core/error.h"
#include "qtape/core/launcher.h"
#include "qtape/programs/console/program.h"
#if QTAPE_HAS_MPI
#include "qtape/distributed/mpi.h"
#endif

namespace qtape::programs {

namespace {

void silence(std::FILE* stream) {
  if (std::freopen("/dev/null", "w", stream) == nullptr) fail<IoError>("cannot open /dev/null");
}

}  // namespace

#if QTAPE_HAS_MPI

namespace {

// Time within which the other ranks report an error of all of them.
constexpr double seconds_to_agree = 3;

}  // namespace

struct Launch::Connection {
  distributed::Mpi mpi;
};

Launch::Launch(std::string program) : program_(std::move(program)) {
  if (!started_by_launcher()) return;
  connection_ = std::make_unique<Connection>();
  if (!leads(exchange())) silence(stdout);
}

Exchange* Launch::exchange() const {
  return connection_ == nullptr ? nullptr : &connection_->mpi;
}

void Launch::run(const std::function<void()>& body) {
  if (ranks() == 1) return body();
  try {
    body();
  } catch (const std::exception& error) {
    const distributed::Mpi& mpi = connection_->mpi;
    if (!mpi.meet(seconds_to_agree)) {
      const std::string name = fmt::format("{}: rank {}", program_, mpi.rank());
      mpi.abort(console::report_failure(name.c_str(), error));
    }
    // mpirun ends all processes when the first one exits with an error.
    if (leads(exchange())) console::report_failure(program_.c_str(), error);
    silence(stderr);
    (void)mpi.meet(seconds_to_agree);
    throw;
  }
}

#else

struct Launch::Connection {};

Launch::Launch(std::string program) : program_(std::move(program)) {
  const long size = launched_processes().value_or(1);
  if (size > 1 && launched_rank() != 0) silence(stderr);
  require<Error>(size == 1,
                 "started by mpirun as one of {} processes, but built without MPI; install "
                 "libopenmpi-dev and build again",
                 size);
}

Exchange* Launch::exchange() const { return nullptr; }

void Launch::run(const std::function<void()>& body) { body(); }

#endif

Launch::~Launch() = default;

int Launch::ranks() const { return exchange() == nullptr ? 1 : exchange()->ranks(); }

}  // namespace qtape::programs
