#include "qtape/tools/qtape/data.h"

#include "qtape/arrays/arrays.h"
#include "qtape/core/enum_names.h"
#include "qtape/data/files.h"
#include "qtape/data/holdout.h"
#include "qtape/examples/data/digits.h"
#include "qtape/examples/data/tones.h"

namespace qtape::tool {
namespace {

/// The same of inputs of type In, which have a `shape` and may be batched.
template <class In, class Nodes>
int64_t find_features(const Nodes& nodes) {
  for (int32_t i = 0; i < nodes.size(); ++i) {
    const auto* input = std::get_if<In>(&nodes[NodeId{i}].op);
    if (input == nullptr || !input->batch || input->shape.rank() < 2) continue;
    return Shape(input->shape.extents().subspan(1)).elements();
  }
  return 0;
}

}  // namespace

std::vector<std::string> DataOptions::paths() const {
  return {directory, array_file_of(input), array_file_of(labels), array_file_of(test_input),
          array_file_of(test_labels)};
}

int64_t features_of(const Graph& graph) { return find_features<Input>(graph); }

int64_t features_of(const IntegerProgram& program) {
  return find_features<integer::Input>(program);
}

namespace {

data::Split load_all(const DataOptions& options, int64_t features, int64_t samples) {
  require<ArgumentError>(options.directory.empty() || options.input.empty(),
                         "--input: there is --data already");
  require<ArgumentError>(options.labels.empty() || !options.input.empty(),
                         "--labels needs --input");
  require<ArgumentError>(options.test_labels.empty() || !options.test_input.empty(),
                         "--test-labels needs --test-input");
  require<ArgumentError>(options.test_input.empty() || !options.input.empty(),
                         "--test-input needs --input");
  if (!options.directory.empty()) return data::mnist(options.directory);
  if (!options.input.empty()) {
    const data::Dataset set = data::arrays(options.input, options.labels);
    if (options.test_input.empty()) return {set, options.trains ? data::Dataset() : set};
    return {set, data::arrays(options.test_input, options.test_labels)};
  }
  if (features == data::tone_frames * data::tone_bands) return data::example_tones(samples);
  return data::example_digits(samples, from_string<data::DigitKind>(options.digits).value());
}

}  // namespace

data::Split load_data(const DataOptions& options, int64_t features, int64_t samples) {
  return data::held_out(load_all(options, features, samples), options.holdout);
}

}  // namespace qtape::tool
