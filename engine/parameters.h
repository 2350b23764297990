// Named persistent tensors: trained parameters and states.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/core/aligned.h"
#include "qtape/core/error.h"
#include "qtape/core/types.h"

namespace qtape {

class Graph;

/// A named tensor. The pointers are valid as long as the Parameters that own the tensor, which
/// may be moved.
struct ParameterEntry {
  std::string name = {};
  TensorType type = {};
  std::byte* value = nullptr;
  std::byte* gradient = nullptr;  ///< null for a state

  bool trainable() const { return gradient != nullptr; }
  int64_t elements() const { return type.elements(); }
  /// Elements of the value. Throws GraphError if T is not the dtype.
  template <Element T>
  std::span<T> values() const {
    check_dtype(dtype_of<T>);
    return {reinterpret_cast<T*>(value), static_cast<size_t>(elements())};
  }
  /// Elements of the gradient. Throws GraphError if T is not the dtype, and for a state.
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

/// Values and gradients of a graph's Parameter leaves, and values of its State leaves:
/// persistent and 64-byte aligned. Several tapes can share one Parameters.
///
/// Movable, not copyable. Moving leaves the memory in place, and tapes and optimizers follow
/// their Parameters to its new location. After it is destroyed or assigned to, their next step
/// throws GraphError. A moved-from Parameters can be assigned to or destroyed; everything else
/// throws GraphError.
class Parameters {
 public:
  /// Allocates every Parameter and State leaf of `graph` and initialises it. The values depend
  /// only on `seed` and the leaf's name.
  Parameters(const Graph& graph, uint64_t seed);
  Parameters(Parameters&& other) noexcept;
  Parameters& operator=(Parameters&& other) noexcept;
  ~Parameters();

  /// All entries, in graph order.
  std::span<const ParameterEntry> entries() const&;
  /// Entries of a temporary would not outlive it.
  std::span<const ParameterEntry> entries() && = delete;
  /// Entry with the name `name`, or nullptr.
  const ParameterEntry* find(std::string_view name) const;
  /// Entry with the name `name`. Throws GraphError if there is none.
  const ParameterEntry& at(std::string_view name) const;

  /// Returns a copy of the value of `name`.
  Tensor get(std::string_view name) const;
  /// Replaces the value of `name`. Throws GraphError for a different dtype or shape.
  void set(std::string_view name, const Tensor& tensor);
  /// Throws as `set` would, without changing anything.
  void check_value(std::string_view name, const Tensor& tensor) const;

  /// Sets all gradients to 0. Only needed with tapes that accumulate gradients.
  void zero_gradients();
  /// SHA-256 of names, types and values in graph order, in hexadecimal.
  std::string sha256() const;
  /// Number of elements of all trainable entries.
  int64_t trainable_elements() const;

 private:
  friend class ParametersLink;

  void let_go();

  AlignedBuffer memory_;
  std::vector<ParameterEntry> entries_;
  std::map<std::string, size_t, std::less<>> index_;
  std::shared_ptr<Parameters*> self_;  // shared with links; null after a move
};

/// Reference of a tape or an optimizer to its Parameters, which it follows when they are moved.
class ParametersLink {
 public:
  /// Throws GraphError if `parameters` were moved from.
  explicit ParametersLink(const Parameters& parameters);
  /// The Parameters at their current location. Throws GraphError, with the name `holder` of the
  /// link's owner (such as "tape"), if they were destroyed or assigned to.
  Parameters& get(std::string_view holder) const;

 private:
  std::shared_ptr<Parameters* const> parameters_;
};

}  // namespace qtape
