#include "qtape/ops/families/decode.h"

#include <algorithm>

#include "qtape/kernels/quantize/code_kernels.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/ops/families/quantizer.h"

namespace qtape {

using namespace kernels;
namespace {

/// Decodes elements of one channel.
class SegmentDecoder {
 public:
  explicit SegmentDecoder(const EncodedOperand& operand)
      : operand_(operand),
        record_(const_cast<std::byte*>(operand.source.record), operand.source.channels) {
    if (operand_.codes != nullptr) {
      decode_ = decode_loop(operand_.dtype);
      return;
    }
    chunk_ = quantize_chunk_of<float>(operand_.grid, quantize_chunk, 1, MaskRule::Code);
    quantize_ = requantize_values_loop({.rounding = operand_.grid.rounding,
                                        .division = operand_.grid.division,
                                        .plain = !chunk_.before});
  }

  void operator()(int64_t begin, int64_t count, float* to) {
    const int64_t channel = operand_.channels(begin);
    if (decode_ != nullptr) {
      return decode_(operand_.codes + begin * size_of(operand_.dtype), to, count,
                     record_.scale[channel], static_cast<int32_t>(record_.zero_point[channel]));
    }
    chunk_.scale = record_.scale + channel;
    chunk_.zero_point = record_.zero_point + channel;
    chunk_.inverse = record_.inverse + channel;
    quantize_(operand_.unquantized + begin, to, count, &chunk_);
  }

 private:
  const EncodedOperand& operand_;
  QuantizerRecord<float> record_;
  DecodeLoop decode_ = nullptr;
  QuantizeChunk<float> chunk_;
  RequantizeValuesLoop quantize_ = nullptr;
};

void decode(SegmentDecoder& decoder, int64_t segment, int64_t begin, int64_t end, float* to) {
  while (begin < end) {
    const int64_t count = std::min(end - begin, segment - begin % segment);
    decoder(begin, count, to);
    begin += count;
    to += count;
  }
}

}  // namespace

void decode(const EncodedOperand& operand, int64_t begin, int64_t end, float* to) {
  SegmentDecoder decoder(operand);
  decode(decoder, operand.channels.segment, begin, end, to);
}

void decode(const EncodedOperand& operand, const Rectangle& part, float* to) {
  SegmentDecoder decoder(operand);
  for (int64_t row = 0; row < part.rows; ++row) {
    const int64_t begin = part.begin + row * part.stride;
    decode(decoder, operand.channels.segment, begin, begin + part.columns,
           to + row * part.columns);
  }
}

Kernel bind_decode(const EncodedOperand& operand, int64_t elements, float* to, int threads) {
  return [operand, elements, to, threads](const Step&) {
    parallel_for(threads, elements, 1024, pointwise_grain,
                 [&](int64_t begin, int64_t end) { decode(operand, begin, end, to + begin); });
  };
}

}  // namespace qtape
