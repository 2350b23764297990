// An integer program as C99: a header and a source that compute it bit for bit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/integer/c/c_source.h"
#include "qtape/integer/program_plan.h"

namespace qtape {

/// One step of a C program: a node, with the one that takes its sums.
struct CStep {
  NodeId node;                 ///< whose value is what the step gives
  std::string name;            ///< a C identifier, from its label
  std::string label;           ///< as messages call it
  int64_t products = 0;        ///< multiplications by weights
  int64_t constant_bytes = 0;  ///< of weights and other constants
  int64_t live_bytes = 0;      ///< of the arena, in use while it runs
  bool is_input = false;       ///< codes of an input, which a caller may give instead
};

/// An input or output of a C program.
struct CArgument {
  NodeId node;
  std::string name;  ///< of the parameter
};

/// What is written, and what it takes. Texts name no file but NAME.h.
struct CProgram {
  std::string header;
  std::string source;
  std::vector<CStep> steps;  ///< in the order in which they run
  std::vector<CArgument> inputs;
  std::vector<CArgument> outputs;
  bool takes_codes = false;    ///< whether it has NAME_run_codes
  int64_t constant_bytes = 0;  ///< in flash, beside code
  int64_t arena_bytes = 0;     ///< static memory
  int64_t live_bytes = 0;      ///< the most that is in use at once: the least any arena takes
  int64_t buffer_bytes = 0;    ///< the most that CMSIS-NN is lent on any processor
  bool has_wide_sums = false;  ///< whether sums are added in 64 bits
};

/// The SHA-256 of the program's file.
std::string sha256_of(const IntegerProgram& program);

/// `program`, with the batch that it has, for the prefix `name`. `sha256` is that of the
/// program it was made of; empty: its own. Throws ArgumentError for a name that is no C
/// identifier or a keyword, GraphError for what C cannot count.
CProgram write_c_program(const IntegerProgram& program, std::string_view name,
                         CKernels kernels = CKernels::Portable, std::string sha256 = {});

}  // namespace qtape
