// Valid inputs of fuzzed functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "qtape/io/files.h"

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

/// True for graphs and programs that run in a moment; `type_of(node)` is the type of its value.
template <class Nodes, class TypeOf>
bool is_small(const Nodes& nodes, const TypeOf& type_of) {
  int64_t elements = 0;
  for (const auto& node : nodes) {
    elements += type_of(node).shape.elements();
    if (elements > 20000) return false;
  }
  return true;
}

}  // namespace qtape::fuzz
