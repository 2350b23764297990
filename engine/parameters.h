// Named tensors that outlive a step: what is trained, and the states beside it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "qtape/core/aligned.h"
#include "qtape/core/error.h"
#include "qtape/core/types.h"

namespace qtape {

class Graph;

/// One named tensor. Pointers stay valid as long as the Parameters that own them, which may
/// move.
struct ParameterEntry {
  std::string name = {};
  TensorType type = {};
  std::byte* value = nullptr;
  std::byte* gradient = nullptr;  ///< null for a state

  bool trainable() const { return gradient != nullptr; }
  int64_t elements() const { return type.elements(); }
  /// The value's elements. Throws GraphError when T is not the dtype.
  template <Element T>
  std::span<T> values() const {
    check_dtype(dtype_of<T>);
    return {reinterpret_cast<T*>(value), static_cast<size_t>(elements())};
  }
  /// The gradient's elements. Throws GraphError when T is not the dtype, and for a state.
  template <Element T>
  std::span<T> gradients() const {
    check_dtype(dtype_of<T>);
    check_trainable();
    return {reinterpret_cast<T*>(gradient), static_cast<size_t>(elements())};
  }

 private:
  void check_dtype(DType dtype) const;
  void check_trainable() const;
};

/// Values and gradients of a graph's Parameter leaves, and values of its State leaves,
/// persistent and 64-byte aligned. Several tapes share one Parameters.
///
/// Movable, not copyable. Tapes and optimizers follow their Parameters to where it is moved,
/// and its memory stays in place. Once it is destroyed, or another is assigned to it, their
/// next step is a GraphError. A Parameters that was moved from may be assigned to or destroyed;
/// everything else throws GraphError.
class Parameters {
 public:
  /// Allocates every Parameter and State leaf of `graph` and fills it by its initialiser. The
  /// values depend on `seed` and the leaf's name only.
  Parameters(const Graph& graph, uint64_t seed);
  Parameters(Parameters&& other) noexcept;
  Parameters& operator=(Parameters&& other) noexcept;
  ~Parameters();

  /// All entries, in graph order.
  std::span<const ParameterEntry> entries() const;
  /// The entry called `name`, or nullptr.
  const ParameterEntry* find(std::string_view name) const;
  /// The entry called `name`; throws GraphError when there is none.
  const ParameterEntry& at(std::string_view name) const;

  /// The value of `name` as an owned tensor.
  Tensor get(std::string_view name) const;
  /// Replaces the value of `name`; throws GraphError for another dtype or shape.
  void set(std::string_view name, const Tensor& tensor);
  /// Throws what `set` would throw, and changes nothing.
  void check_value(std::string_view name, const Tensor& tensor) const;

  /// Sets all gradients to 0: needed only with tapes that accumulate into them.
  void zero_gradients();
  /// SHA-256 over names, types and values in graph order, in hexadecimal.
  std::string sha256() const;
  /// Elements of all trainable entries.
  int64_t trainable_elements() const;

 private:
  friend class ParametersLink;

  void let_go();

  AlignedBuffer memory_;
  std::vector<ParameterEntry> entries_;
  std::map<std::string, size_t, std::less<>> index_;
  std::shared_ptr<Parameters*> self_;  // where links find this; null once moved from
};

/// How a tape or an optimizer holds its Parameters: it follows them when they are moved.
class ParametersLink {
 public:
  /// Throws GraphError for `parameters` that were moved from.
  explicit ParametersLink(Parameters& parameters);
  /// The Parameters, where they are now. Throws GraphError, in which `holder` names what holds
  /// the link ("tape"), once they were destroyed or others were assigned to them.
  Parameters& get(std::string_view holder) const;

 private:
  std::shared_ptr<Parameters* const> parameters_;
};

}  // namespace qtape
