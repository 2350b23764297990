// Losses of values.
#include <cmath>

#include "qtape/core/error.h"
#include "qtape/engine/labels.h"
#include "qtape/model/building.h"
#include "qtape/model/value.h"

namespace qtape {
namespace {
using detail::Building;
}  // namespace

namespace loss {
namespace {

/// Returns a new input of the type of y, with which y is compared.
Value target_of(const Value& y) {
  const auto& building = Building::of(y);
  const TensorType& type = y.graph()[y.id()].type;
  const NodeId target = building->graph.add(Input{.dtype = type.dtype, .shape = type.shape}, {},
                                            unused_label(building->graph, "target"));
  return Building::value(building, target);
}

/// Returns the result of `add`, which adds nodes to the network of y, or adds nothing.
template <class Add>
Value all_or_nothing(const Value& y, const Add& add) {
  return Building::of(y)->graph.all_or_nothing(add);
}

/// Adds the last node of a loss.
Value finish(Op op, std::initializer_list<Value> operands) {
  return node(std::move(op), operands,
              unused_label(Building::of(*operands.begin())->graph, "loss"));
}

}  // namespace

Value cross_entropy(const Value& logits) {
  const auto& building = Building::of(logits);
  return all_or_nothing(logits, [&] {
    const Input labels{.dtype = DType::S32, .shape = {1}};
    const NodeId target =
        building->graph.add(labels, {}, unused_label(building->graph, "labels"));
    return finish(SoftmaxCrossEntropy{}, {logits, Building::value(building, target)});
  });
}

Value mean_squared_error(const Value& y) {
  return all_or_nothing(y, [&] { return finish(MeanSquaredError{}, {y, target_of(y)}); });
}

Value l1(const Value& y) {
  return all_or_nothing(y, [&] { return finish(Mean{}, {abs(y - target_of(y))}); });
}

Loss huber(double delta) {
  require<ArgumentError>(std::isfinite(delta) && delta > 0,
                         "huber: delta must be finite and above 0, got {}", delta);
  return [delta](const Value& y) {
    return all_or_nothing(y, [&] {
      const Value d = y - target_of(y);
      const Value c = clamp(d, -delta, delta);
      return finish(Mean{}, {c * (d - c / 2)});
    });
  };
}

}  // namespace loss

}  // namespace qtape
