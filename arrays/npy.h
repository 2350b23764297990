// Arrays in NumPy's format: `.npy` files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "qtape/core/types.h"

namespace qtape {

/// Bytes of a file that is read at once, at most.
inline constexpr int64_t largest_array_file = int64_t{1} << 40;

/// What a `.npy` file begins with.
inline constexpr std::string_view npy_magic = "\x93NUMPY";

/// The array of a `.npy` file of version 1, 2 or 3, in row-major order and the machine's byte
/// order, whatever those of the file are. `|b1` becomes u8 with elements 0 and 1. Throws
/// IoError for a file that cannot be read, else FormatError as `parse_npy`.
Tensor read_npy(const std::string& path);

/// The same from the bytes of such a file; messages begin with `name`. Throws FormatError for
/// bytes that are no `.npy` file, a header that is not what NumPy writes, dtypes that tensors
/// do not have (those of 8-byte unsigned integers, complex numbers, text and records), more
/// than 8 axes, and data of another size than the header says. Memory grows with the bytes
/// given alone.
Tensor parse_npy(std::string_view bytes, std::string_view name);

/// The bytes of a `.npy` file, version 1, little-endian and in row-major order, as NumPy writes
/// it. Throws ArgumentError for bf16, which NumPy lacks.
std::string to_npy(const Tensor& tensor);

/// Writes that to `path`: a failure keeps what was there. Throws as `to_npy`, and IoError.
void write_npy(const std::string& path, const Tensor& tensor);

}  // namespace qtape
