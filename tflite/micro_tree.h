// Source trees of TensorFlow Lite Micro.
#pragma once

#include <string>
#include <vector>

namespace qtape::tflite {

/// The environment variable that names a tree.
inline constexpr const char* micro_variable = "QTAPE_TFLITE_MICRO";

/// A source tree and what is compiled of it.
struct MicroTree {
  std::vector<std::string> includes;  ///< folders of headers
  std::vector<std::string> sources;   ///< the interpreter and the kernels of all operators that
                                      ///< are supported

  /// True if QTAPE_TFLITE_MICRO is set.
  static bool is_given();
  /// Returns the tree that QTAPE_TFLITE_MICRO names. Throws Error if the variable is not set,
  /// or with the file that the tree lacks.
  static MicroTree of_environment();
};

}  // namespace qtape::tflite
