// Header of a `.npy` file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "qtape/core/types.h"
#include "qtape/io/arrays/elements.h"

namespace qtape {

/// Spellings of dtypes in `.npy` files, without the byte order.
inline constexpr std::array<DTypeSpelling, 10> npy_dtypes = {{{"f4", DType::F32},
                                                              {"f8", DType::F64},
                                                              {"f2", DType::F16},
                                                              {"i8", DType::S64},
                                                              {"i4", DType::S32},
                                                              {"i2", DType::S16},
                                                              {"u2", DType::U16},
                                                              {"i1", DType::S8},
                                                              {"u1", DType::U8},
                                                              {"b1", DType::S8}}};

/// Type and layout of the data of a `.npy` file.
struct NpyHeader {
  TensorType type = {};
  size_t begin = 0;      ///< first byte of the data
  bool swapped = false;  ///< elements are in non-native byte order
  bool booleans = false;
  bool columns_first = false;  ///< the first axis varies fastest
};

/// Parses the header at the start of `bytes`, which may be followed by any part of the data;
/// messages start with `name`. Throws FormatError as `parse_npy` does, except for the size of
/// the data.
NpyHeader parse_npy_header(std::string_view bytes, std::string_view name);

}  // namespace qtape
