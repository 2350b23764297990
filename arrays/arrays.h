// Files of arrays of any format: `.npy`, `.npz` and safetensors.
#pragma once

#include <string>
#include <string_view>

#include "qtape/arrays/named_tensors.h"

namespace qtape {

/// The arrays of a file: of NumPy by its content, else of safetensors by the end of its name.
/// That of a `.npy` file has an empty name. Throws IoError, and FormatError as `parse_npy`,
/// `parse_npz` and `parse_safetensors`, or for a file of another kind.
NamedTensors read_arrays(const std::string& path);

/// One array: `FILE` where the file holds one, else `FILE:NAME`. The file is the whole of
/// `place`, or the longest part before a colon, that exists. Throws as `read_arrays`, and
/// ArgumentError, which tells the names there are, for no name where there are several arrays,
/// and for another one.
Tensor read_array(const std::string& place);

/// The file of a place as `read_array` takes it.
std::string array_file_of(const std::string& place);

/// The bytes of a file called `path`: by its end `.npy` for one array, whose name is lost,
/// `.npz` or `.safetensors`. Throws ArgumentError for other names, for several arrays in
/// `.npy`, and as `to_npy`, `to_npz` and `to_safetensors`.
std::string to_array_file(const std::string& path, const NamedTensors& tensors);

/// Whether `path` ends in .npy, .npz or .safetensors.
bool names_array_file(std::string_view path);

/// Throws ArgumentError where it ends otherwise.
void require_array_file(const std::string& path);

/// Writes that to `path`: a failure keeps what was there. Throws as `to_array_file`, and
/// IoError.
void write_arrays(const std::string& path, const NamedTensors& tensors);

}  // namespace qtape
