// Valid inputs of fuzzed functions.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/io/files.h"
#include "qtape/tests/support/conformance.h"
#include "qtape/tests/support/integer_nets.h"

namespace qtape::fuzz {

/// Returns the contents of the files of a folder below tests/ whose names end so, by name.
inline std::vector<std::string> files(const std::string& folder,
                                      const std::string& ending = "") {
  std::vector<std::string> paths;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(QTAPE_SOURCE "/tests/") + folder)) {
    if (entry.is_regular_file() && entry.path().string().ends_with(ending)) {
      paths.push_back(entry.path());
    }
  }
  std::ranges::sort(paths);
  for (std::string& path : paths) path = read_file(path, int64_t{1} << 20);
  return paths;
}

/// Returns `write(program)` of small integer programs that contain every op, without programs
/// that it refuses.
template <class Write>
std::vector<std::string> written_programs(const Write& write) {
  std::vector<std::string> texts;
  for (const test::ConformanceCase& each : test::conformance_cases()) {
    try {
      texts.push_back(write(each.program));
    } catch (const Error&) {
    }
  }
  return texts;
}

}  // namespace qtape::fuzz
