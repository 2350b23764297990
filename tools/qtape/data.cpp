#include "qtape/tools/qtape/data.h"

#include "qtape/examples/data/digits.h"
#include "qtape/examples/data/tones.h"

namespace qtape::tool {
namespace {

/// The same of inputs of type In, which have a `shape`.
template <class In, class Nodes>
int64_t find_features(const Nodes& nodes) {
  for (int32_t i = 0; i < nodes.size(); ++i) {
    const auto* input = std::get_if<In>(&nodes[NodeId{i}].op);
    if (input != nullptr && input->shape.rank() == 2) return input->shape[1];
  }
  return 0;
}

}  // namespace

int64_t features_of(const Graph& graph) { return find_features<Input>(graph); }

int64_t features_of(const IntegerProgram& program) {
  return find_features<integer::Input>(program);
}

data::Split load_data(const std::string& directory, int64_t features, int64_t samples) {
  if (!directory.empty()) return data::read_idx_directory(directory);
  if (features == data::tone_frames * data::tone_bands) return data::example_tones(samples);
  return data::example_digits(samples);
}

}  // namespace qtape::tool
