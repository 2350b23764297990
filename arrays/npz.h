// Archives of arrays in NumPy's format: `.npz` files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "qtape/arrays/named_tensors.h"

namespace qtape {

/// Most bytes that the arrays of an archive may have beyond the bytes of the archive: 16 GiB.
inline constexpr int64_t largest_inflation = int64_t{1} << 34;

/// Whether `bytes` begin as an archive does.
bool is_npz(std::string_view bytes);

/// The arrays of a `.npz` file in its order, named as its members without `.npy`: what
/// `numpy.savez` and `numpy.savez_compressed` write, also with the extents of zip64. Messages
/// begin with `name`. Throws FormatError for bytes that are no zip archive, members that do not
/// end in `.npy`, are there twice, encrypted, compressed by other methods than deflate, cut off
/// or not what their checksum says, for what `parse_npy` refuses, and for arrays that together
/// have over `inflation` bytes more than `bytes`. Memory grows with what a member inflates to,
/// not with what it claims.
NamedTensors parse_npz(std::string_view bytes, std::string_view name,
                       int64_t inflation = largest_inflation);

/// The bytes of a `.npz` file with members that are not compressed, as `numpy.savez` writes it;
/// the same whenever they are made. Throws ArgumentError for a name twice, with a NUL byte or
/// not of UTF-8, and as `to_npy`.
std::string to_npz(const NamedTensors& tensors);

}  // namespace qtape
