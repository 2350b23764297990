// The program that runs models by the reference kernels of TensorFlow Lite Micro.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace qtape::tflite {

/// Receives the number of files that are compiled, and of all.
using CompileProgress = std::function<void(int64_t compiled, int64_t all)>;

/// Returns the executable file of the program, whose source is tflite/micro/run.cc: compiled
/// with the tree of QTAPE_TFLITE_MICRO by the compiler of CXX and CXXFLAGS, otherwise c++ -O2,
/// the first time that this process needs it, `threads` files at a time. The folder that
/// QTAPE_TFLITE_MICRO_CACHE names keeps it for other processes. Throws Error, with the
/// compiler's output, if that fails.
const std::string& micro_program(int threads, const CompileProgress& progress);

}  // namespace qtape::tflite
