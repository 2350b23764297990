// Session: an integer program bound to memory, run by the fast kernels or by the reference.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/core/aligned.h"
#include "qtape/core/thread_count.h"
#include "qtape/integer/program_plan.h"

namespace qtape {

/// How a program runs, and what stays readable.
struct SessionOptions {
  /// Plain loops over integers, in one thread: the oracle that everything else must equal.
  bool reference = false;
  int threads = default_threads();  ///< at least 1
  /// The reference keeps all.
  KeptValues kept = KeptValues::Outputs;
};

struct SessionHooks;

/// Binds in the constructor; a run allocates nothing of ours. Not for use by two threads at
/// once. Movable, not copyable.
class IntegerSession {
 public:
  /// Throws ArgumentError for fewer than one thread, GraphError when oneDNN refuses a product.
  IntegerSession(const IntegerProgram& program, SessionOptions options);
  /// The same as tests ask for it, see integer/session_hooks.h.
  IntegerSession(const IntegerProgram& program, SessionOptions options,
                 const SessionHooks& hooks);

  /// The memory of an input, f32 in its shape, for the caller to fill before a run. Throws
  /// GraphError for other nodes.
  std::span<float> input(NodeId id);
  std::span<float> input(std::string_view label) { return input(program_.at(label)); }

  /// Throws GraphError, naming input and element, for NaN; values are undefined then, and the
  /// next run may follow.
  void run();

  /// The value of a node. Throws GraphError for another T than its dtype and for a value that
  /// is not kept.
  template <class T>
  std::span<const T> value(NodeId id) const {
    return {reinterpret_cast<const T*>(data(id, dtype_of<T>)),
            static_cast<size_t>(program_[id].value.type.elements())};
  }
  template <class T>
  std::span<const T> value(std::string_view label) const {
    return value<T>(program_.at(label));
  }
  /// Element i of codes or accumulators, whatever their dtype. Throws GraphError for one out of
  /// range.
  int64_t integer(NodeId id, int64_t i) const;
  /// The value of a node as it lies in memory. Throws GraphError for one that is not kept.
  std::span<const std::byte> bytes(NodeId id) const;
  /// Whether the value of the node is kept.
  bool has_value(NodeId id) const;

  const IntegerProgram& program() const { return program_; }
  /// How each product with weights runs and why, one a line.
  std::string report() const;

 private:
  struct Bound {
    IntegerKernel kernel;
    NodeId node;
  };

  const std::byte* data(NodeId id, DType dtype) const;
  std::byte* memory(NodeId id) const;
  IntegerBinding binding(NodeId id) const;
  void bind();
  IntegerKernel bind_node(NodeId id, std::optional<NodeId> next) const;

  IntegerProgram program_;
  SessionOptions options_;
  std::optional<ProductPath> path_;
  ProgramPlan plan_;
  AlignedBuffer arena_;
  std::vector<Bound> kernels_;
};

}  // namespace qtape
