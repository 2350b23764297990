#include "qtape/tflite/micro_tree.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "qtape/core/error.h"

namespace qtape::tflite {
namespace {

namespace fs = std::filesystem;

/// Folders of headers, and in each a header without which nothing compiles. They lie as the
/// project generation of TensorFlow Lite Micro places them.
struct Headers {
  std::string_view folder;
  std::string_view header;
};
constexpr Headers headers[] = {{"", "tensorflow/lite/micro/micro_interpreter.h"},
                               {"third_party/flatbuffers/include", "flatbuffers/flatbuffers.h"},
                               {"third_party/gemmlowp", "fixedpoint/fixedpoint.h"},
                               {"third_party/ruy", "ruy/profiler/instrumentation.h"}};

/// Folders of which all sources are compiled; versions lack some of them.
constexpr std::string_view folders[] = {"tensorflow/compiler/mlir/lite/core/api",
                                        "tensorflow/compiler/mlir/lite/schema",
                                        "tensorflow/lite/core/api",
                                        "tensorflow/lite/core/c",
                                        "tensorflow/lite/kernels",
                                        "tensorflow/lite/kernels/internal",
                                        "tensorflow/lite/kernels/internal/reference",
                                        "tensorflow/lite/micro",
                                        "tensorflow/lite/micro/arena_allocator",
                                        "tensorflow/lite/micro/memory_planner",
                                        "tensorflow/lite/micro/tflite_bridge",
                                        "tensorflow/lite/schema"};
/// Parts of the names of sources that serve tests and tools.
constexpr std::string_view others[] = {"_test", "test_",      "mock_",
                                       "fake_", "recording_", "hexdump"};

constexpr std::string_view kernel_folder = "tensorflow/lite/micro/kernels";
/// Sources of the kernels that are compiled, without `.cc` or `_common.cc`.
constexpr std::string_view kernels[] = {"activations",
                                        "add",
                                        "concatenation",
                                        "conv",
                                        "depthwise_conv",
                                        "dequantize",
                                        "expand_dims",
                                        "fully_connected",
                                        "hard_swish",
                                        "kernel_util",
                                        "leaky_relu",
                                        "logistic",
                                        "micro_tensor_utils",
                                        "mul",
                                        "pad",
                                        "pooling",
                                        "quantize",
                                        "reduce",
                                        "reshape",
                                        "softmax",
                                        "squeeze",
                                        "sub",
                                        "tanh"};

bool is_common(std::string_view name) {
  return std::ranges::none_of(
      others, [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

bool is_kernel(std::string_view name) {
  constexpr std::string_view suffix = "_common";
  if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  return std::ranges::find(kernels, name) != std::end(kernels);
}

void add_sources(std::vector<std::string>& to, const fs::path& folder,
                 bool (*wanted)(std::string_view name)) {
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing)) {
    const fs::path& path = entry.path();
    if (path.extension() == ".cc" && wanted(path.stem().string())) to.push_back(path.string());
  }
}

std::string path_of_environment() {
  const char* path = std::getenv(micro_variable);
  return path == nullptr ? "" : path;
}

}  // namespace

bool MicroTree::is_given() { return !path_of_environment().empty(); }

MicroTree MicroTree::of_environment() {
  const std::string path = path_of_environment();
  require<Error>(!path.empty(), "{} must name a source tree of TensorFlow Lite Micro",
                 micro_variable);
  const fs::path root = path;
  MicroTree tree;
  for (const Headers& each : headers) {
    const fs::path header = fs::path(each.folder) / each.header;
    std::error_code missing;
    require<Error>(fs::exists(root / header, missing), "{}: {} has no {}", micro_variable, path,
                   header.string());
    tree.includes.push_back((root / each.folder).string());
  }
  for (std::string_view folder : folders) add_sources(tree.sources, root / folder, is_common);
  add_sources(tree.sources, root / kernel_folder, is_kernel);
  std::ranges::sort(tree.sources);
  return tree;
}

}  // namespace qtape::tflite
