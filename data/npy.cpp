#include "qtape/arrays/npy.h"

#include "qtape/data/files.h"

namespace qtape::data {

Dataset npy(const std::string& inputs, const std::string& targets) {
  Dataset set;
  const auto add = [](const std::string& path, const auto& adds) {
    Tensor values = read_npy(path);
    try {
      adds(std::move(values));
    } catch (const ArgumentError& error) {
      fail<FormatError>("{}: {}", path, error.what());
    }
  };
  add(inputs, [&](Tensor values) { set.add("x", std::move(values)); });
  if (targets.empty()) return set;
  add(targets, [&](Tensor values) { set.add_target("y", std::move(values)); });
  return set;
}

}  // namespace qtape::data
