// Values whose rows are the steps of all samples, the steps first, as between the reshapes
// around a layer that follows a recurrent operator. They are stored with the steps of a sample
// together.
#include <fmt/format.h>

#include <algorithm>

#include "qtape/core/error.h"
#include "qtape/onnx/import/operators.h"

namespace qtape {
namespace {

/// Like onnx_fill; false if an extent depends on the batch.
bool completes(std::vector<int64_t>& extents, int64_t elements) {
  return std::ranges::none_of(extents, is_batch) && onnx_fill(extents, elements);
}

}  // namespace

bool OnnxOperators::join_steps(const OnnxValue& a, const std::vector<int64_t>& shape) {
  if (a.batch != 1 || shape.empty()) return false;
  const int64_t steps = a.shape[0], samples = to.declared_batch();
  // With one sample, a number of steps before other axes is also the axis before the batch.
  const bool declared = samples > 1 || (samples == 1 && shape.size() <= 2);
  const bool joined = is_batch(shape[0])
                          ? batch_factor(shape[0]) == steps
                          : shape[0] == -1 || (declared && shape[0] == steps * samples);
  std::vector<int64_t> rest(shape.begin() + 1, shape.end());
  if (!joined || !completes(rest, onnx_product(std::span(a.shape).subspan(1)))) return false;
  if (shape[0] == -1 && std::ranges::find(shape.begin() + 1, shape.end(), -1) != shape.end())
    return false;
  std::vector<int64_t> stored = rest;
  stored.insert(stored.begin(), -1);
  const NodeId rows = to.add(Reshape{.shape = stored}, {with_rows(a, 1)});
  OnnxValue result{.id = rows, .shape = std::move(rest)};
  result.shape.insert(result.shape.begin(), steps);
  result.steps = steps;
  give(std::move(result));
  return true;
}

void OnnxOperators::split_steps(const OnnxValue& a) {
  const bool literal = node.integer("allowzero", 0) != 0;
  const std::vector<int64_t> shape = to.integers(node, 1);
  const int64_t samples = to.declared_batch();
  const bool split =
      shape.size() >= 2 && (shape[0] == a.steps || shape[0] == -1) &&
      (shape[1] == onnx_batch || shape[1] == -1 || (samples > 0 && shape[1] == samples)) &&
      std::ranges::count(shape, -1) <= 1 && (literal || std::ranges::count(shape, 0) == 0);
  std::vector<int64_t> rest;
  if (split) rest.assign(shape.begin() + 2, shape.end());
  require<OnnxMixedSamples>(
      split && completes(rest, onnx_product(std::span(a.shape).subspan(1))),
      "the rows of {} are {} steps of all samples: reshaping them to {} would mix "
      "samples",
      extents_text(a.shape), a.steps, extents_text(shape));
  std::vector<int64_t> stored = {-1, a.steps};
  stored.insert(stored.end(), rest.begin(), rest.end());
  OnnxValue result{.id = to.add(Reshape{.shape = stored}, {a.id}), .shape = {a.steps, 1}};
  result.shape.insert(result.shape.end(), rest.begin(), rest.end());
  result.batch = 1;
  give(std::move(result));
}

int64_t OnnxOperators::row_steps() const {
  for (int k = 0; k < node.inputs(); ++k) {
    const OnnxValue* value = to.find_value(node.input(k));
    if (value != nullptr && value->steps > 0) return value->steps;
  }
  return 0;
}

bool OnnxOperators::is_of_rows() const {
  const std::string_view type = node.type();
  int rank = 0;
  for (int k = 0; k < node.inputs(); ++k) {
    if (const OnnxValue* value = to.find_value(node.input(k))) {
      if (value->steps != row_steps() || (k > 0 && type == "MatMul")) return false;
      rank = std::max(rank, value->rank());
    }
  }
  if (type == "Softmax" || type == "LogSoftmax") {
    return onnx_axis(node.integer("axis", -1), rank) + 1 == rank;
  }
  for (int k = 0; k < node.inputs(); ++k) {
    const OnnxConstant* constant = to.find_constant(node.input(k));
    if (constant != nullptr && (k == 0 || !onnx_is_of_last_axis(*constant, type))) return false;
  }
  return type == "Shape" || onnx_is_of_last_axis(type) || onnx_is_of_elements(type);
}

void OnnxOperators::convert_step_rows() {
  if (node.type() == "Reshape") return split_steps(to.value(node, 0));
  require<FormatError>(is_of_rows(),
                       "its rows are the steps of all samples: only functions of each row are "
                       "supported, and a reshape to steps and samples");
  to.with_plain_rows(node, row_steps(), [&] { convert_by_family(); });
}

void OnnxImporter::with_plain_rows(const OnnxNode& node, int64_t steps,
                                   const std::function<void()>& convert) {
  while_shown(
      node, [](OnnxValue& shown) { shown.steps = 0; }, convert);
  const auto made = values_.find(node.output(0));
  if (made != values_.end()) made->second.steps = steps;
}

}  // namespace qtape
