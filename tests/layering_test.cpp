// The layers of docs/architecture.md, read from the #include lines of the sources.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct Include {
  std::string file;  // relative to the source tree
  std::string target;
};

/// The target of an #include line, or nothing.
std::string target_of(const std::string& line) {
  constexpr std::string_view directive = "#include ";
  if (!line.starts_with(directive)) return {};
  const size_t begin = line.find_first_of("<\"", directive.size());
  const size_t end = line.find_first_of(">\"", begin + 1);
  return begin == std::string::npos ? "" : line.substr(begin + 1, end - begin - 1);
}

std::vector<std::string> targets_in(const fs::path& path) {
  std::vector<std::string> found;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::string target = target_of(line);
    if (!target.empty()) found.push_back(target);
  }
  return found;
}

std::vector<Include> includes_of(const std::vector<std::string>& folders) {
  std::vector<Include> found;
  for (const std::string& folder : folders) {
    for (const auto& entry :
         fs::recursive_directory_iterator(fs::path(QTAPE_SOURCE) / folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".h" && extension != ".cpp") continue;
      const std::string name = fs::relative(entry.path(), QTAPE_SOURCE).string();
      for (const std::string& target : targets_in(entry.path())) {
        found.push_back({name, target});
      }
    }
  }
  return found;
}

bool starts_with_any(const std::string& text, const std::vector<std::string>& prefixes) {
  return std::ranges::any_of(prefixes,
                             [&](const std::string& p) { return text.starts_with(p); });
}

const std::vector<std::string> library = {"ops", "engine", "optim", "calibrate", "deploy"};

}  // namespace

TEST_CASE("layers: each folder includes only those below it") {
  const std::map<std::string, std::vector<std::string>> allowed = {
      {"ops", {"qtape/ops/"}},
      {"engine", {"qtape/ops/", "qtape/engine/"}},
      {"optim",
       {"qtape/optim/", "qtape/engine/parameters.h", "qtape/engine/settings.h",
        "qtape/ops/core/"}},
      {"calibrate", {"qtape/ops/", "qtape/engine/", "qtape/calibrate/"}},
      {"deploy", {"qtape/ops/", "qtape/engine/", "qtape/deploy/"}},
      {"examples", {"qtape/"}},
      {"tools", {"qtape/"}}};
  for (const auto& [folder, targets] : allowed) {
    const auto found = includes_of({folder});
    CHECK(!found.empty());
    for (const Include& include : found) {
      CAPTURE(include.file);
      CAPTURE(include.target);
      const bool ours = include.target.starts_with("qtape/");
      CHECK((!ours || starts_with_any(include.target, targets)));
      CHECK((!ours || !include.target.starts_with("qtape/tests/")));
    }
  }
}

TEST_CASE("layers: ops/core knows no op") {
  for (const Include& include : includes_of({"ops/core"})) {
    CAPTURE(include.file);
    CAPTURE(include.target);
    const bool ours = include.target.starts_with("qtape/");
    CHECK((!ours || include.target.starts_with("qtape/ops/core/")));
  }
}

TEST_CASE("layers: oneDNN, OpenMP and JSON each stay behind few files") {
  const std::map<std::string, std::set<std::string>> owners = {
      {"oneapi/dnnl", {"ops/core/onednn.h"}},
      {"qtape/ops/core/onednn.h",
       {"ops/core/gemm.cpp", "ops/core/int8_exactness.cpp", "ops/core/integer_gemm.cpp"}},
      {"dnnl", {}},
      {"omp.h", {"ops/core/threads.h"}},
      {"nlohmann/", {"engine/json_fields.h"}},
      {"xtensor/", {"engine/views.h"}}};
  for (const Include& include : includes_of(library)) {
    for (const auto& [prefix, files] : owners) {
      if (!include.target.starts_with(prefix)) continue;
      CAPTURE(include.file);
      CAPTURE(include.target);
      CHECK(files.contains(include.file));
    }
  }
}

TEST_CASE("layers: files that must not be seen by users are included by sources only") {
  const std::set<std::string> hidden = {
      "engine/json_fields.h",      "engine/json_file.h",   "engine/print_fields.h",
      "engine/settings.h",         "optim/update_loops.h", "ops/core/elementwise_kernels.h",
      "ops/core/onednn.h",         "ops/core/gemm.h",      "ops/core/integer_gemm.h",
      "ops/fake_quantize_states.h"};
  std::set<std::string> seen;
  for (const Include& include : includes_of(library)) {
    const std::string target =
        include.target.substr(std::min<size_t>(6, include.target.size()));
    if (!include.target.starts_with("qtape/") || !hidden.contains(target)) continue;
    seen.insert(target);
    CAPTURE(include.file);
    CAPTURE(include.target);
    CHECK((include.file.ends_with(".cpp") || hidden.contains(include.file)));
  }
  CHECK(seen == hidden);
}

TEST_CASE("layers: headers for users show fmt's core header and nothing else of others") {
  std::set<std::string> reached = {"qtape.h", "deploy/convert.h", "deploy/session.h",
                                   "deploy/verify.h"};
  std::vector<std::string> todo(reached.begin(), reached.end());
  while (!todo.empty()) {
    const std::string name = todo.back();
    todo.pop_back();
    for (const std::string& target : targets_in(fs::path(QTAPE_SOURCE) / name)) {
      CAPTURE(name);
      CAPTURE(target);
      const bool ours = target.starts_with("qtape/");
      const bool standard = target.find_first_of("./") == std::string::npos;
      CHECK((ours || standard || target == "fmt/core.h"));
      if (ours && reached.insert(target.substr(6)).second) todo.push_back(target.substr(6));
    }
  }
  CHECK(reached.contains("deploy/integer_program.h"));
  CHECK(reached.contains("ops/fake_quantize.h"));
}
