// Export of an integer program as C99 for microcontrollers, with a self-test, as texts or as
// files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "qtape/c99/c_kernels.h"
#include "qtape/c99/c_program.h"
#include "qtape/c99/c_self_test.h"
#include "qtape/integer/program/integer_program.h"

namespace qtape {

/// Options of an export to C.
struct CExportOptions {
  std::string name = "network";           ///< a C identifier: prefix of all names
  CKernels kernels = CKernels::Portable;  ///< CmsisNn requires SingleRounding or DoubleRounding
  CSelfTestOptions test = {};             ///< options of NAME_test.c
};

/// A file of an export.
struct CFile {
  std::string name;  ///< `NAME.h`
  std::string text;  ///< contents
};

/// Result of an export.
struct CExport {
  std::vector<CFile> files;  ///< NAME.h, NAME.c and NAME_test.c
  CProgram written;          ///< steps, sizes and kernels
  IntegerProgram program;    ///< the program that the C code computes: batch 1, with signed
                             ///< codes for CMSIS-NN
};

/// Exports `program` as C that processes one sample at a time; its self-test contains results
/// of the reference. Throws ArgumentError if the name is not a C identifier or is a keyword.
/// Throws GraphError for a requantization that CMSIS-NN does not support, for sizes that exceed
/// 32 bits and for NaN in a sample.
CExport export_c(const IntegerProgram& program, const CExportOptions& options = {});

/// Writes the files into `folder`, which is created if it does not exist. Writes either all
/// files or none. Throws IoError.
void write_c(const std::string& folder, const CExport& exported);

/// Exports `program` and writes the files.
void write_c(const std::string& folder, const IntegerProgram& program,
             const CExportOptions& options = {});

}  // namespace qtape
