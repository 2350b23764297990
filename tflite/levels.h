// The level of verification that runs models on TensorFlow Lite Micro.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "qtape/deploy/level.h"

namespace qtape {

/// L8: the `.tflite` model by the reference kernels of TensorFlow Lite Micro, in the tree that
/// QTAPE_TFLITE_MICRO names.
inline constexpr Level tflite_micro_level = {8, "L8 TFLM"};

/// Options of L8.
struct TfliteLevelOptions {
  /// Bytes of the file from which the verified program was read; empty: of `to_tflite`.
  std::string model = {};
  /// Receives the number of files of TensorFlow Lite Micro that are compiled, and of all.
  std::function<void(int64_t compiled, int64_t all)> progress = {};
};

/// The runner of L8 for VerifyOptions::runners, for programs of DoubleRounding. It provides the
/// codes of all tensors of the model. Creating one throws as `to_tflite` does, and Error if
/// QTAPE_TFLITE_MICRO names no tree, if the C++ compiler of this machine is missing or
/// fails, and if the model is not that of the program.
RunnerFactories tflite_levels(const TfliteLevelOptions& options = {});

}  // namespace qtape
