// Constants that are the same for each sample, such as the learned queries of attention, as
// values that depend on an input.
#include <algorithm>
#include <utility>

#include "qtape/engine/constants.h"
#include "qtape/onnx/import/importer.h"

namespace qtape {

namespace {

/// True for known floats without codes.
bool is_plain(const OnnxConstant* constant) {
  return constant != nullptr && constant->is_float && !constant->unknown && !constant->codes;
}

/// True if axis 0 of a constant has `rows` for each of the `samples`, the same for all.
bool repeats(const OnnxConstant& constant, int64_t rows, int64_t samples) {
  if (constant.shape[0] % samples != 0 || constant.shape[0] / samples != rows) return false;
  const auto period = std::ssize(constant.floats) / samples;
  return std::equal(constant.floats.begin() + period, constant.floats.end(),
                    constant.floats.begin());
}

}  // namespace

std::optional<NodeId> OnnxImporter::zeros(int64_t elements) {
  for (const NodeId id : ids(graph_)) {
    if (!std::holds_alternative<Input>(graph_[id].op)) continue;
    const Shape& shape = graph_[id].type.shape;
    if (graph_[id].type.dtype != DType::F32 || shape.rank() < 2) continue;
    spend(elements);
    // One element of a sample is padded and left out: moves, so that codes of 0 stay exact.
    const NodeId flat = add(Reshape{.shape = {-1, shape.elements() / shape[0]}}, {id});
    const NodeId one = add(Slice{.axis = 1, .begin = 0, .end = 1}, {flat});
    const NodeId padded = add(Pad{.begin = {0, 0}, .end = {0, elements}}, {one});
    return add(Slice{.axis = 1, .begin = 1, .end = elements + 1}, {padded});
  }
  return std::nullopt;
}

std::optional<OnnxValue> OnnxImporter::sampled(const std::string& name,
                                               const OnnxConstant& constant, int batch,
                                               int64_t rows) {
  std::vector<int64_t> shape(constant.shape.extents().begin(), constant.shape.extents().end());
  shape[static_cast<size_t>(batch)] = rows;
  const int64_t elements = onnx_product(shape);
  const std::optional<NodeId> x = zeros(elements);
  if (!x) return std::nullopt;
  std::vector<int64_t> stored = shape;
  std::rotate(stored.begin(), stored.begin() + batch, stored.begin() + batch + 1);
  std::vector<int64_t> of_sample(stored.begin() + (rows == 1 ? 1 : 0), stored.end());
  std::vector<float> numbers(constant.floats.begin(), constant.floats.begin() + elements);
  const NodeId leaf = add_state(name, Shape(of_sample), std::move(numbers));
  of_sample.insert(of_sample.begin(), -1);
  NodeId y = add(Add{}, {add(Reshape{.shape = of_sample}, {*x}), leaf});
  stored[0] = -1;
  if (rows > 1) y = add(Reshape{.shape = stored}, {y});
  OnnxValue value{.id = y, .shape = std::move(shape)};
  value.batch = batch;
  return value;
}

std::optional<std::pair<int, int64_t>> OnnxImporter::samples_of(const OnnxNode& node,
                                                                int k) const {
  const OnnxConstant* constant = find_constant(node.input(k));
  if (!is_plain(constant)) return std::nullopt;
  // Masks have integers only as constants.
  if (mask_bound(constant->floats)) return std::nullopt;
  if (constant->batch_axis >= 0) return std::pair(constant->batch_axis, int64_t{1});
  // A matrix for each row of the other operand.
  const OnnxValue* other = node.type() == "MatMul" ? find_value(node.input(1 - k)) : nullptr;
  const Shape& shape = constant->shape;
  const bool fits = other != nullptr && other->batch == 0 && other->steps == 0 &&
                    shape.rank() >= 3 && shape.rank() == other->rank() &&
                    repeats(*constant, other->shape[0], std::max<int64_t>(1, declared_batch_));
  return fits ? std::optional(std::pair(0, other->shape[0])) : std::nullopt;
}

bool OnnxImporter::add_with_one_row(const OnnxNode& node) {
  if (declared_batch_ <= 1) return false;
  std::map<std::string, OnnxConstant> whole;
  for (int k = 0; k < node.inputs(); ++k) {
    const OnnxConstant* constant = find_constant(node.input(k));
    if (!is_plain(constant) || constant->batch_axis >= 0 || constant->shape.rank() < 2 ||
        !repeats(*constant, 1, declared_batch_)) {
      continue;
    }
    std::vector<int64_t> shape(constant->shape.extents().begin(),
                               constant->shape.extents().end());
    shape[0] = 1;
    OnnxConstant row{.shape = Shape(shape), .is_float = true, .batch_axis = 0};
    row.floats.assign(constant->floats.begin(),
                      constant->floats.begin() + row.shape.elements());
    whole.insert_or_assign(node.input(k), std::exchange(constants_.at(node.input(k)), row));
  }
  std::vector<std::string> reasons;
  const bool added = !whole.empty() && attempt(node, reasons);
  // Other nodes may read all rows.
  for (auto& [name, constant] : whole) constants_.insert_or_assign(name, std::move(constant));
  return added;
}

bool OnnxImporter::add_with_samples(const OnnxNode& node) {
  std::map<std::string, OnnxConstant> replaced;
  std::vector<std::string> reasons;
  try {
    for (int k = 0; k < node.inputs(); ++k) {
      const auto samples = samples_of(node, k);
      if (!samples) continue;
      const std::string& name = node.input(k);
      std::optional<OnnxValue> value =
          sampled(name, constants_.at(name), samples->first, samples->second);
      if (!value) continue;
      replaced.insert(constants_.extract(name));
      values_[name] = std::move(*value);
    }
    if (!replaced.empty() && attempt(node, reasons)) return true;
  } catch (const Error&) {
    // Without room for the values, the reason of the node itself is reported.
  }
  for (auto& [name, constant] : replaced) {
    values_.erase(name);
    constants_.emplace(name, std::move(constant));
  }
  return false;
}

}  // namespace qtape
