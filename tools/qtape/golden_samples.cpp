#include "qtape/tools/qtape/golden_samples.h"

#include <algorithm>

#include "qtape/core/error.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/model/feed.h"
#include "qtape/tools/qtape/random_inputs.h"

namespace qtape::tool {
namespace {

/// The inputs of `program`, to be fed, and their memory.
struct Fed {
  GoldenSample buffers;
  std::vector<FedInput> inputs;

  explicit Fed(const IntegerProgram& program) {
    nodes = input_ids(program);
    for (const ProgramNodeId id : nodes) {
      const TensorType& type = program[id].value.type;
      buffers.push_back({type, std::vector<std::byte>(static_cast<size_t>(type.bytes()))});
      const auto extents = type.shape.extents();
      inputs.push_back({.label = program[id].label,
                        .sample = Shape(extents.subspan(std::min<size_t>(1, extents.size())))});
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (buffers[i].type.dtype == DType::S32) {
        inputs[i].integers = elements<int32_t>(i);
      } else {
        inputs[i].floats = elements<float>(i);
      }
    }
  }
  template <class T>
  std::span<T> elements(size_t i) {
    return {reinterpret_cast<T*>(buffers[i].data.data()), buffers[i].data.size() / sizeof(T)};
  }
  std::vector<ProgramNodeId> nodes;
};

}  // namespace

std::vector<GoldenSample> golden_samples(const IntegerProgram& program, int64_t golden,
                                         const DataOptions& from, const std::string& file) {
  if (golden == 0) return {};
  Fed fed(program);
  std::vector<GoldenSample> samples;
  if (from.given()) {
    const data::Dataset dataset = load_data(from, needs_of(file, program)).test;
    Feed feed(fed.inputs, dataset);
    require<ArgumentError>(golden <= dataset.size(),
                           "--golden: the data have {} samples, {} are required",
                           dataset.size(), golden);
    for (int64_t i = 0; i < golden; ++i) {
      feed.fill_from(i);
      samples.push_back(fed.buffers);
    }
    return samples;
  }
  for (int64_t i = 0; i < golden; ++i) {
    RandomSample random(1, i);
    for (size_t k = 0; k < fed.buffers.size(); ++k) {
      const InputRange range = range_of(program, fed.nodes[k]);
      const FedInput& input = fed.inputs[k];
      if (input.integers.empty()) random.fill(range, input.floats);
      if (!input.integers.empty()) random.fill(range, input.integers);
    }
    samples.push_back(fed.buffers);
  }
  return samples;
}

}  // namespace qtape::tool
