#include "qtape/io/arrays/arrays.h"

#include "qtape/data/files.h"

namespace qtape::data {

Dataset arrays(const std::string& inputs, const std::string& targets) {
  Dataset set;
  const auto add = [](const std::string& place, const auto& adds) {
    Tensor values = read_array(place);
    try {
      adds(std::move(values));
    } catch (const ArgumentError& error) {
      fail<FormatError>("{}: {}", place, error.what());
    }
  };
  add(inputs, [&](Tensor values) { set.add("x", std::move(values)); });
  if (targets.empty()) return set;
  add(targets, [&](Tensor values) { set.add_target("y", std::move(values)); });
  return set;
}

}  // namespace qtape::data
