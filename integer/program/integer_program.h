// Integer programs: the deployed form of a trained graph, as a value type.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/engine/graph.h"
#include "qtape/integer/ops/integer_ops.h"

namespace qtape {

/// An integer op, its operands and its inferred value.
struct IntegerNode {
  IntegerOp op;
  std::vector<NodeId> operands;
  std::string label;   ///< unique unless empty
  IntegerValue value;  ///< inferred
  bool operator==(const IntegerNode&) const = default;
};

/// Append-only nodes in topological order, all with one requantization. Comparable, printable,
/// and saved in the same file format as models.
class IntegerProgram {
 public:
  explicit IntegerProgram(Requantization requantization = Requantization::FloatMultiply)
      : requantization_(requantization) {}

  /// Appends a node; the only way to create one, also when reading files. Throws GraphError,
  /// leaving the program unchanged, for operands that do not exist or that the op rejects, for
  /// a certificate that does not hold and for a label in use.
  NodeId add(IntegerOp op, std::span<const NodeId> operands, std::string label = {});
  NodeId add(IntegerOp op, std::initializer_list<NodeId> operands, std::string label = {}) {
    return add(std::move(op), std::span(operands.begin(), operands.size()), std::move(label));
  }

  Requantization requantization() const { return requantization_; }
  int64_t size() const { return static_cast<int64_t>(nodes_.size()); }
  std::span<const IntegerNode> nodes() const { return nodes_; }
  /// Throws GraphError for an id that is not of this program.
  const IntegerNode& operator[](NodeId id) const;
  std::optional<NodeId> find(std::string_view label) const;
  /// Returns the node with label `label`; throws GraphError if there is none.
  NodeId at(std::string_view label) const;
  /// Returns the label, or `%7` for a node without one.
  std::string name(NodeId id) const;
  /// Describes a node in one line: `Linear %2 'fc1' (%1 'x.quantized' u8[1, 784])`.
  std::string describe(NodeId id) const;

  void set_outputs(std::vector<NodeId> outputs);
  std::span<const NodeId> outputs() const { return outputs_; }

  /// Returns the batch extent of the batched inputs, if there are any.
  std::optional<int64_t> batch() const { return batch_; }
  /// Returns this program with another batch extent and all values inferred again. Throws
  /// GraphError.
  IntegerProgram with_batch(int64_t batch) const;

  bool operator==(const IntegerProgram& other) const {
    return requantization_ == other.requantization_ && nodes_ == other.nodes_ &&
           outputs_ == other.outputs_;
  }

 private:
  std::string describe(const IntegerOp& op, std::span<const NodeId> operands,
                       std::string_view label, int64_t index) const;
  IntegerValue infer(const IntegerOp& op, std::span<const NodeId> operands) const;

  Requantization requantization_;
  std::vector<IntegerNode> nodes_;
  std::vector<NodeId> outputs_;
  std::map<std::string, NodeId, std::less<>> labels_;
  std::optional<int64_t> batch_;
};

/// Lists all nodes, one per line, with grids, ranges and certificates.
std::string to_string(const IntegerProgram& program);

/// Returns the text of a program file. Equal programs give equal text.
std::string to_json(const IntegerProgram& program);
/// Reads a program. Throws FormatError, whose message begins with a JSON pointer to the fault.
/// A certificate that does not hold for its weights is such a fault.
IntegerProgram program_from_json(std::string_view text);

/// Writes a program file; an existing file survives any failure. Throws IoError.
void save_program(const std::string& path, const IntegerProgram& program);
/// Reads a program file. Throws IoError or FormatError, both beginning with the path.
IntegerProgram load_program(const std::string& path);

}  // namespace qtape
