#include "qtape/kernels/quantize/code_kernels.h"

#include "qtape/core/code_types.h"
#include "qtape/kernels/quantize/quantize_rows.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape::kernels {
namespace {

template <class V>
QuantizeCodesLoop::Run loop_of() {
  return simd::best<const float*, float*, std::byte*, int64_t, uint64_t*, int64_t,
                    const QuantizeChunk<float>*, uint32_t*>(
      [](const float* x, float* y, std::byte* codes, int64_t code_bytes, uint64_t* mask,
         int64_t n, const QuantizeChunk<float>* chunk, uint32_t* nan) {
        const QuantizeChunk<float> r = *chunk;
        quantize<V>(x, y, mask, n, r, CodeStore{codes, code_bytes}, nan);
      });
}

/// Loops that write values accept a null mask.
QuantizeCodesLoop::Run chosen(const QuantizeVersion& v, bool values) {
  const bool exact = v.division == Division::Exact;
  const bool masked = values || v.masked;
  if (v.plain && v.rounding == Rounding::HalfEven) {
    return choose(
        []<bool divide, bool columns, bool wanted, bool masks>() {
          return loop_of<
              Version<float, true, divide, masks || wanted, columns, true, true, wanted>>();
        },
        exact, v.columns, values, masked);
  }
  return choose(
      []<bool half_even, bool divide, bool columns, bool wanted, bool masks>() {
        return loop_of<
            Version<float, half_even, divide, masks || wanted, columns, false, true, wanted>>();
      },
      v.rounding == Rounding::HalfEven, exact, v.columns, values, masked);
}

template <class V>
RequantizeValuesLoop values_loop_of() {
  return simd::best<const float*, float*, int64_t, const QuantizeChunk<float>*>(
      [](const float* x, float* y, int64_t n, const QuantizeChunk<float>* chunk) {
        const QuantizeChunk<float> r = *chunk;
        const ElementGrid<float> grid = element_grid<V>(r, 0);
        QTAPE_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) {
          uint32_t unused = 0;
          quantize_element<V>(x[i], Target<V>{.y = y + i}, 0, grid, r, unused, unused, unused);
        }
      });
}

}  // namespace

RequantizeValuesLoop requantize_values_loop(const QuantizeVersion& v) {
  return choose(
      []<bool half_even, bool divide, bool plain>() {
        return values_loop_of<Version<float, half_even, divide, false, false, plain>>();
      },
      v.rounding == Rounding::HalfEven, v.division == Division::Exact, v.plain);
}

QuantizeCodesLoop quantize_codes_loop(const QuantizeVersion& version, DType dtype,
                                      bool values) {
  return {chosen(version, values), size_of(dtype)};
}

DecodeLoop decode_loop(DType dtype) {
  return dispatch_codes(dtype, []<class Code>() -> DecodeLoop {
    return simd::best<const std::byte*, float*, int64_t, float, int32_t>(
        [](const std::byte* codes, float* y, int64_t n, float scale, int32_t zero_point) {
          const auto* q = reinterpret_cast<const Code*>(codes);
          QTAPE_INDEPENDENT
          for (int64_t i = 0; i < n; ++i) {
            y[i] = static_cast<float>(int32_t{q[i]} - zero_point) * scale;
          }
        });
  });
}

}  // namespace qtape::kernels
