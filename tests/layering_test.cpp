// The layers of docs/architecture.md, from the #include lines of the sources.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct Include {
  std::string file;  // relative to the source tree
  std::string target;
};

/// Returns the target of an #include line, if it is one.
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

/// Folders of the library, and the folders that each may include besides itself.
const std::map<std::string, std::vector<std::string>> rooms = {
    {"core", {}},
    {"io", {"core"}},
    {"io/arrays", {"core", "io"}},
    {"kernels/simd", {"core"}},
    {"kernels/integer", {"core", "kernels/simd"}},
    {"kernels/onednn", {"core", "kernels/simd"}},
    {"kernels/quantize", {"core", "kernels/simd"}},
    {"ops/core", {"core"}},
    {"ops/families", {"core", "kernels", "ops/core"}},
    {"ops", {"core", "kernels", "ops/core", "ops/families"}},
    {"engine", {"core", "io", "kernels/simd", "kernels/onednn/onednn_build.h", "ops"}},
    {"distributed", {"core", "ops/core"}},
    {"programs/console", {"core"}},
    {"data", {"core", "io/arrays"}},
    {"data/generated", {"core", "io", "data"}},
    {"integer/core", {"core", "kernels", "ops"}},
    {"integer/products", {"core", "kernels", "ops", "integer/core"}},
    {"integer/ops", {"core", "kernels", "ops", "integer/core", "integer/products"}},
    {"integer/reference", {"core", "kernels", "ops", "integer/core", "integer/ops"}},
    {"integer/program",
     {"core", "kernels", "engine", "integer/core", "integer/products", "integer/ops"}},
    {"integer/rules", {"core", "kernels", "ops", "engine", "integer/ops"}},
    {"integer/training",
     {"core", "kernels", "ops", "engine", "integer/core", "integer/products", "integer/rules"}},
    {"optim", {"core", "kernels/simd", "engine/parameters.h"}},
    {"calibrate", {"core", "io", "kernels/quantize", "engine"}},
    {"model/passes", {"core", "io/arrays", "engine", "integer/rules", "deploy"}},
    {"model",
     {"core", "io", "kernels/quantize", "ops", "engine", "data", "calibrate", "integer",
      "deploy", "model/passes"}},
    {"model/training",
     {"core", "io", "ops/core", "engine", "data", "calibrate", "integer/training",
      "programs/console", "model"}},
    // The entrance of model/training: no other file of model includes that.
    {"model/fit.h", {"data", "optim", "programs/console", "model"}},
    {"model/fit.cpp", {"core", "io", "optim", "model"}},
    {"programs/report", {"core", "model/training"}},
    {"programs",
     {"core", "io", "ops/core", "distributed", "programs/console", "model/training"}},
    {"onnx",
     {"core", "io", "kernels/quantize", "ops", "engine", "programs/console", "integer",
      "deploy"}},
    {"tflite",
     {"core", "io", "kernels/quantize", "ops", "engine", "programs/console", "integer",
      "deploy"}},
    {"deploy", {"core", "kernels/quantize", "ops", "engine", "integer"}},
    {"c99",
     {"core", "io", "kernels/quantize", "ops", "engine", "programs/console", "integer",
      "deploy"}}};

std::vector<std::string> folders() {
  std::vector<std::string> all;
  for (const auto& [room, allowed] : rooms) all.push_back(room.substr(0, room.find('/')));
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

/// True if `path` is in the folder `room` or is the folder.
bool lies_in(const std::string& path, const std::string& room) {
  return path == room || path.starts_with(room + "/");
}

/// Returns the folder of a file: the longest one that contains it.
std::string room_of(const std::string& file) {
  std::string found;
  for (const auto& [room, allowed] : rooms) {
    if (lies_in(file, room) && room.size() > found.size()) found = room;
  }
  return found;
}

/// True if files of a room that may include `allowed` may include `target`. A folder's name
/// covers the folders in it, other than those that are for programs alone.
bool admits(const std::string& allowed, const std::string& target) {
  static const std::set<std::string> of_programs = {"data/generated", "programs"};
  const std::string room = room_of(target);
  return lies_in(target, allowed) && (!of_programs.contains(room) || room == allowed);
}

/// Returns the headers that users include, as cmake/public_headers.cmake lists them, and the
/// headers that these include.
std::set<std::string> public_headers() {
  std::ifstream file(fs::path(QTAPE_SOURCE) / "cmake/public_headers.cmake");
  const std::string script(std::istreambuf_iterator<char>(file), {});
  constexpr std::string_view list = "set(unread ";
  const size_t begin = script.find(list) + list.size();
  std::istringstream words(script.substr(begin, script.find(')', begin) - begin));
  std::set<std::string> reached{std::istream_iterator<std::string>(words), {}};
  std::vector<std::string> todo(reached.begin(), reached.end());
  while (!todo.empty()) {
    const std::string name = todo.back();
    todo.pop_back();
    for (const std::string& target : targets_in(fs::path(QTAPE_SOURCE) / name)) {
      if (!target.starts_with("qtape/")) continue;
      if (reached.insert(target.substr(6)).second) todo.push_back(target.substr(6));
    }
  }
  return reached;
}

}  // namespace

