#include "qtape/ops/families/decode.h"

#include <algorithm>

#include "qtape/kernels/quantize/code_kernels.h"
#include "qtape/kernels/simd/threads.h"

namespace qtape {

using namespace kernels;

void decode(const EncodedOperand& operand, int64_t begin, int64_t end, float* to) {
  const DecodeLoop loop = decode_loop(operand.dtype);
  const auto* scales = operand.source.scales<float>();
  const auto* zero_points = scales + operand.source.channels;
  const int64_t segment = operand.channels.segment;
  while (begin < end) {
    const int64_t count = std::min(end - begin, segment - begin % segment);
    const int64_t channel = operand.channels(begin);
    loop(operand.codes + begin * size_of(operand.dtype), to, count, scales[channel],
         static_cast<int32_t>(zero_points[channel]));
    begin += count;
    to += count;
  }
}

void decode(const EncodedOperand& operand, const Rectangle& part, float* to) {
  for (int64_t row = 0; row < part.rows; ++row) {
    const int64_t begin = part.begin + row * part.stride;
    decode(operand, begin, begin + part.columns, to + row * part.columns);
  }
}

Kernel bind_decode(const EncodedOperand& operand, int64_t elements, float* to, int threads) {
  return [operand, elements, to, threads](const Step&) {
    parallel_for(threads, elements, 1024, pointwise_grain,
                 [&](int64_t begin, int64_t end) { decode(operand, begin, end, to + begin); });
  };
}

}  // namespace qtape
