// Arrays in the safetensors format.
#pragma once

#include <string>
#include <string_view>

#include "qtape/arrays/named_tensors.h"

namespace qtape {

/// The tensors of a safetensors file in the order of their data; BOOL becomes u8 with elements
/// 0 and 1, `__metadata__` is left out. Messages begin with `name`. Throws FormatError for what
/// the reference implementation refuses: a header of over 100 MB or that is not JSON, a name
/// twice, data that overlap, leave a hole, are cut off or of another size than dtype and shape
/// say; and for dtypes that tensors do not have, and more than 8 axes. Memory grows with the
/// bytes given alone.
NamedTensors parse_safetensors(std::string_view bytes, std::string_view name);

/// The bytes of a safetensors file without metadata, the same that the reference implementation
/// writes: larger elements come first, of one dtype they are sorted by name. Throws
/// ArgumentError for a name twice, `__metadata__` as one or one that is not UTF-8, and a header
/// of over 100 MB.
std::string to_safetensors(const NamedTensors& tensors);

}  // namespace qtape
