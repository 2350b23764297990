// Rows of a `.npy` file, for arrays that do not fit into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "qtape/core/types.h"
#include "qtape/io/arrays/npy_header.h"
#include "qtape/io/descriptor.h"

namespace qtape {

/// Reads rows, elements of the first axis, when they are asked for. Memory does not depend on
/// the size of the file.
class NpyRows {
 public:
  /// Opens the file and reads its header. Unless `keep_open`, each read opens the file again.
  /// Throws IoError, and FormatError as `parse_npy` does, for an array without axes, and for
  /// one in which the first axis varies fastest, whose rows are not contiguous.
  explicit NpyRows(const std::string& path, bool keep_open = true);

  /// Type of the whole array: [rows, ...].
  const TensorType& type() const { return header_.type; }
  /// Reads rows from `first` on, as many as fill `to`, in native byte order; booleans are 0 and
  /// 1. Several threads may call it at a time. Throws ArgumentError for rows that do not exist,
  /// and IoError if the file cannot be read or has become shorter.
  void read(int64_t first, std::span<std::byte> to) const;

 private:
  void read_from(const Descriptor& file, int64_t begin, std::span<std::byte> to) const;

  std::string path_;
  Descriptor file_;  // closed unless it is kept open
  NpyHeader header_;
};

/// True for a `.npy` file whose first axis varies slowest, by its header alone. Throws IoError.
bool has_contiguous_rows(const std::string& path);

}  // namespace qtape
