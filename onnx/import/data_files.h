// Files next to an ONNX model that hold the data of its tensors.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qtape/onnx/onnx_node.h"

namespace qtape {

/// True if the data of `tensor` lie in another file.
inline bool has_data_file(const onnx::TensorProto& tensor) {
  return tensor.data_location() == onnx::TensorProto::EXTERNAL;
}

/// Reads data of tensors from files in the folder of the model, without following links.
class OnnxDataFiles {
 public:
  /// Without a folder, tensors with data in other files are refused. `paths` receives the path
  /// of each file that is read.
  explicit OnnxDataFiles(std::optional<std::string> folder,
                         std::vector<std::string>* paths = nullptr)
      : folder_(std::move(folder)), paths_(paths) {}

  /// Returns `tensor`, which has a data file, with its data inside. Throws FormatError, which
  /// does not name the tensor, for places outside of the folder, links, files that are too
  /// short, and ranges that do not fit the shape or overlap another one.
  onnx::TensorProto with_data(const onnx::TensorProto& tensor);
  /// Number of bytes read so far; ranges that several tensors share count once.
  int64_t bytes() const { return bytes_; }

 private:
  using File = std::pair<uint64_t, uint64_t>;  // device and inode

  std::string read(const std::string& location, int64_t offset, int64_t bytes);
  void claim(const File& file, const std::string& place, int64_t begin, int64_t end);

  std::optional<std::string> folder_;
  std::vector<std::string>* paths_;                    ///< of files that were read; may be null
  std::map<File, std::map<int64_t, int64_t>> ranges_;  // end by begin
  int64_t bytes_ = 0;
};

}  // namespace qtape
