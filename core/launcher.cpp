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
  const char* size;    // variable with the number of processes; null if there is none
  const char* rank;
};

constexpr std::array<Launcher, 3> launchers = {{
    {"OMPI_", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},  // OpenMPI
    {"PMI_", "PMI_SIZE", "PMI_RANK"},                           // MPICH and Intel MPI
    {"PMIX_", nullptr, "PMIX_RANK"},                            // srun --mpi=pmix
}};
// Also set for processes that srun starts without MPI.
constexpr const char* slurm_rank = "SLURM_PROCID";

std::optional<long> variable(const char* name) {
  const char* text = name == nullptr ? nullptr : std::getenv(name);
  if (text == nullptr) return std::nullopt;
  return std::strtol(text, nullptr, 10);
}

}  // namespace

bool started_by_launcher() {
  for (const Launcher& each : launchers) {
    if (variable(each.rank) || variable(each.size)) return true;
  }
  return false;
}

std::optional<long> launched_processes() {
  for (const Launcher& each : launchers) {
    if (const auto size = variable(each.size)) return size;
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