TEST_CASE("layers: each room includes itself and those below it, all that are listed") {
  std::set<std::pair<std::string, std::string>> used;
  for (const Include& include : includes_of(folders())) {
    CAPTURE(include.file);
    CAPTURE(include.target);
    if (!include.target.starts_with("qtape/")) continue;
    const std::string target = include.target.substr(6);
    const std::string room = room_of(include.file);
    REQUIRE(!room.empty());
    if (room_of(target) == room) continue;
    const auto& allowed = rooms.at(room);
    const auto found = std::ranges::find_if(
        allowed, [&](const std::string& each) { return admits(each, target); });
    CHECK(found != allowed.end());
    if (found != allowed.end()) used.emplace(room, *found);
  }
  for (const auto& [room, allowed] : rooms) {
    for (const std::string& each : allowed) {
      const std::string edge = room + " -> " + each;
      CAPTURE(edge);
      CHECK(used.contains({room, each}));
    }
  }
}

TEST_CASE("layers: docs/architecture.md describes each room") {
  std::ifstream file(fs::path(QTAPE_SOURCE) / "docs/architecture.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  for (const auto& [room, allowed] : rooms) {
    const std::string row = "| `" + room + "` |";
    CAPTURE(row);
    const bool single_file = row.find('.') != std::string::npos;
    CHECK((single_file || page.find(row) != std::string::npos));
  }
}

TEST_CASE("layers: references share nothing with kernels but scalar requantization") {
  const std::set<std::string> shared = {
      "core/requantization.h",
      "core/types.h",
      "integer/core/integer_binding.h",
      "integer/ops/integer_ops.h",
      "kernels/quantize/requantize.h",
      "ops/families/window.h"};  // the attributes of windows alone
  for (const Include& include : includes_of({"integer/reference"})) {
    if (!include.target.starts_with("qtape/")) continue;
    CAPTURE(include.file);
    CAPTURE(include.target);
    const std::string target = include.target.substr(6);
    CHECK((shared.contains(target) || target.starts_with("integer/ops/") ||
           target.starts_with("integer/reference/")));
  }
}

TEST_CASE("layers: tools include no examples; programs of tests only the table of ops") {
  for (const Include& include : includes_of({"examples", "tools", "bench"})) {
    CAPTURE(include.file);
    CAPTURE(include.target);
    const bool table =
        include.file == "bench/ops.cpp" && include.target == "qtape/tests/support/op_case.h";
    CHECK((table || !include.target.starts_with("qtape/tests/")));
    CHECK((!lies_in(include.file, "tools") || !include.target.starts_with("qtape/examples/")));
  }
}

TEST_CASE("layers: oneDNN, OpenMP and JSON each stay behind few files") {
  const std::map<std::string, std::set<std::string>> owners = {
      {"oneapi/dnnl", {"kernels/onednn/onednn.h"}},
      {"qtape/kernels/onednn/onednn.h",
       {"kernels/onednn/call.h", "kernels/onednn/conv.cpp", "kernels/onednn/filter_packing.cpp",
        "kernels/onednn/filter_packing.h", "kernels/onednn/gemm.cpp",
        "kernels/onednn/int8_exactness.cpp", "kernels/onednn/integer_gemm.cpp",
        "kernels/onednn/onednn_build.cpp"}},
      {"dnnl", {}},
      {"mpi.h", {"distributed/mpi.cpp"}},
      {"omp.h", {"kernels/simd/threads.cpp"}},
      {"oneapi/tbb", {"kernels/simd/threads.cpp"}},
      {"nlohmann/", {"io/json.cpp", "io/json_document.cpp"}},
      {"zip.h", {"io/arrays/npz.cpp"}},
      {"zlib.h", {"data/idx.cpp"}},
      {"onnx/",
       {"onnx/arena_model.h", "onnx/onnx_node.h", "onnx/export/onnx_writer.h",
        "onnx/tensor_proto.h", "onnx/export/value_info.h", "onnx/import/graph_view.h",
        "onnx/import/norm_patterns.h", "onnx/import/patterns.h", "onnx/import/functions.h",
        "onnx/import/code_nodes.h", "onnx/import/integer_products.h",
        "onnx/import/named_nodes.h"}},
      {"google/", {"onnx/arena_model.h", "onnx/import/import.cpp"}},
      {"onnxruntime", {"onnx/onnx_runtime.cpp"}},
      {"flatbuffers/", {"tflite/flat_table.cpp", "tflite/model_bytes.cpp"}},
      {"xtensor/", {"engine/views.h", "model/xtensor.h"}}};
  for (const Include& include : includes_of(folders())) {
    for (const auto& [prefix, files] : owners) {
      if (!include.target.starts_with(prefix)) continue;
      CAPTURE(include.file);
      CAPTURE(include.target);
      CHECK(files.contains(include.file));
    }
  }
}

TEST_CASE("layers: headers for users show fmt's core header and nothing else of others") {
  const std::set<std::string> reached = public_headers();
  for (const std::string& name : reached) {
    for (const std::string& target : targets_in(fs::path(QTAPE_SOURCE) / name)) {
      CAPTURE(name);
      CAPTURE(target);
      const bool ours = target.starts_with("qtape/");
      const bool standard = target.find_first_of("./") == std::string::npos;
      const bool view = (name == "engine/views.h" || name == "model/xtensor.h") &&
                        target.starts_with("xtensor/");
      CHECK((ours || standard || view || target == "fmt/core.h"));
      CHECK(!target.starts_with("qtape/kernels/"));
    }
  }
  CHECK(reached.contains("integer/program/integer_node.h"));
  CHECK(reached.contains("model/xtensor.h"));
  CHECK(reached.contains("ops/fake_quantize.h"));
}
