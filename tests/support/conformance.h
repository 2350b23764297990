// Conformance vectors: small integer programs with their inputs and the values of all nodes,
// for other runtimes to reproduce. See docs/conformance.md.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "qtape/integer/program/session.h"
#include "qtape/integer/program/session_hooks.h"

namespace qtape::test {

struct ConformanceCase {
  std::string name;   ///< file name without extension
  std::string about;  ///< one sentence
  IntegerProgram program;
  std::vector<Tensor> inputs;  ///< of the program's Input nodes, in order
  std::set<int> omitted = {};  ///< nodes whose values are omitted because of their size
};

/// Generates all cases, bit-identical each time.
std::vector<ConformanceCase> conformance_cases();

/// Those of the ops that have the arithmetic of TFLite's kernels, which are among all cases.
std::vector<ConformanceCase> tflite_cases();

/// Writes `inputs` to the session's Input nodes, in order.
void feed_inputs(IntegerSession& session, const std::vector<Tensor>& inputs);
/// Returns the value of a node after a run.
Tensor value_of(const IntegerSession& session, ProgramNodeId id);

/// Returns the text of a case's file, with the values of the reference session.
std::string to_text(const ConformanceCase& each);

/// Contents of a file.
struct ConformanceFile {
  IntegerProgram program;
  std::vector<Tensor> values;  ///< by node
  std::set<int> omitted = {};  ///< nodes without a value

  bool operator==(const ConformanceFile&) const = default;
};
/// Reads a file. Throws FormatError.
ConformanceFile read_conformance(std::string_view text);
/// Runs the program of a file on its inputs. Returns the first node whose value differs from
/// the file; empty if there is none.
std::string first_difference(const ConformanceFile& file, const SessionOptions& options,
                             const SessionHooks& hooks = {});

}  // namespace qtape::test
