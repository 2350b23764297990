#include "qtape/model/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "qtape/model/building.h"

namespace qtape {
namespace {
using detail::Building;
}  // namespace

Value::Value(std::shared_ptr<detail::Building> building, NodeId id)
    : building_(std::move(building)), id_(id) {}

const Graph& Value::graph() const { return building_->graph; }

Shape Value::shape() const {
  const Shape& shape = graph()[id_].type.shape;
  const bool batched = graph().batch() && shape.rank() > 0 && shape[0] == 1;
  return batched ? shape.without_first() : shape;
}

DType Value::dtype() const { return graph()[id_].type.dtype; }

Network::Network() : building_(std::make_shared<detail::Building>()) {}

Value Network::input(std::string label, const Shape& sample, DType dtype) {
  std::vector<int64_t> extents = {1};
  extents.insert(extents.end(), sample.extents().begin(), sample.extents().end());
  const Input op{.dtype = dtype, .shape = Shape(extents)};
  return {building_, building_->graph.add(op, {}, std::move(label))};
}

Value Network::parameter(std::string label, const Shape& shape, Initializer initializer) {
  const Parameter op{.shape = shape, .initializer = initializer};
  return {building_, building_->graph.add(op, {}, std::move(label))};
}

Value Network::constant(Tensor tensor) {
  return {building_, building_->graph.add(Constant{std::move(tensor)}, {})};
}

Value node(Op op, std::span<const Value> operands, std::string label) {
  require<GraphError>(!operands.empty(),
                      "{}: expected at least one value; a Network adds nodes without operands",
                      name_of(op));
  const auto& building = Building::of(operands[0]);
  std::vector<NodeId> ids;
  for (const Value& each : operands) {
    require<GraphError>(Building::of(each) == building,
                        "{}: the values belong to different networks", name_of(op));
    ids.push_back(each.id());
  }
  return {building, building->graph.add(std::move(op), ids, std::move(label))};
}

Value node(Op op, std::initializer_list<Value> operands, std::string label) {
  return node(std::move(op), std::span(operands.begin(), operands.size()), std::move(label));
}

namespace {

/// Converts an axis of a sample to an axis of a batch.
int axis_of_sample(const Value& x, int axis) {
  const int rank = std::max(0, x.graph()[x.id()].type.shape.rank() - 1);
  require<GraphError>(axis >= -rank && axis < rank,
                      "{}: axis {} is out of range for samples of rank {}",
                      x.graph().describe(x.id()), axis, rank);
  return axis < 0 ? axis : axis + 1;
}

std::vector<int> axes_of_sample(const Value& x, std::vector<int> axes) {
  require<GraphError>(!axes.empty(), "{}: expected at least one axis of the sample",
                      x.graph().describe(x.id()));
  for (int& axis : axes) axis = axis_of_sample(x, axis);
  return axes;
}

}  // namespace

Value relu(const Value& x) { return node(Relu{}, {x}); }
Value relu6(const Value& x) { return node(Relu6{}, {x}); }
Value tanh(const Value& x) { return node(Tanh{}, {x}); }
Value sigmoid(const Value& x) { return node(Sigmoid{}, {x}); }
Value gelu(const Value& x) { return node(Gelu{}, {x}); }
Value exp(const Value& x) { return node(Exp{}, {x}); }
Value log(const Value& x) { return node(Log{}, {x}); }
Value sqrt(const Value& x) { return node(Sqrt{}, {x}); }
Value abs(const Value& x) { return node(Abs{}, {x}); }
Value square(const Value& x) { return node(Mul{}, {x, x}); }
Value clamp(const Value& x, double low, double high) {
  return node(Clamp{.low = low, .high = high}, {x});
}
Value mean(const Value& x) { return node(Mean{}, {x}); }
Value mean(const Value& x, const std::vector<int>& axes) {
  return node(Mean{.axes = axes_of_sample(x, axes)}, {x});
}
Value sum(const Value& x) { return node(Sum{}, {x}); }
Value sum(const Value& x, const std::vector<int>& axes) {
  return node(Sum{.axes = axes_of_sample(x, axes)}, {x});
}
Value flatten(const Value& x) { return node(Flatten{}, {x}); }

namespace {

/// Returns the number of elements of a sample of `extents`, to which x is reshaped. Throws
/// GraphError for extents that no tensor has.
int64_t elements_of(const Value& x, const std::vector<int64_t>& extents) {
  return naming<GraphError>(x.graph().describe(x.id()),
                            [&] { return Shape(extents).elements(); });
}

}  // namespace

Value reshape(const Value& x, const std::vector<int64_t>& sample) {
  const bool open = std::ranges::find(sample, -1) != sample.end();
  std::vector<int64_t> shape = sample;
  if (open) {  // the batch extent uses the only extent that may be -1
    std::ranges::replace(shape, int64_t{-1}, int64_t{1});
    const int64_t known = elements_of(x, shape);
    shape = sample;
    const int64_t elements = x.shape().elements();
    require<GraphError>(std::ranges::count(sample, -1) == 1,
                        "{}: only one extent may be -1, got {}", x.graph().describe(x.id()),
                        fmt::join(sample, ", "));
    require<GraphError>(known > 0 && elements % known == 0,
                        "{}: {} elements of a sample do not divide into {}",
                        x.graph().describe(x.id()), elements, fmt::join(sample, ", "));
    std::ranges::replace(shape, int64_t{-1}, elements / known);
  }
  const int64_t wanted = elements_of(x, shape);
  require<GraphError>(wanted == x.shape().elements(),
                      "{}: a sample {} has {} elements, reshaped to [{}] it would have {}",
                      x.graph().describe(x.id()), to_string(x.shape()), x.shape().elements(),
                      fmt::join(sample, ", "), wanted);
  shape.insert(shape.begin(), -1);
  return node(Reshape{.shape = std::move(shape)}, {x});
}

Value max_pool(const Value& x, const Shape& kernel) {
  return node(MaxPool{.kernel = kernel, .stride = kernel}, {x});
}
Value avg_pool(const Value& x, const Shape& kernel) {
  return node(AvgPool{.kernel = kernel, .stride = kernel}, {x});
}
Value global_avg_pool(const Value& x) { return node(GlobalAvgPool{}, {x}); }
Value dropout(const Value& x, double rate) { return node(Dropout{.rate = rate}, {x}); }

Value concat(std::initializer_list<Value> parts, int axis) {
  return concat(std::span(parts.begin(), parts.size()), axis);
}

Value concat(std::span<const Value> parts, int axis) {
  const int of_batch = parts.empty() ? axis : axis_of_sample(parts[0], axis);
  return node(Concat{.axis = of_batch, .count = static_cast<int>(parts.size())}, parts);
}

namespace {

/// Returns x with extents of 1 between the batch and the axes of its samples, so that the whole
/// has `rank` axes.
Value with_rank(const Value& x, int rank) {
  const Shape sample = x.shape();
  std::vector<int64_t> shape(static_cast<size_t>(rank - sample.rank()), 1);
  shape[0] = -1;
  shape.insert(shape.end(), sample.extents().begin(), sample.extents().end());
  return node(Reshape{.shape = std::move(shape)}, {x});
}

bool batched(const Value& x) { return x.shape().rank() < x.graph()[x.id()].type.shape.rank(); }

/// Returns the result of an op that broadcasts. Samples of fewer axes are aligned at the last
/// one, as in NumPy; the graph would align them with the batch.
Value per_sample(Op op, const Value& a, const Value& b) {
  const int rank_a = a.graph()[a.id()].type.shape.rank();
  const int rank_b = b.graph()[b.id()].type.shape.rank();
  if (rank_a < rank_b && batched(a)) return node(std::move(op), {with_rank(a, rank_b), b});
  if (rank_b < rank_a && batched(b)) return node(std::move(op), {a, with_rank(b, rank_a)});
  return node(std::move(op), {a, b});
}

}  // namespace

Value operator+(const Value& a, const Value& b) { return per_sample(Add{}, a, b); }
Value operator-(const Value& a, const Value& b) { return per_sample(Sub{}, a, b); }
Value operator*(const Value& a, const Value& b) { return per_sample(Mul{}, a, b); }
Value operator/(const Value& a, const Value& b) { return per_sample(Div{}, a, b); }
Value operator-(const Value& x) { return node(Neg{}, {x}); }

Value operator+(const Value& x, double number) { return node(Affine{.offset = number}, {x}); }
Value operator+(double number, const Value& x) { return x + number; }
Value operator-(const Value& x, double number) { return node(Affine{.offset = -number}, {x}); }
Value operator-(double number, const Value& x) {
  return node(Affine{.factor = -1, .offset = number}, {x});
}
Value operator*(const Value& x, double number) { return node(Affine{.factor = number}, {x}); }
Value operator*(double number, const Value& x) { return x * number; }

Value operator/(const Value& x, double number) {
  require<GraphError>(std::isfinite(number) && number != 0,
                      "{}: a divisor must be finite and not 0, got {}",
                      x.graph().describe(x.id()), number);
  return x * (1 / number);
}

Value operator/(double number, const Value& x) {
  const auto& building = Building::of(x);
  const Tensor value = dispatch_compute(x.dtype(), [&]<class T>() {
    const auto element = static_cast<T>(number);
    require<GraphError>(std::isfinite(element), "{}: a number to divide must be finite, got {}",
                        x.graph().describe(x.id()), number);
    return Tensor::of<T>({}, std::span(&element, 1));
  });
  return building->graph.all_or_nothing([&] {
    const NodeId constant = building->graph.add(Constant{value}, {});
    return Building::value(building, constant) / x;
  });
}

}  // namespace qtape
