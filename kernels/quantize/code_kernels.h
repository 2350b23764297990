// Vector loops that write integer codes (quantization of f32) and that decode them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "qtape/core/types.h"
#include "qtape/kernels/quantize/quantize_kernels.h"

namespace qtape::kernels {

/// codes = code(x), stored in 8 or 16 bits. Also writes y = fake(x) if the version writes
/// values, and the mask unless it is null. n <= quantize_chunk. Sets `nan` to 1 if x contains a
/// NaN; the code of NaN is the lowest code.
struct QuantizeCodesLoop {
  using Run = void (*)(const float* x, float* y, std::byte* codes, int64_t code_bytes,
                       uint64_t* mask, int64_t n, const QuantizeChunk<float>*, uint32_t* nan);

  Run run = nullptr;
  int64_t code_bytes = 1;

  void operator()(const float* x, float* y, std::byte* codes, uint64_t* mask, int64_t n,
                  const QuantizeChunk<float>* chunk, uint32_t* nan) const {
    run(x, y, codes, code_bytes, mask, n, chunk, nan);
  }
};

/// Loop for codes of `dtype` (u8, s8, u16, s16). `values`: y is written.
QuantizeCodesLoop quantize_codes_loop(const QuantizeVersion& version, DType dtype, bool values);

/// y = fake(x) for n elements of the first channel of the chunk. Used for short runs.
using RequantizeValuesLoop = void (*)(const float* x, float* y, int64_t n,
                                      const QuantizeChunk<float>*);
RequantizeValuesLoop requantize_values_loop(const QuantizeVersion& version);

/// y = (codes - zero_point) scale for n codes.
using DecodeLoop = void (*)(const std::byte* codes, float* y, int64_t n, float scale,
                            int32_t zero_point);
DecodeLoop decode_loop(DType dtype);

}  // namespace qtape::kernels
