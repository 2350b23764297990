#include "qtape/onnx/import/sequence_items.h"

#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "qtape/onnx/attributes.h"
#include "qtape/onnx/onnx_node.h"

namespace qtape {
namespace {

using Integers = OnnxGraphView::Integers;

/// Returns the first element of the part `index`, counted from the end if negative, and the one
/// after its last.
std::optional<std::pair<int64_t, int64_t>> part(const std::optional<Integers>& sizes,
                                                int64_t index) {
  constexpr int64_t limit = std::numeric_limits<int32_t>::max();
  if (index < -limit || index > limit) return std::nullopt;
  if (!sizes) return std::pair(index, index == -1 ? limit : index + 1);
  if (sizes->values.empty()) return std::nullopt;
  for (const int64_t each : sizes->values) {
    if (each < 0 || each > limit) return std::nullopt;
  }
  if (sizes->rank == 0) {
    // Where the last part begins depends on the extent.
    if (index < 0) return std::nullopt;
    return std::pair(index * sizes->values[0], (index + 1) * sizes->values[0]);
  }
  const auto number = std::ssize(sizes->values);
  if (index < 0) index += number;
  if (index < 0 || index >= number) return std::nullopt;
  const auto end = sizes->values.begin() + index;
  const int64_t first = std::accumulate(sizes->values.begin(), end, int64_t{0});
  return std::pair(first, first + *end);
}

void replace(OnnxGraphView& view, int at) {
  const onnx::NodeProto& item = view.graph().node(at);
  if (item.op_type() != "SequenceAt" || !item.domain().empty() || item.input_size() != 2)
    return;
  const onnx::NodeProto* split = view.node_of(item.input(0), "SplitToSequence");
  const auto index = view.integers(item.input(1));
  if (split == nullptr || !index || index->values.size() != 1 || index->rank != 0) return;
  const OnnxNode attributes(*split);
  const bool sized = split->input_size() > 1 && !split->input(1).empty();
  const auto sizes = sized ? view.integers(split->input(1)) : std::nullopt;
  if (sized && !sizes) return;
  const int64_t axis = attributes.integer("axis", 0);
  const std::string x = split->input(0);
  // ONNX Runtime ignores keepdims for other sizes than 1.
  const bool of_one = !sized || (sizes->rank == 0 && sizes->values == std::vector<int64_t>{1});
  if (attributes.integer("keepdims", 1) == 0 && of_one) {
    return set_attribute(view.replace(at, "Gather", {x, item.input(1)}), "axis", axis);
  }
  const auto range = part(sizes, index->values[0]);
  if (!range) return;
  const std::string name = item.output(0);
  const auto constant = [&](const char* end, int64_t value) {
    return view.add_integers(name + end, {value});
  };
  (void)view.replace(at, "Slice",
                     {x, constant(".begin", range->first), constant(".end", range->second),
                      constant(".axis", axis)});
}

}  // namespace

void replace_sequence_items(OnnxGraphView& view) {
  for (int i = 0; i < view.graph().node_size(); ++i) replace(view, i);
}

}  // namespace qtape
