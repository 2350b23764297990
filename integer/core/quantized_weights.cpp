#include "qtape/integer/core/quantized_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "qtape/kernels/quantize/pack.h"
#include "qtape/kernels/quantize/requantize.h"

namespace qtape {

using namespace kernels;
namespace {

template <class T>
std::span<const T> elements(const Tensor& tensor) {
  return {reinterpret_cast<const T*>(tensor.data.data()), tensor.data.size() / sizeof(T)};
}

void check_tensor(const Tensor& tensor, DType dtype, std::string_view what) {
  check(tensor.type.dtype == dtype && tensor.type.shape.rank() == 1,
        "{} must be {} of rank 1, got {}", what, to_string_view(dtype), to_string(tensor.type));
  check(static_cast<int64_t>(tensor.data.size()) == tensor.type.bytes(),
        "{} hold {} bytes, {} needs {}", what, tensor.data.size(), to_string(tensor.type),
        tensor.type.bytes());
}

void check_attributes(const QuantizedWeights& op) {
  check(op.shape.rank() == 2, "weights need a shape [n, k], got {}", to_string(op.shape));
  check(op.storage_bits == 2 || op.storage_bits == 4 || op.storage_bits == 8,
        "storage_bits must be 2, 4 or 8, got {}", op.storage_bits);
  const int64_t n = op.shape[0];
  check(op.shape[1] <= max_terms, "accumulators may have at most 2^23 terms, got {}",
        op.shape[1]);
  check(n <= max_terms, "weights may have at most 2^23 outputs, got {}", n);
  check_tensor(op.codes, DType::U8, "codes");
  check_tensor(op.scales, DType::F32, "scales");
  check_tensor(op.bias, DType::S32, "bias");
  const int64_t bytes = packed_bytes(op.shape.elements(), op.storage_bits);
  check(op.codes.type.elements() == bytes, "{} weights of {} bits take {} bytes, got {}",
        to_string(op.shape), op.storage_bits, bytes, op.codes.type.elements());
  check(op.scales.type.elements() == n || op.scales.type.elements() == 1,
        "expected {} scales or one, got {}", n, op.scales.type.elements());
  check(op.bias.type.elements() == n || op.bias.type.elements() == 0,
        "expected {} biases or none, got {}", n, op.bias.type.elements());
  for (float scale : elements<float>(op.scales)) {
    check(scale > 0 && std::isnormal(scale), "scales must be positive normal f32, got {}",
          scale);
  }
}

[[noreturn]] void fail_certificate(const Certificate& stated, const Certificate& proven) {
  check(stated != Certificate{}, "the certificate is missing or 0; the weights prove {}",
        to_string(proven));
  std::string text;
  for_each_field<Certificate>([&](const auto& each) {
    const int64_t bound = stated.*each.member;
    if (bound == proven.*each.member) return;
    text += fmt::format("{}{} is {}, the weights prove {}", text.empty() ? "" : "; ", each.key,
                        bound == 0 ? "missing or 0" : fmt::format("{}", bound),
                        proven.*each.member);
  });
  fail<GraphError>("the certificate does not hold: {}", text);
}

}  // namespace

std::vector<int8_t> QuantizedWeights::unpacked() const {
  check();
  return unpack_codes<int8_t>(codes.data, shape.elements(), storage_bits);
}

std::vector<int32_t> QuantizedWeights::biases() const {
  const auto all = elements<int32_t>(bias);
  return {all.begin(), all.end()};
}

std::vector<int32_t> QuantizedWeights::all_biases() const {
  std::vector<int32_t> all = biases();
  all.resize(static_cast<size_t>(outputs()));
  return all;
}

void QuantizedWeights::check() const { check_attributes(*this); }

std::vector<int64_t> QuantizedWeights::offsets(const IntegerValue& x) const {
  const std::vector<int8_t> w = unpacked();
  const auto biases = elements<int32_t>(bias);
  std::vector<int64_t> all(static_cast<size_t>(outputs()));
  for (size_t c = 0; c < all.size(); ++c) {
    int64_t sum = 0;
    const auto k = static_cast<size_t>(terms());
    for (size_t i = 0; i < k; ++i) sum += w[c * k + i];
    all[c] = (biases.empty() ? 0 : biases[c]) - x.zero_point * sum;
  }
  return all;
}

IntegerValue QuantizedWeights::accumulators(const IntegerValue& x, const Shape& result,
                                            bool f32_scales) const {
  const auto [n, k] = std::pair(outputs(), terms());
  const std::vector<int8_t> w = unpacked();
  const auto biases = elements<int32_t>(bias);
  const Certificate proven = certify(w, n, k, biases, x);
  if (proven != certificate) fail_certificate(certificate, proven);
  const bool of_16_bits = size_of(x.type.dtype) > 1;
  const DType dtype = certificate.fits_s32() && !of_16_bits ? DType::S32 : DType::S64;
  IntegerValue y{{dtype, result}};
  y.accumulator = of_16_bits ? Accumulator::S64 : Accumulator::S32;
  for (float s : elements<float>(scales)) {
    y.scales.push_back(accumulator_scale(x.scales[0], s, f32_scales));
    qtape::check(are_scales(y.scales.back(), 1),
                 "accumulators need scales that are normal f32, got {}", y.scales.back());
  }
  for (int64_t c = 0; c < n; ++c) {
    const AccumulatorRange range = accumulator_range(
        std::span(w).subspan(static_cast<size_t>(c * k), static_cast<size_t>(k)),
        biases.empty() ? 0 : biases[static_cast<size_t>(c)], x);
    y.low = c == 0 ? range.low : std::min(y.low, range.low);
    y.high = c == 0 ? range.high : std::max(y.high, range.high);
  }
  return y;
}

QuantizedWeights pack_weights(std::span<const int8_t> codes, const Shape& shape,
                              int storage_bits, std::span<const float> scales,
                              std::span<const int32_t> bias, const IntegerValue& x) {
  check(shape.rank() == 2 && shape.elements() == static_cast<int64_t>(codes.size()),
        "expected weights [n, k] with one code each, got {} and {} codes", to_string(shape),
        codes.size());
  QuantizedWeights w{.shape = shape, .storage_bits = storage_bits};
  const auto packed = pack_codes(codes, storage_bits);
  w.codes = {{DType::U8, {static_cast<int64_t>(packed.size())}}, packed};
  w.scales = Tensor::of<float>({static_cast<int64_t>(scales.size())}, scales);
  w.bias = Tensor::of<int32_t>({static_cast<int64_t>(bias.size())}, bias);
  w.check();
  w.certificate = certify(codes, shape[0], shape[1], bias, x);
  return w;
}

}  // namespace qtape
