// Arrays in the safetensors format.
#pragma once

#include <string>
#include <string_view>

#include "qtape/io/arrays/named_tensors.h"

namespace qtape {

/// Parses the tensors of a safetensors file in the order of their data. BOOL becomes u8 with
/// elements 0 and 1; `__metadata__` is ignored. Messages start with `name`. Throws FormatError
/// for input that the reference implementation rejects: a header that exceeds 100 MB or is not
/// JSON, a repeated name, and data that overlap, leave a gap, are truncated or whose size does
/// not match dtype and shape. Also throws it for unsupported dtypes and more than 8 axes.
/// Memory is bounded by the size of `bytes`.
NamedTensors parse_safetensors(std::string_view bytes, std::string_view name);

/// Bytes of a safetensors file without metadata, equal to those of the reference
/// implementation: larger elements come first, and tensors of one dtype are sorted by name.
/// Throws ArgumentError for a name that is repeated, `__metadata__` or not UTF-8, and for a
/// header of more than 100 MB.
std::string to_safetensors(const NamedTensors& tensors);

}  // namespace qtape
