// Integer programs: the deployed form of a trained graph, as a value type.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/core/requantization.h"
#include "qtape/engine/node_list.h"

namespace qtape {

class IntegerProgram;
struct IntegerNode;
struct IntegerOp;
struct IntegerValue;
/// Index of a node in its integer program.
using ProgramNodeId = IdIn<IntegerProgram>;

/// Append-only nodes in topological order, all with one requantization. Comparable, printable,
/// and saved in the same file format as models. Its nodes are in
/// integer/program/integer_node.h.
class IntegerProgram : public NodeList<IntegerProgram, IntegerNode> {
 public:
  static constexpr std::string_view noun = "program";

  explicit IntegerProgram(Requantization requantization = Requantization::FloatMultiply);
  IntegerProgram(const IntegerProgram& other);
  IntegerProgram(IntegerProgram&& other) noexcept;
  IntegerProgram& operator=(const IntegerProgram& other);
  IntegerProgram& operator=(IntegerProgram&& other) noexcept;
  ~IntegerProgram();

  /// Appends a node; the only way to create one, also when reading files. Throws GraphError,
  /// leaving the program unchanged, for operands that do not exist or that the op rejects, for
  /// a certificate that does not hold and for a label in use.
  ProgramNodeId add(IntegerOp op, std::span<const ProgramNodeId> operands,
                    std::string label = {});
  ProgramNodeId add(IntegerOp op, std::initializer_list<ProgramNodeId> operands,
                    std::string label = {});

  Requantization requantization() const { return requantization_; }
  /// Throws GraphError for ids that are not in this program.
  void set_outputs(std::vector<ProgramNodeId> outputs);
  /// Sets the outputs to the copies of those of `from`.
  void copy_outputs(const IntegerProgram& from,
                    const NodeMap<ProgramNodeId, IntegerProgram>& copies);
  /// Returns this program with another batch extent and all values inferred again. Throws
  /// GraphError.
  IntegerProgram with_batch(int64_t batch) const;

  bool operator==(const IntegerProgram& other) const;

 private:
  IntegerValue infer(const IntegerOp& op, std::span<const ProgramNodeId> operands) const;

  Requantization requantization_;

  friend std::string to_string(const IntegerProgram& program);
};

/// Lists all nodes, one per line, with grids, ranges and certificates.
std::string to_string(const IntegerProgram& program);

/// Returns the ArgMax or Input whose indices node `id` holds or moves; another node if it holds
/// no indices.
ProgramNodeId source_of_indices(const IntegerProgram& program, ProgramNodeId id);

/// Returns the largest index that every element of `input`, an Input of indices, may hold: its
/// range, and the rows of each table that looks up any of its elements.
int64_t largest_index(const IntegerProgram& program, ProgramNodeId input);

/// Returns the text of a program file. Equal programs give equal text.
std::string to_json(const IntegerProgram& program);
/// Reads a program. Throws FormatError, whose message begins with a JSON pointer to the fault.
/// A certificate that does not hold for its weights is such a fault.
IntegerProgram program_from_json(std::string_view text);

/// Writes a program file; on failure, an existing file is kept. Throws IoError.
void save_program(const std::string& path, const IntegerProgram& program);
/// Reads a program file. Throws IoError or FormatError, both beginning with the path.
IntegerProgram load_program(const std::string& path);

}  // namespace qtape
