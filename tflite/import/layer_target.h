// The target that the operators of a file are made into: an integer program or a model.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "qtape/core/printable.h"
#include "qtape/tflite/import/layers.h"

namespace qtape::tflite {

/// Thrown at an operator whose operand could not be read.
struct Unknown {};

/// Functions throw GraphError with the reason why something cannot be added.
class LayerTarget {
 public:
  virtual ~LayerTarget() = default;
  /// True if the operator of the row can be added.
  virtual bool takes(const OperatorReader& row) const = 0;
  virtual void add_input(int32_t tensor) = 0;
  /// Adds the operator of the view.
  virtual void add(const Layer& layer) = 0;
  virtual bool has_value(int32_t tensor) const = 0;
  /// Adds a tensor that has a value to the outputs.
  virtual void add_output(int32_t tensor) = 0;
};

/// Reads a whole model. Throws FormatError with a list of everything that is not supported, in
/// order.
void read_model(OperatorView& view, LayerTarget& target);

/// The values of tensors.
template <class T>
class TensorValues {
 public:
  explicit TensorValues(const OperatorView& view)
      : view_(view), values_(view.model().tensors.size()) {}

  const std::optional<T>& find(int32_t tensor) const {
    return values_[static_cast<size_t>(tensor)];
  }
  /// Sets the value of a constant.
  void keep(int32_t tensor, const T& value) { values_[static_cast<size_t>(tensor)] = value; }
  /// Sets the value of an input or of an operator.
  void set(int32_t tensor, const T& value) {
    const TfliteTensor& own = view_.tensor(tensor);
    check(!find(tensor), "tensor '{}' is computed twice", printable(own.name));
    check(!view_.is_constant(own), "tensor '{}' is computed and has data", printable(own.name));
    keep(tensor, value);
  }
  /// Throws for a tensor of which neither is known, and for a variable.
  const std::optional<T>& known(size_t k) const {
    const TfliteTensor& own = view_.input(k);
    check(!own.is_variable, "tensor '{}' is a variable, expected an activation or a constant",
          printable(own.name));
    const std::optional<T>& found = find(view_.op().inputs[k]);
    if (!found && !view_.is_constant(own)) throw Unknown{};
    return found;
  }

 private:
  const OperatorView& view_;
  std::vector<std::optional<T>> values_;
};

/// Names of nodes, each used once.
class NodeNames {
 public:
  /// Returns `name`, or it with the next number for which `taken` is false. An empty name stays
  /// empty.
  template <class Taken>
  std::string unused(const std::string& name, const Taken& taken) {
    if (name.empty() || !taken(name)) return name;
    for (int& number = copies_.try_emplace(name, 1).first->second;;) {
      const std::string other = fmt::format("{}_{}", name, ++number);
      if (!taken(other)) return other;
    }
  }

 private:
  std::map<std::string, int> copies_;  // numbers in use, by name
};

}  // namespace qtape::tflite
