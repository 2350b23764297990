// Named tensors that outlive a step: what is trained, and the states beside it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "qtape/ops/core/aligned.h"
#include "qtape/ops/core/error.h"
#include "qtape/ops/core/types.h"

namespace qtape {

class Graph;

/// One named tensor. Pointers stay valid as long as the Parameters that own them.
struct ParameterEntry {
  std::string name;
  TensorType type;
  std::byte* value = nullptr;
  std::byte* gradient = nullptr;  ///< null for a state

  bool trainable() const { return gradient != nullptr; }
  int64_t elements() const { return type.elements(); }
  template <class T>
  std::span<T> values() const {
    return {reinterpret_cast<T*>(value), static_cast<size_t>(elements())};
  }
  template <class T>
  std::span<T> gradients() const {
    return {reinterpret_cast<T*>(gradient), static_cast<size_t>(elements())};
  }
};

/// Values and gradients of a graph's Parameter leaves, and values of its State leaves,
/// persistent and 64-byte aligned. Several tapes share one Parameters. Movable, not copyable.
class Parameters {
 public:
  /// Allocates every Parameter and State leaf of `graph` and fills it by its initialiser. The
  /// values depend on `seed` and the leaf's name only.
  Parameters(const Graph& graph, uint64_t seed);

  /// All entries, in graph order.
  std::span<const ParameterEntry> entries() const { return entries_; }
  /// The entry called `name`, or nullptr.
  const ParameterEntry* find(std::string_view name) const;
  /// The entry called `name`; throws GraphError when there is none.
  const ParameterEntry& at(std::string_view name) const;

  /// The value of `name` as an owned tensor.
  Tensor get(std::string_view name) const;
  /// Replaces the value of `name`; throws GraphError for another dtype or shape.
  void set(std::string_view name, const Tensor& tensor);

  /// Sets all gradients to 0: needed only with tapes that accumulate into them.
  void zero_gradients();
  /// SHA-256 over names, types and values in graph order, in hexadecimal.
  std::string sha256() const;
  /// Elements of all trainable entries.
  int64_t trainable_elements() const;

 private:
  AlignedBuffer memory_;
  std::vector<ParameterEntry> entries_;
  std::map<std::string, size_t, std::less<>> index_;
};

/// A named set of settings and tensors: how an optimizer or a schedule hands itself to a
/// checkpoint without the file format knowing about it.
struct Section {
  using Setting = std::variant<bool, int64_t, double, std::string>;
  std::string kind;
  std::map<std::string, Setting> settings;
  std::map<std::string, Tensor> tensors;
  bool operator==(const Section&) const = default;
};

}  // namespace qtape
