#include "qtape/core/launcher.h"

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

extern char** environ;

namespace qtape {
namespace {

struct Launcher {
  const char* prefix;  // of all its variables
  const char* size;    // number of processes
  const char* rank;    // set in every process that it starts
};

constexpr std::array<Launcher, 3> launchers = {{
    {"OMPI_", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},  // OpenMPI
    {"PMI_", "PMI_SIZE", "PMI_RANK"},                           // MPICH and Intel MPI
    {"PMIX_", "SLURM_STEP_NUM_TASKS", "PMIX_RANK"},             // srun --mpi=pmix
}};
// Also set for processes that srun starts without MPI.
constexpr const char* slurm_rank = "SLURM_PROCID";

std::optional<long> variable(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  return std::strtol(text, nullptr, 10);
}

}  // namespace

bool started_by_launcher() {
  for (const Launcher& each : launchers) {
    if (variable(each.rank)) return true;
  }
  return false;
}

std::optional<long> launched_processes() {
  for (const Launcher& each : launchers) {
    if (variable(each.rank)) return variable(each.size);
  }
  return std::nullopt;
}

long launched_rank() {
  for (const Launcher& each : launchers) {
    if (const auto rank = variable(each.rank)) return *rank;
  }
  return variable(slurm_rank).value_or(0);
}

void leave_launcher() {
  std::vector<std::string> names;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view text = *each;
    for (const Launcher& launcher : launchers) {
      if (text.starts_with(launcher.prefix)) names.emplace_back(text.substr(0, text.find('=')));
    }
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

}  // namespace qtape
