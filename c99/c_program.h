// An integer program as C99: a header and a source that compute it bit for bit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/c99/c_kernels.h"
#include "qtape/integer/integer_program.h"

namespace qtape {

/// Alignment of buffers in the arena of a C program, in bytes.
inline constexpr int64_t c_alignment = 8;

/// One step of a C program: a node, with the one that takes its sums.
struct CStep {
  NodeId node;                 ///< whose value is what the step gives
  std::string name;            ///< a C identifier, from its label
  std::string label;           ///< as messages call it
  int64_t products = 0;        ///< multiplications by weights
  int64_t constant_bytes = 0;  ///< of weights and other constants
  int64_t live_bytes = 0;      ///< of the arena, in use while it runs
  bool is_input = false;       ///< codes of an input, which a caller may give instead
  std::string library;         ///< the function of CMSIS-NN that computes it; empty: own C
  std::string own_because;     ///< why its own C does, where CMSIS-NN was asked for
};

/// A constant of a C program.
struct CConstantHash {
  std::string name;   ///< in C
  std::string node;   ///< a C identifier, of the step
  uint32_t hash = 0;  ///< as NAME_constant_hash returns it
};

/// An input or output of a C program.
struct CArgument {
  NodeId node;       ///< of the program
  std::string name;  ///< of the parameter
};

/// What is written, and what it takes. Texts name no file but NAME.h.
struct CProgram {
  std::string header;                    ///< NAME.h
  std::string source;                    ///< NAME.c
  std::vector<CStep> steps;              ///< in the order in which they run
  std::vector<CArgument> inputs;         ///< in the order of parameters
  std::vector<CArgument> outputs;        ///< behind them
  bool takes_codes = false;              ///< whether it has NAME_run_codes
  std::vector<CConstantHash> constants;  ///< by their number in NAME_constant_hash
  std::string id;              ///< NAME_EXPORT: of header and source, which belong together
  int64_t constant_bytes = 0;  ///< in flash, beside code
  int64_t weight_bytes = 0;    ///< of weights as they are stored, in these
  int64_t arena_bytes = 0;     ///< memory of a run
  int64_t live_bytes = 0;      ///< the most that is in use at once: the least any arena takes
  int64_t buffer_bytes = 0;    ///< the most that CMSIS-NN is lent on any processor
  bool has_wide_sums = false;  ///< whether sums are added in 64 bits
};

/// Whose C computes a step, and where CMSIS-NN was asked for why not that.
std::string c_kernel_text(const CStep& step);

/// The SHA-256 of the program's file.
std::string sha256_of(const IntegerProgram& program);

/// `program`, with the batch that it has, for the prefix `name`. `sha256` is that of the
/// program it was made of; empty: its own. Throws ArgumentError for a name that is no C
/// identifier or a keyword, GraphError for what C cannot count.
CProgram write_c_program(const IntegerProgram& program, std::string_view name,
                         CKernels kernels = CKernels::Portable, std::string sha256 = {});

}  // namespace qtape
