// Export of an integer program as C99: a header and a source with bit-identical results.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/c99/c_kernels.h"
#include "qtape/integer/program/integer_program.h"
#include "qtape/integer/program/merged_program.h"

namespace qtape {

/// Alignment of buffers in the arena of a C program, in bytes.
inline constexpr int64_t c_alignment = 8;

/// One step of a C program: a node and, if there is one, the node that requantizes its sums.
struct CStep {
  ProgramNodeId node;          ///< the node whose value the step computes
  std::string name;            ///< a C identifier derived from its label
  std::string label;           ///< label used in messages
  int64_t products = 0;        ///< number of multiplications by weights
  int64_t constant_bytes = 0;  ///< of weights and other constants
  int64_t live_bytes = 0;      ///< of the arena, in use while the step runs
  bool is_input = false;       ///< true if it computes codes of an input, which a caller can
                               ///< supply instead
  std::string library;         ///< the CMSIS-NN function that computes it; empty if the step
                               ///< has C code of its own
  std::string own_because;     ///< why CMSIS-NN is not used although it was requested
};

/// A constant of a C program.
struct CConstantHash {
  std::string name;   ///< name in C
  std::string node;   ///< C identifier of the step
  uint32_t hash = 0;  ///< as NAME_constant_hash returns it
};

/// An input or output of a C program.
struct CArgument {
  ProgramNodeId node;  ///< node of the program
  std::string name;    ///< name of the parameter
};

/// An exported program and its memory requirements. Of the generated files, the texts refer
/// only to NAME.h.
struct CProgram {
  std::string header;                    ///< NAME.h
  std::string source;                    ///< NAME.c
  std::vector<CStep> steps;              ///< in the order in which they run
  std::vector<CArgument> inputs;         ///< in the order of parameters
  std::vector<CArgument> outputs;        ///< following the inputs
  bool takes_codes = false;              ///< true if it has NAME_run_codes
  std::vector<CConstantHash> constants;  ///< ordered by their index in NAME_constant_hash
  std::string id;              ///< NAME_EXPORT: identifies header and source that belong
                               ///< together
  int64_t constant_bytes = 0;  ///< in flash, in addition to code
  int64_t weight_bytes = 0;    ///< of stored weights, included in constant_bytes
  int64_t arena_bytes = 0;     ///< memory of a run
  int64_t live_bytes = 0;      ///< peak memory in use at once: lower bound of any arena
  int64_t buffer_bytes = 0;    ///< largest buffer that CMSIS-NN requires on any processor
  bool has_wide_sums = false;  ///< true if sums are accumulated in 64 bits
};

/// Describes which implementation computes a step and, if CMSIS-NN was requested but is not
/// used, why.
std::string c_kernel_text(const CStep& step);

/// Returns the SHA-256 of the program's file.
std::string sha256_of(const IntegerProgram& program);

/// Exports `program`, with its own batch extent, under the prefix `name`. `sha256` is the hash
/// of the program from which it was derived; if empty, the hash of `program` itself. Throws
/// ArgumentError if the name is not a C identifier or is a keyword, GraphError if sizes exceed
/// 32 bits.
CProgram write_c_program(const IntegerProgram& program, std::string_view name,
                         CKernels kernels = CKernels::Portable, std::string sha256 = {});

/// Returns the program from which C is generated: `program` merged, and for CMSIS-NN with
/// signed codes.
RewrittenProgram program_for_c(const IntegerProgram& program, CKernels kernels);

}  // namespace qtape
