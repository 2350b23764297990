// Array files of any format: `.npy`, `.npz` and safetensors.
#pragma once

#include <string>
#include <string_view>

#include "qtape/io/arrays/named_tensors.h"

namespace qtape {

/// Reads the arrays of a file. NumPy files are recognised by content, safetensors files by the
/// suffix of the name. The array of a `.npy` file has an empty name. Throws IoError; and
/// FormatError as `parse_npy`, `parse_npz` and `parse_safetensors` do, or for a file of another
/// kind.
NamedTensors read_arrays(const std::string& path);

/// Reads one array: `FILE` if the file contains a single array, else `FILE:NAME`. The file is
/// the longest existing path among `place` and its prefixes before a colon. Throws as
/// `read_arrays` does, and ArgumentError, which lists the names, for an unknown name and for a
/// missing name if there are several arrays.
Tensor read_array(const std::string& place);

/// Returns the only array of a file whose arrays are `all`. Throws ArgumentError,
/// which lists the names, for several.
Tensor single_array(const std::string& path, NamedTensors all);

/// Path of the file in a place as accepted by `read_array`.
std::string array_file_of(const std::string& place);

/// Bytes of a file named `path`. The suffix selects the format: `.npy` (a single array, whose
/// name is not stored), `.npz` or `.safetensors`. Throws ArgumentError for other suffixes, for
/// several arrays in `.npy`, and as `to_npy`, `to_npz` and `to_safetensors` do.
std::string to_array_file(const std::string& path, const NamedTensors& tensors);

/// True if `path` ends in .npy, .npz or .safetensors.
bool names_array_file(std::string_view path);

/// Throws ArgumentError unless names_array_file(path).
void require_array_file(const std::string& path);

/// Writes the arrays to `path`; on failure the old file is kept. Throws as `to_array_file`
/// does, and IoError.
void write_arrays(const std::string& path, const NamedTensors& tensors);

}  // namespace qtape
