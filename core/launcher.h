// Environment of processes that mpirun or srun started.
#pragma once

#include <optional>

namespace qtape {

/// True if mpirun of OpenMPI, MPICH or Intel MPI, or srun with PMIx, started this process.
bool started_by_launcher();

/// Number of processes that were started together, if the launcher states it.
std::optional<long> launched_processes();

/// Rank of this process among them; 0 if no launcher states one.
long launched_rank();

/// Removes the launcher's variables, so that child processes are not taken for ranks.
void leave_launcher();

}  // namespace qtape
