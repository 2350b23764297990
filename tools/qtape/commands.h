// The commands of the qtape tool.
#pragma once

#include <string>

namespace qtape::tool {

/// Prints nodes, shapes, quantizers with their scales, and parameter and activation bytes.
void inspect(const std::string& model);

struct ReplayOptions {
  std::string model;
  std::string data;  ///< directory with MNIST-format files; empty: generated digits
  int threads = 1;
  bool quantize = true;  ///< false: quantizers are off
};

/// Runs a saved model over a data set's test images; prints accuracy and a SHA-256 of the
/// outputs.
void replay(const ReplayOptions& options);

}  // namespace qtape::tool
