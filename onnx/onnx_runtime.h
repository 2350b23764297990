// ONNX Runtime: its library, which is opened when it is first used, or that of python3.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/core/types.h"

namespace qtape {

/// A model in ONNX Runtime, on the processor, with all optimizations of graphs.
class OnnxRuntime {
 public:
  virtual ~OnnxRuntime() = default;
  /// Returns the outputs in the order of the model, for inputs in its order. Throws Error with
  /// the message of ONNX Runtime if it fails.
  virtual std::vector<Tensor> run(std::span<const Tensor> inputs) = 0;
  /// Returns one line that states the version and where it runs: `ONNX Runtime 1.21.0 in this
  /// process`.
  virtual std::string report() const = 0;
};

/// ONNX Runtime is not available in the requested form; the message is the reason.
class OnnxRuntimeMissing : public Error {
 public:
  using Error::Error;
};

/// Returns the names of the library, in the order in which they are tried: that of the version
/// whose header this build has, and that without a version. Empty without the header.
std::vector<std::string> onnx_runtime_libraries();

/// Returns a model, given as the bytes of its file, in a session of this process that uses
/// `threads` threads. Throws OnnxRuntimeMissing if this build lacks the header of ONNX Runtime,
/// or if no library can be opened that is as recent as the header; Error if ONNX Runtime
/// refuses the model. While the session is made, output to std::cerr is discarded.
std::unique_ptr<OnnxRuntime> onnx_runtime_in_process(
    const std::string& model, int threads,
    const std::vector<std::string>& libraries = onnx_runtime_libraries());

/// Returns the model in the ONNX Runtime of `python3`, in a process for each run. `reason` is
/// the reason for this choice, which the report states; empty: none. Throws OnnxRuntimeMissing
/// without `python3`, onnxruntime or NumPy.
std::unique_ptr<OnnxRuntime> onnx_runtime_of_python(const std::string& model, int threads,
                                                    const std::string& reason = {});

/// Returns the model in this process, or by `python3` where that is not possible. Throws
/// OnnxRuntimeMissing if neither is, and Error as the two functions do.
std::unique_ptr<OnnxRuntime> onnx_runtime(
    const std::string& model, int threads,
    const std::vector<std::string>& libraries = onnx_runtime_libraries());

}  // namespace qtape
