// Archives of arrays in NumPy's format: `.npz` files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "qtape/io/arrays/named_tensors.h"

namespace qtape {

/// Maximum excess of the bytes of all arrays over the bytes of the archive: 16 GiB.
inline constexpr int64_t largest_inflation = int64_t{1} << 34;

/// True if `bytes` start as a zip archive does.
bool is_npz(std::string_view bytes);

/// Parses the arrays of a `.npz` file in order, named as its members without `.npy`, as written
/// by `numpy.savez` and `numpy.savez_compressed`, including zip64. Messages start with `name`.
/// Throws FormatError for bytes that are not a zip archive; for members that do not end in
/// `.npy`, are repeated, encrypted, compressed by methods other than deflate, truncated or have
/// a wrong checksum; as `parse_npy` does; and for arrays that together exceed the size of
/// `bytes` by more than `inflation` bytes. Memory grows with the inflated data, not with the
/// sizes in the archive.
NamedTensors parse_npz(std::string_view bytes, std::string_view name,
                       int64_t inflation = largest_inflation);

/// Bytes of a `.npz` file with uncompressed members, as `numpy.savez` writes it, without the
/// current time. Throws ArgumentError for names that are repeated, contain a NUL byte or are
/// not UTF-8, and as `to_npy` does.
std::string to_npz(const NamedTensors& tensors);

}  // namespace qtape
