// Values whose batch is not their first axis, as between the transposes around a recurrent
// operator. They are stored with the batch first.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

#include "qtape/core/error.h"
#include "qtape/onnx/import/operators.h"

namespace qtape {
namespace {

struct SequenceOperators : OnnxOperators {
  void transpose();
  void squeeze();
  void unsqueeze();
  void reshape();
  void gather();
  void slice();
  void split();
  void concat();
  void shape();

  /// Returns operand k, whose batch may be on any axis.
  OnnxValue any(int k) {
    settle();
    return to.value(node, k);
  }
};

/// Returns the axis of the stored value, whose first axis is the batch.
int stored_axis(const OnnxValue& a, int axis) {
  if (axis == a.batch) return 0;
  return axis < a.batch ? axis + 1 : axis;
}

}  // namespace

void SequenceOperators::transpose() {
  const auto given = node.integers("perm");
  OnnxValue a = any(0);
  if (a.batch == 0) a = to.to_same(a);
  std::vector<int64_t> axes(a.shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  const std::vector<int64_t> perm =
      given.value_or(std::vector<int64_t>(axes.rbegin(), axes.rend()));
  require<FormatError>(std::ranges::is_permutation(perm, axes),
                       "perm {} is not a permutation of the axes of {}", extents_text(perm),
                       extents_text(a.shape));
  OnnxValue result{.id = a.id, .shape = {}};
  std::vector<int> stored = {0};
  for (int k = 0; k < a.rank(); ++k) {
    const auto axis = static_cast<int>(perm[static_cast<size_t>(k)]);
    result.shape.push_back(a.shape[static_cast<size_t>(axis)]);
    if (axis == a.batch) {
      result.batch = k;
    } else {
      stored.push_back(stored_axis(a, axis));
    }
  }
  result.id = to.permuted(a.id, std::move(stored));
  give(std::move(result));
}

void SequenceOperators::squeeze() {
  const auto axes = to.integers_or(node, "axes", 1);
  const OnnxValue a = any(0);
  std::vector<bool> gone(a.shape.size(), false);
  for (const int64_t each : axes.value_or(squeezed_axes(a))) {
    const int axis = onnx_axis(each, a.rank());
    require<FormatError>(axis != a.batch && a.shape[static_cast<size_t>(axis)] == 1,
                         "axis {} has extent {}", axis,
                         axis == a.batch
                             ? "of the batch"
                             : fmt::format("{}", a.shape[static_cast<size_t>(axis)]));
    gone[static_cast<size_t>(axis)] = true;
  }
  std::vector<int64_t> shape;
  int batch = 0;
  for (int k = 0; k < a.rank(); ++k) {
    if (k == a.batch) batch = static_cast<int>(shape.size());
    if (!gone[static_cast<size_t>(k)]) shape.push_back(a.shape[static_cast<size_t>(k)]);
  }
  give_reshaped(a, std::move(shape), batch);
}

void SequenceOperators::unsqueeze() {
  const auto axes = to.integers_or(node, "axes", 1);
  require<FormatError>(axes.has_value(), "axes are missing");
  OnnxValue a = any(0);
  if (a.batch == 0) a = to.to_same(a);
  std::vector<int64_t> sorted;
  for (const int64_t each : *axes) {
    sorted.push_back(onnx_axis(each, a.rank() + static_cast<int>(axes->size())));
  }
  std::ranges::sort(sorted);
  std::vector<int64_t> shape = a.shape;
  int batch = a.batch;
  for (const int64_t axis : sorted) {
    require<FormatError>(axis <= std::ssize(shape), "axis {} is out of range", axis);
    shape.insert(shape.begin() + axis, 1);
    if (axis <= batch) ++batch;
  }
  give_reshaped(a, std::move(shape), batch);
}

void SequenceOperators::reshape() {
  const bool literal = node.integer("allowzero", 0) != 0;
  reshape_sequences(any(0), to.integers(node, 1), literal);
}

/// Selects one index of an axis, which is removed, or consecutive ones.
void SequenceOperators::gather() {
  const int64_t along = node.integer("axis", 0);
  const OnnxConstant& indices = to.constant(node, 1);
  expect(!indices.is_float && indices.shape.rank() <= 1 && !indices.integers.empty(),
         "indices must be integers of rank 0 or 1");
  OnnxValue a = any(0);
  const int axis = onnx_axis(along, a.rank());
  require<OnnxMixedSamples>(axis != a.batch, "axis {} would split the batch", axis);
  int64_t& extent = a.shape[static_cast<size_t>(axis)];
  const auto place = [&](int64_t at) {
    require<FormatError>(at >= -extent && at < extent, "index {} is out of range for {}",
                         onnx_number(at), extent);
    return at < 0 ? at + extent : at;
  };
  const int64_t first = place(indices.integers[0]);
  for (size_t k = 0; k < indices.integers.size(); ++k) {
    require<FormatError>(place(indices.integers[k]) == first + static_cast<int64_t>(k),
                         "only consecutive indices are supported");
  }
  const int64_t end = first + std::ssize(indices.integers);
  if (first > 0 || end < extent) {
    a.id = to.add(Slice{.axis = stored_axis(a, axis), .begin = first, .end = end}, {a.id});
  }
  extent = end - first;
  if (indices.shape.rank() == 1) return give(std::move(a));
  std::vector<int64_t> shape = a.shape;
  shape.erase(shape.begin() + axis);
  give_reshaped(a, std::move(shape), a.batch - (axis < a.batch ? 1 : 0));
}

void SequenceOperators::slice() {
  const auto starts = to.integers_or(node, "starts", 1);
  const auto ends = to.integers_or(node, "ends", 2);
  const auto named = to.integers_or(node, "axes", 3);
  const auto steps = to.integers_or(node, "steps", 4);
  require<FormatError>(starts && ends && starts->size() == ends->size() &&
                           (!named || named->size() == starts->size()) &&
                           (!steps || steps->empty() || steps->size() == starts->size()),
                       "starts, ends, axes and steps must have the same length");
  for (const int64_t step : steps.value_or(std::vector<int64_t>{})) {
    expect(step == 1, "a step of {} is not supported", onnx_number(step));
  }
  OnnxValue a = any(0);
  for (size_t k = 0; k < starts->size(); ++k) {
    const int axis = onnx_axis(named ? (*named)[k] : static_cast<int64_t>(k), a.rank());
    int64_t& extent = a.shape[static_cast<size_t>(axis)];
    const auto within = [&](int64_t at) {
      return std::clamp<int64_t>(at < 0 ? std::max<int64_t>(at, -extent) + extent : at, 0,
                                 extent);
    };
    require<FormatError>(!is_batch((*starts)[k]) && (axis == a.batch || !is_batch((*ends)[k])),
                         "a range of axis {} depends on the number of samples", axis);
    const int64_t begin = within((*starts)[k]), end = within((*ends)[k]);
    if (axis == a.batch && keeps_samples((*starts)[k], (*ends)[k])) continue;
    require<FormatError>(axis != a.batch, "it would leave out samples, which are axis {}",
                         axis);
    require<FormatError>(begin < end, "it leaves no elements of axis {}", axis);
    if (begin == 0 && end == extent) continue;
    a.id = to.add(Slice{.axis = stored_axis(a, axis), .begin = begin, .end = end}, {a.id});
    extent = end - begin;
  }
  give(std::move(a));
}

void SequenceOperators::split() {
  const int64_t along = node.integer("axis", 0);
  const OnnxValue a = any(0);
  const int axis = onnx_axis(along, a.rank());
  require<OnnxMixedSamples>(axis != a.batch, "axis {} would split the batch", axis);
  give_parts(a.shape[static_cast<size_t>(axis)], [&](int64_t begin, int64_t size) {
    OnnxValue part = a;
    part.shape[static_cast<size_t>(axis)] = size;
    const Slice slice{.axis = stored_axis(a, axis), .begin = begin, .end = begin + size};
    part.id = to.add(slice, {a.id});
    return part;
  });
}

void SequenceOperators::concat() {
  const int64_t given = node.integer("axis", 0);
  OnnxValue result = any(0);
  const int axis = onnx_axis(given, result.rank());
  require<OnnxMixedSamples>(axis != result.batch, "axis {} would join samples", axis);
  std::vector<NodeId> ids = {result.id};
  for (int k = 1; k < node.inputs(); ++k) {
    const OnnxValue part = any(k);
    require<FormatError>(part.rank() == result.rank() && part.batch == result.batch,
                         "input {} has its batch on axis {}, input 0 on axis {}", k, part.batch,
                         result.batch);
    ids.push_back(part.id);
    result.shape[static_cast<size_t>(axis)] += part.shape[static_cast<size_t>(axis)];
  }
  const Concat op{.axis = stored_axis(result, axis), .count = static_cast<int>(ids.size())};
  result.id = to.add(op, ids, to.node_label(node, "concat"));
  give(std::move(result));
}

void SequenceOperators::shape() {
  const OnnxValue a = any(0);
  std::vector<int64_t> extents = a.shape;
  extents[static_cast<size_t>(a.batch)] = batch_times(a.shape[static_cast<size_t>(a.batch)]);
  const auto count = std::ssize(extents);
  const auto place = [&](const char* name, int64_t fallback) {
    const int64_t at = node.integer(name, fallback);
    return std::clamp<int64_t>(at < 0 ? at + count : at, 0, count);
  };
  const int64_t start = place("start", 0), end = std::max(start, place("end", count));
  give_integers({extents.begin() + start, extents.begin() + end});
}

namespace {

constexpr OnnxOperator sequence_rows[] = {{"Transpose", convert<&SequenceOperators::transpose>},
                                          {"Squeeze", convert<&SequenceOperators::squeeze>},
                                          {"Unsqueeze", convert<&SequenceOperators::unsqueeze>},
                                          {"Reshape", convert<&SequenceOperators::reshape>},
                                          {"Gather", convert<&SequenceOperators::gather>},
                                          {"Slice", convert<&SequenceOperators::slice>},
                                          {"Split", convert<&SequenceOperators::split>},
                                          {"Concat", convert<&SequenceOperators::concat>},
                                          {"Shape", convert<&SequenceOperators::shape>}};

/// True if a layer norm is over axes after `batch`, which stay where they are if the batch
/// moves to the front.
bool normalizes_after(const OnnxNode& node, int batch, int rank) {
  const auto axes = node.integers("axes").value_or(std::vector{node.integer("axis", -1)});
  return std::ranges::all_of(axes, [&](int64_t axis) { return onnx_axis(axis, rank) > batch; });
}

}  // namespace

int onnx_batch_axis(const onnx::ValueInfoProto& input, const std::set<std::string>& by_steps) {
  const auto& shape = input.type().tensor_type().shape();
  if (shape.dim_size() < 2 || !shape.dim(0).has_dim_value()) return 0;
  int open = 0;
  for (const auto& extent : shape.dim()) open += extent.has_dim_value() ? 0 : 1;
  const bool only = open == 1 && !shape.dim(1).has_dim_value() && shape.dim_size() == 3;
  if (by_steps.empty()) return only ? 1 : 0;
  return !shape.dim(1).has_dim_value() || (open == 0 && by_steps.contains(input.name())) ? 1
                                                                                         : 0;
}

void OnnxImporter::require_batch(const std::string& place, int64_t batch) {
  if (batch_place_.empty()) {
    batch_place_ = place;
    declared_batch_ = batch;
  }
  if (batch == declared_batch_) return;
  const auto text = [](int64_t each) {
    return each > 0 ? fmt::format("{}", each) : std::string("dynamic");
  };
  const std::string both = fmt::format("its batch is {}, that of {} is {}", text(batch),
                                       batch_place_, text(declared_batch_));
  if (batch > 1 || declared_batch_ > 1) {
    return problems_.add(place, both + ": all inputs need the same number of samples");
  }
  notes_.push_back(
      fmt::format("{}: {}; it is read as an input with a value for each sample", place, both));
}

void OnnxImporter::while_shown(const OnnxNode& node,
                               const std::function<void(OnnxValue&)>& show,
                               const std::function<void()>& convert) {
  std::map<std::string, OnnxValue> before;
  for (int k = 0; k < node.inputs(); ++k) {
    const auto found = values_.find(node.input(k));
    if (found == values_.end() || !before.emplace(found->first, found->second).second) continue;
    show(found->second);
  }
  const auto restore = [&] {
    for (auto& [name, value] : before) values_[name] = std::move(value);
  };
  try {
    convert();
  } catch (...) {
    restore();
    throw;
  }
  restore();
}

void OnnxImporter::with_batch_first(const OnnxNode& node, int batch,
                                    const std::function<void()>& convert) {
  const auto show = [](OnnxValue& shown) {
    std::rotate(shown.shape.begin(), shown.shape.begin() + shown.batch,
                shown.shape.begin() + shown.batch + 1);
    shown.batch = 0;
  };
  while_shown(node, show, convert);
  const auto made = values_.find(node.output(0));
  if (made == values_.end()) return;
  OnnxValue& y = made->second;
  require<FormatError>(y.layout == OnnxLayout::Same && batch < y.rank(),
                       "the batch of its result cannot be on axis {}", batch);
  std::rotate(y.shape.begin(), y.shape.begin() + 1, y.shape.begin() + batch + 1);
  y.batch = batch;
}

std::span<const OnnxOperator> sequence_conversions() { return sequence_rows; }

bool OnnxOperators::comes_before_samples(const OnnxValue& a) const {
  const auto axes = to.integers_or(node, "axes", 1);
  if (!axes) return false;
  const int rank = a.rank() + static_cast<int>(axes->size());
  return std::ranges::any_of(*axes, [&](int64_t axis) { return onnx_axis(axis, rank) == 0; });
}

bool OnnxOperators::is_of_sequences() const {
  for (const std::string_view type : {"GRU", "LSTM", "RNN"}) {
    if (node.type() == type) return false;
  }
  for (int k = 0; k < node.inputs(); ++k) {
    const OnnxValue* value = to.find_value(node.input(k));
    if (value != nullptr && value->batch != 0) return true;
  }
  const OnnxValue* moved = to.find_value(node.input(0));
  if (moved != nullptr && node.type() == "Unsqueeze") return comes_before_samples(*moved);
  if (moved == nullptr || node.type() != "Transpose") return false;
  const auto perm = node.integers("perm");
  return !perm || perm->empty() || (*perm)[0] != 0;
}

int OnnxOperators::batch_without_place() const {
  const std::string_view type = node.type();
  const bool last = type != "Gemm" && onnx_is_of_last_axis(type);
  int batch = -1, rank = 0;
  for (int k = 0; k < node.inputs(); ++k) {
    if (const OnnxConstant* constant = to.find_constant(node.input(k))) {
      if (last && (k == 0 && type == "MatMul")) return -1;
      if (last && !onnx_is_of_last_axis(*constant, type)) return -1;
      continue;
    }
    const OnnxValue* value = to.find_value(node.input(k));
    if (value == nullptr) continue;
    if (batch >= 0 && (value->batch != batch || value->rank() != rank || type == "MatMul")) {
      return -1;
    }
    batch = value->batch;
    rank = value->rank();
  }
  if (type == "Softmax" || type == "LogSoftmax") {
    const bool along_last = onnx_axis(node.integer("axis", -1), rank) + 1 == rank;
    return along_last && batch + 1 < rank ? batch : -1;
  }
  if (last && batch + 1 == rank) return -1;
  if (type == "LayerNormalization" && !normalizes_after(node, batch, rank)) return -1;
  return last || onnx_is_of_elements(type) ? batch : -1;
}

}  // namespace qtape
