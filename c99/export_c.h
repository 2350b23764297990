// An integer program as C99 for microcontrollers, with a self-test: texts, or files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "qtape/c99/c_self_test.h"
#include "qtape/c99/c_kernels.h"
#include "qtape/c99/c_program.h"
#include "qtape/integer/integer_program.h"

namespace qtape {

/// How a program is written in C.
struct CExportOptions {
  std::string name = "network";           ///< a C identifier: prefix of all names
  CKernels kernels = CKernels::Portable;  ///< CMSIS-NN: for SingleRounding, DoubleRounding
  CSelfTestOptions test = {};             ///< of NAME_test.c
};

/// A file of an export.
struct CFile {
  std::string name;  ///< `NAME.h`
  std::string text;  ///< what it holds
};

/// What is written.
struct CExport {
  std::vector<CFile> files;  ///< NAME.h, NAME.c and NAME_test.c
  CProgram written;          ///< steps, sizes and kernels
  IntegerProgram program;    ///< that C computes: batch 1, for CMSIS-NN with signed codes
};

/// `program` in C, one sample at a time; its self-test runs the reference. Throws ArgumentError
/// for a name that is no C identifier or a keyword, and GraphError for a requantization that
/// CMSIS-NN does not compute, for what C cannot count and for NaN in a sample.
CExport export_c(const IntegerProgram& program, const CExportOptions& options = {});

/// Writes the files into `folder`, which is made where there is none: all of them, or none
/// where one cannot be written. Throws IoError.
void write_c(const std::string& folder, const CExport& exported);

/// Both.
void write_c(const std::string& folder, const IntegerProgram& program,
             const CExportOptions& options = {});

}  // namespace qtape
