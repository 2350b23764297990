// Pages that show the records of runs.
#pragma once

#include <string>
#include <vector>

namespace qtape::tool {

/// Returns a page that shows the runs with records in the folders `runs`.
std::string page_of_runs(const std::vector<std::string>& runs);

}  // namespace qtape::tool
