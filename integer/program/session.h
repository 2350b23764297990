// Session: an integer program bound to memory, run by the fast kernels or by the reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "qtape/core/held.h"
#include "qtape/core/thread_count.h"
#include "qtape/core/types.h"
#include "qtape/integer/program/integer_program.h"
#include "qtape/integer/program/kept_values.h"

namespace qtape {

/// Options of a session.
struct SessionOptions {
  /// Run plain loops over integers in one thread: the oracle that all other kernels must match.
  bool reference = false;
  int threads = default_threads();  ///< at least 1
  /// Values to keep; the reference keeps all.
  KeptValues kept = KeptValues::Outputs;
};

struct SessionHooks;

/// The constructor binds the program; runs make no allocations of their own. Must not be used
/// by two threads at once. Movable, not copyable; a moved-from session can be assigned to or
/// destroyed, everything else throws GraphError.
class IntegerSession {
 public:
  /// Throws ArgumentError for fewer than one thread and GraphError if oneDNN rejects a product.
  IntegerSession(const IntegerProgram& program, SessionOptions options);
  /// Session with hooks for tests, see integer/program/session_hooks.h.
  IntegerSession(const IntegerProgram& program, SessionOptions options,
                 const SessionHooks& hooks);
  IntegerSession(IntegerSession&&) noexcept;
  IntegerSession& operator=(IntegerSession&&) noexcept;
  ~IntegerSession();

  /// Returns the memory of an input in its shape, to be filled before a run: of f32 or, for
  /// indices, of int32_t. Throws GraphError for other nodes and if T is not the dtype.
  template <class T = float>
  std::span<T> input(ProgramNodeId id) {
    const std::span<std::byte> found = input_bytes(id, dtype_of<T>);
    return {reinterpret_cast<T*>(found.data()), found.size() / sizeof(T)};
  }
  template <class T = float>
  std::span<T> input(std::string_view label) {
    return input<T>(program().at(label));
  }

  /// Runs the program. Throws GraphError, naming input and element, for NaN and for indices out
  /// of range; values are undefined then, but the session can be run again.
  void run();

  /// Returns the value of a node. Throws GraphError if T is not its dtype or the value is not
  /// kept.
  template <class T>
  std::span<const T> value(ProgramNodeId id) const {
    const std::span<const std::byte> found = bytes(id, dtype_of<T>);
    return {reinterpret_cast<const T*>(found.data()), found.size() / sizeof(T)};
  }
  template <class T>
  std::span<const T> value(std::string_view label) const {
    return value<T>(program().at(label));
  }
  /// Returns element i of codes or accumulators of any dtype. Throws GraphError for an index
  /// out of range.
  int64_t integer(ProgramNodeId id, int64_t i) const;
  /// Returns the value of a node as stored in memory. Throws GraphError if it is not kept.
  std::span<const std::byte> bytes(ProgramNodeId id) const;
  /// True if the value of the node is kept.
  bool has_value(ProgramNodeId id) const;

  const IntegerProgram& program() const;
  /// Explains how each product with weights runs and why, one per line.
  std::string report() const;

 private:
  class Bound;

  /// Like the public `bytes`. Throws GraphError if the value has another dtype.
  std::span<const std::byte> bytes(ProgramNodeId id, DType dtype) const;
  /// Memory of an input. Throws GraphError for other nodes and another dtype.
  std::span<std::byte> input_bytes(ProgramNodeId id, DType dtype);

  Held<Bound> bound_;
};

}  // namespace qtape
