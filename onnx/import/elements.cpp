#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "qtape/core/error.h"
#include "qtape/engine/constants.h"
#include "qtape/onnx/import/channels.h"
#include "qtape/onnx/import/module_paths.h"
#include "qtape/onnx/import/operators.h"

namespace qtape {
namespace {

struct ElementOperators : OnnxOperators {
  template <class X>
  void binary() {
    give(arithmetic(X{}, 0, 1));
  }
  template <class X>
  void extreme();
  void batch_normalization();
  void dropout();
};

}  // namespace

NodeId OnnxOperators::with_constant(OnnxValue& a, const OnnxConstant& constant,
                                    const std::string& name, bool trained) {
  require<FormatError>(constant.is_float, "'{}' must hold floats", printable(name));
  std::vector<int64_t> extents(constant.shape.extents().begin(),
                               constant.shape.extents().end());
  require<FormatError>(extents.size() <= a.shape.size(), "'{}' has more axes than the input",
                       printable(name));
  extents.insert(extents.begin(), a.shape.size() - extents.size(), 1);
  std::vector<float> numbers = constant.floats;
  require<FormatError>(
      extents.empty() || extents[0] == 1 || extents[0] != a.shape[0],
      "'{}' of [{}] differs between the rows of a sample on axis 0, which is not "
      "supported: give them an axis of their own",
      printable(name), fmt::join(extents, ", "));
  for (size_t k = 0; k < extents.size(); ++k) {
    const bool fits = extents[k] == a.shape[k] || a.shape[k] == 1;
    require<FormatError>(extents[k] == 1 || (k > 0 && fits),
                         "'{}' of [{}] does not broadcast to [{}]", printable(name),
                         fmt::join(extents, ", "), fmt::join(a.shape, ", "));
  }
  if (a.layout == OnnxLayout::Flat && a.shape[1] == 1) a = to.to_same(a);
  for (size_t k = 1; k < extents.size(); ++k) a.shape[k] = std::max(a.shape[k], extents[k]);
  if (a.layout == OnnxLayout::ChannelsLast) {
    int64_t places = 1;
    for (size_t k = 2; k < extents.size(); ++k) places *= extents[k];
    numbers = channels_behind(numbers, 1, extents[1], places);
    std::rotate(extents.begin() + 1, extents.begin() + 2, extents.end());
  } else if (a.layout == OnnxLayout::Flat && extents[1] > 1) {
    std::vector<float> ordered;
    for (const size_t from : OnnxImporter::flat_order(a.flat)) ordered.push_back(numbers[from]);
    numbers = std::move(ordered);
  }
  const auto first = std::ranges::find_if(extents, [](int64_t extent) { return extent != 1; });
  extents.erase(extents.begin(), first);
  if (extents.empty()) extents = {1};
  const Shape shape(extents);
  return trained ? to.add_parameter(name, shape, std::move(numbers))
                 : to.add_state(name, shape, std::move(numbers));
}

namespace {

bool is_number(const OnnxConstant& constant, int rank) {
  return constant.is_float && constant.shape.elements() == 1 && constant.shape.rank() <= rank;
}

}  // namespace

NodeId OnnxOperators::is_positive(NodeId x) { return to.add(Relu{}, {to.add(Signum{}, {x})}); }

NodeId OnnxOperators::with_number(const Op& op, NodeId x, double number, bool first) {
  require<FormatError>(
      std::isfinite(number),
      "the constant must be finite, got {}: use a number near the other operand's, such as -30 in "
      "a mask of scores",
      number);
  if (std::holds_alternative<Add>(op)) return to.add(Affine{.offset = number}, {x});
  if (std::holds_alternative<Sub>(op)) {
    return first ? to.add(Affine{.factor = -1, .offset = number}, {x})
                 : to.add(Affine{.offset = -number}, {x});
  }
  if (std::holds_alternative<Mul>(op)) return to.add(Affine{.factor = number}, {x});
  if (first) {
    const NodeId inverse = to.add(Pow{.exponent = -1}, {x});
    return number == 1 ? inverse : to.add(Affine{.factor = number}, {inverse});
  }
  require<FormatError>(std::isfinite(1 / number), "division by {}", number);
  return to.add(Affine{.factor = 1 / number}, {x});
}

namespace {

/// True for a product with weights, to which a bias can be added.
bool is_layer(const Graph& graph, NodeId id) {
  const Node& node = graph[id];
  if (!is_any<MatMul, Conv1d, Conv2d, ConvTranspose2d>(node.op)) return false;
  NodeId origin = node.operands[1];
  while (!graph[origin].operands.empty()) origin = graph[origin].operands[0];
  return !std::holds_alternative<Input>(graph[origin].op);
}

/// True for a constant that masks scores. A vector of other numbers next to those of a mask is
/// a bias, such as that of classes which must not be chosen.
bool is_mask(const OnnxConstant& constant) {
  const std::optional<float> bound = mask_bound(constant.floats);
  if (!bound) return false;
  const auto is_bias = [&](float each) { return each != 0 && each > *bound; };
  return constant.shape.rank() > 1 || std::ranges::none_of(constant.floats, is_bias);
}

/// Gives the value of the smaller rank axes of extent 1 after its batch. ONNX aligns the last
/// axes, so that this is the same for a single sample only.
void align(OnnxImporter& to, OnnxValue& a, OnnxValue& b) {
  OnnxValue& small = a.rank() < b.rank() ? a : b;
  const size_t rank = std::max(a.shape.size(), b.shape.size());
  if (small.shape.size() == rank) return;
  require<OnnxMixedSamples>(
      to.declared_batch() == 1 && small.shape[0] == 1,
      "inputs of {} and {} would mix samples: reshape them to the same rank",
      extents_text(a.shape), extents_text(b.shape));
  std::vector<int64_t> shape = small.shape;
  shape.insert(shape.begin(), rank - shape.size(), 1);
  shape[0] = 0;  // as the input
  small = to.reshaped(small, shape);
}

}  // namespace

OnnxValue OnnxOperators::combined(const Op& op, OnnxValue a, OnnxValue b) {
  align(to, a, b);
  const bool alike = a.layout == b.layout && a.flat == b.flat;
  if (!alike && (a.rank() == 3 || a.rank() == 4)) {
    a = to.to_channels_last(a);
    b = to.to_channels_last(b);
  } else if (!alike) {
    a = to.to_same(a);
    b = to.to_same(b);
  }
  OnnxValue result = a;
  for (size_t k = 0; k < result.shape.size(); ++k) {
    result.shape[k] = std::max(a.shape[k], b.shape[k]);
  }
  result.id = to.add(op, {a.id, b.id}, to.node_label(node, lower_case(name_of(op))));
  return result;
}

/// Converts Max and Min: a number among the inputs limits the others, and an array of several
/// numbers is an operand.
template <class X>
void ElementOperators::extreme() {
  constexpr bool larger = std::is_same_v<X, Maximum>;
  constexpr float most = std::numeric_limits<float>::max();
  std::optional<OnnxValue> a;
  std::optional<float> bound;
  int rank = 0;             // of the numbers
  std::vector<int> arrays;  // inputs
  for (int k = 0; k < node.inputs(); ++k) {
    if (to.is_constant(node.input(k))) {
      if (to.constant(node, k).shape.elements() != 1) {
        arrays.push_back(k);
        continue;
      }
      const float number = to.floats(node, k, 1)[0];
      rank = std::max(rank, to.constant(node, k).shape.rank());
      bound = bound ? X::value(*bound, number) : number;
    } else {
      OnnxValue next = operand(k);
      a = a ? combined(X{}, std::move(*a), std::move(next)) : std::move(next);
    }
  }
  require<FormatError>(a.has_value(), "all inputs are constants");
  for (const int k : arrays) a = with_operand(X{}, std::move(*a), k, false, true);
  require<FormatError>(rank <= a->rank(), "a number of rank {} would add axes to {}", rank,
                       extents_text(a->shape));
  if (bound == 0 && larger) {
    a->id = to.add(Relu{}, {a->id});
  } else if (bound) {
    a->id = to.add(
        larger ? Clamp{.low = *bound, .high = most} : Clamp{.low = -most, .high = *bound},
        {a->id});
  }
  give(std::move(*a));
}

OnnxValue OnnxOperators::arithmetic(const Op& op, int left, int right, bool trained) {
  const bool first = to.is_constant(node.input(left));
  return with_operand(op, operand(first ? right : left), first ? left : right, first, trained);
}

OnnxValue OnnxOperators::with_operand(const Op& op, OnnxValue a, int k, bool first,
                                      bool trained) {
  require<FormatError>(to.graph()[a.id].type.dtype != DType::S32,
                       "it computes with indices, which can only look up rows of a table");
  if (!to.is_constant(node.input(k))) return combined(op, std::move(a), operand(k));
  const OnnxConstant& given = to.constant(node, k);
  const bool booleans = !trained && !given.is_float;
  const OnnxConstant mask = booleans ? mask_of(given, true) : OnnxConstant{};
  const OnnxConstant& constant = booleans ? mask : given;
  if (is_number(constant, a.rank())) {
    a.id = with_number(op, a.id, double{constant.floats[0]}, first);
    return a;
  }
  // Training would change the elements of a mask that count.
  const bool masks = std::holds_alternative<Add>(op) && is_mask(constant);
  const NodeId c = with_constant(a, constant, node.input(k), trained && !masks);
  const Shape& shape = to.graph()[c].type.shape;
  const TensorType& type = to.graph()[a.id].type;
  const bool bias = std::holds_alternative<Add>(op) && !masks && shape.rank() == 1 &&
                    shape[0] == type.shape[-1] && shape[0] > 1 && is_layer(to.graph(), a.id);
  a.id = bias    ? to.add(AddBias{}, {a.id, c})
         : first ? to.add(op, {c, a.id})
                 : to.add(op, {a.id, c});
  return a;
}

void ElementOperators::batch_normalization() {
  require<FormatError>(node.integer("training_mode", 0) == 0,
                       "exported in training mode: call model.eval() before the export");
  expect_attribute("spatial", 1);
  // ONNX's momentum is the weight of the old statistics. PyTorch writes 1 for momentum=None, an
  // average over all batches, with which statistics would never change.
  const float old_weight = node.real("momentum", 0.9f);
  if (old_weight == 1) {
    to.add_note(
        fmt::format("{}: running statistics change in training with ONNX's default "
                    "momentum of 0.9 instead of 1, which would keep them",
                    node.describe()));
  }
  const BatchNorm op{.momentum = 1.0 - double{old_weight == 1 ? 0.9f : old_weight},
                     .eps = static_cast<double>(node.real("epsilon", 1e-5f))};
  for (int k = 1; k < 5; ++k) expect_weights(k, 1, "floats of rank 1");
  OnnxValue a = x();
  if (a.rank() >= 3) a = to.to_channels_last(a);
  require<FormatError>(a.rank() >= 2, "input 0 has rank {}", a.rank());
  const int64_t channels = a.shape[1];
  const auto numbers = [&](int k) {
    std::vector<float> found = to.floats(node, k, channels);
    if (a.layout != OnnxLayout::Flat) return found;
    std::vector<float> ordered;
    for (const size_t from : OnnxImporter::flat_order(a.flat)) ordered.push_back(found[from]);
    return ordered;
  };
  const Shape shape{channels};
  const std::string label = to.layer_label(node);
  const NodeId gamma = to.add_parameter(node.input(1), shape, numbers(1), label, "weight");
  const NodeId beta = to.add_parameter(node.input(2), shape, numbers(2), label, "bias");
  const NodeId mean = to.add_state(node.input(3), shape, numbers(3));
  const NodeId variance = to.add_state(node.input(4), shape, numbers(4));
  a.id = to.add(op, {a.id, gamma, beta, mean, variance}, label);
  give(std::move(a));
}

void ElementOperators::dropout() {
  float rate = node.real("ratio", 0.5f);
  if (to.has_input(node, 1)) rate = to.floats(node, 1, 1)[0];
  OnnxValue a = x();
  a.id = to.add(Dropout{.rate = static_cast<double>(rate)}, {a.id});
  give(std::move(a));
}

namespace {

constexpr OnnxOperator element_rows[] = {
    {"Add", convert<&ElementOperators::binary<Add>>},
    {"Sub", convert<&ElementOperators::binary<Sub>>},
    {"Mul", convert<&ElementOperators::binary<Mul>>},
    {"Div", convert<&ElementOperators::binary<Div>>},
    {"Max", convert<&ElementOperators::extreme<Maximum>>},
    {"Min", convert<&ElementOperators::extreme<Minimum>>},
    {"BatchNormalization", convert<&ElementOperators::batch_normalization>},
    {"Dropout", convert<&ElementOperators::dropout>, true},
    {"Identity", convert<&ElementOperators::same>, true}};

}  // namespace

std::span<const OnnxOperator> element_conversions() { return element_rows; }

}  // namespace qtape
