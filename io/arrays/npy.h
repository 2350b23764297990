// Arrays in NumPy's format: `.npy` files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "qtape/core/types.h"

namespace qtape {

/// Maximum size in bytes of a file that is read at once.
inline constexpr int64_t largest_array_file = int64_t{1} << 40;

/// Magic string at the start of a `.npy` file.
inline constexpr std::string_view npy_magic = "\x93NUMPY";

/// Reads the array of a `.npy` file of version 1, 2 or 3. The result is in row-major order and
/// native byte order, regardless of those of the file. `|b1` becomes s8 with elements 0 and 1.
/// Throws IoError for a file that cannot be read, and FormatError as `parse_npy` does.
Tensor read_npy(const std::string& path);

/// Parses the bytes of a `.npy` file; messages start with `name`. Throws FormatError for bytes
/// that are not a `.npy` file, a malformed header, unsupported dtypes (8-byte unsigned
/// integers, complex numbers, text and records), more than 8 axes, and data whose size does not
/// match the header. Memory is bounded by the size of `bytes`.
Tensor parse_npy(std::string_view bytes, std::string_view name);

/// Bytes of a `.npy` file as NumPy writes it: version 1, little-endian, row-major. Throws
/// ArgumentError for bf16, which NumPy lacks, and for data whose size is not that of the type.
std::string to_npy(const Tensor& tensor);

/// Writes the file to `path`; on failure the old file is kept. Throws as `to_npy` does, and
/// IoError.
void write_npy(const std::string& path, const Tensor& tensor);

}  // namespace qtape
