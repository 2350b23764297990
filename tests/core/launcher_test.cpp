// Processes that launchers start, by their environment.
#include "qtape/core/launcher.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

using namespace qtape;

namespace {

/// Environment variables, which are removed at the end.
class Variables {
 public:
  explicit Variables(std::vector<std::pair<std::string, std::string>> values)
      : values_(std::move(values)) {
    for (const auto& [name, value] : values_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;
  ~Variables() {
    for (const auto& each : values_) ::unsetenv(each.first.c_str());
  }

 private:
  std::vector<std::pair<std::string, std::string>> values_;
};

}  // namespace

TEST_CASE("launcher: rank and number of processes, by the variables of each launcher") {
  leave_launcher();  // where the tests themselves were started by one
  CHECK(!started_by_launcher());
  CHECK(!launched_processes());
  CHECK(launched_rank() == 0);
  const std::vector<std::pair<std::string, std::string>> launchers = {
      {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
      {"PMI_SIZE", "PMI_RANK"},
      {"SLURM_STEP_NUM_TASKS", "PMIX_RANK"}};
  for (const auto& each : launchers) {
    CAPTURE(each.second);
    const Variables set({{each.first, "4"}, {each.second, "3"}});
    CHECK(started_by_launcher());
    CHECK(launched_processes() == 4);
    CHECK(launched_rank() == 3);
    leave_launcher();
    CHECK(!started_by_launcher());
    CHECK(!launched_processes());
    CHECK(launched_rank() == 0);
  }
}

TEST_CASE("launcher: srun without MPI has ranks, but no launcher of MPI") {
  const Variables set({{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "2"}});
  CHECK(!started_by_launcher());
  CHECK(!launched_processes());
  CHECK(launched_rank() == 2);
}
