#include "qtape/integer/ops/linear.h"

#include <algorithm>
#include <cmath>

#include "qtape/integer/integer_binding.h"
#include "qtape/integer/linear_kernel.h"
#include "qtape/kernels/quantize/pack.h"

namespace qtape::integer {

using namespace kernels;
namespace {

template <class T>
std::span<const T> elements(const Tensor& tensor) {
  return {reinterpret_cast<const T*>(tensor.data.data()), tensor.data.size() / sizeof(T)};
}

void check_tensor(const Tensor& tensor, DType dtype, std::string_view what) {
  check(tensor.type.dtype == dtype && tensor.type.shape.rank() == 1 &&
            static_cast<int64_t>(tensor.data.size()) == tensor.type.bytes(),
        "{} must be {} of rank 1, got {}", what, to_string_view(dtype), to_string(tensor.type));
}

void check_attributes(const Linear& op) {
  check(op.shape.rank() == 2, "weights need a shape [n, k], got {}", to_string(op.shape));
  check(op.storage_bits == 2 || op.storage_bits == 4 || op.storage_bits == 8,
        "storage_bits must be 2, 4 or 8, got {}", op.storage_bits);
  const int64_t n = op.shape[0];
  check(op.shape[1] <= max_terms, "accumulators may have 2^23 terms, got {}", op.shape[1]);
  check(n <= max_terms, "weights may have 2^23 outputs, got {}", n);
  check_tensor(op.weight, DType::U8, "weight");
  check_tensor(op.scales, DType::F32, "scales");
  check_tensor(op.bias, DType::S32, "bias");
  const int64_t bytes = packed_bytes(op.shape.elements(), op.storage_bits);
  check(op.weight.type.elements() == bytes, "{} weights of {} bits take {} bytes, got {}",
        to_string(op.shape), op.storage_bits, bytes, op.weight.type.elements());
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

/// A row of products. Nothing overflows an Acc of 32 bits where the certificate says so.
template <class X, class Acc>
Acc dot(const X* x, const int8_t* w, int64_t k) {
  Acc sum = 0;
  for (int64_t i = 0; i < k; ++i) sum += static_cast<Acc>(x[i]) * static_cast<Acc>(w[i]);
  return sum;
}

}  // namespace

static_assert(IntegerCompute<Linear>);

std::vector<int8_t> Linear::codes() const {
  return unpack_codes<int8_t>(weight.data, shape.elements(), storage_bits);
}

std::vector<int64_t> Linear::offsets(const IntegerValue& x) const {
  const std::vector<int8_t> w = codes();
  const auto biases = elements<int32_t>(bias);
  std::vector<int64_t> all(static_cast<size_t>(shape[0]));
  for (size_t c = 0; c < all.size(); ++c) {
    int64_t sum = 0;
    const auto k = static_cast<size_t>(shape[1]);
    for (size_t i = 0; i < k; ++i) sum += w[c * k + i];
    all[c] = (biases.empty() ? 0 : biases[c]) - x.zero_point * sum;
  }
  return all;
}

IntegerValue Linear::infer(IntegerInputs inputs) const {
  check_operands(inputs, 1);
  const IntegerValue& x = inputs[0];
  check_codes(x, "x");
  check_attributes(*this);
  const auto [n, k] = std::pair(shape[0], shape[1]);
  const Shape& outer = x.type.shape;
  check(outer.rank() >= 1 && outer[-1] == k, "x must be [..., {}], got {}", k,
        to_string(outer));
  const std::vector<int8_t> w = codes();
  const auto biases = elements<int32_t>(bias);
  const Certificate proven = certify(w, n, k, biases, x);
  if (proven != certificate) fail_certificate(certificate, proven);
  const bool of_16_bits = size_of(x.type.dtype) > 1;
  const DType dtype = certificate.fits_s32() && !of_16_bits ? DType::S32 : DType::S64;
  IntegerValue y{{dtype, outer.with(-1, n)}};
  y.accumulator = of_16_bits ? Accumulator::S64 : Accumulator::S32;
  for (float s : elements<float>(scales)) {
    y.scales.push_back(x.scales[0] * double{s});
    check(are_scales(y.scales.back(), 1),
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

IntegerKernel Linear::reference(const IntegerBinding& b) const {
  const int64_t rows = shape[1] == 0 ? b.output.type.elements() / std::max<int64_t>(1, shape[0])
                                     : b.inputs[0].type.elements() / shape[1];
  return dispatch_codes(b.inputs[0].type.dtype, [&]<class X>() {
    return dispatch_accumulators(b.output.type.dtype, [&]<class Acc>() -> IntegerKernel {
      return [w = codes(), offsets = offsets(b.inputs[0]), n = shape[0], k = shape[1], rows,
              x = b.operand<X>(0), y = b.y<Acc>()] {
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t c = 0; c < n; ++c) {
            const Acc products = dot<X, Acc>(x + row * k, w.data() + c * k, k);
            y[row * n + c] = static_cast<Acc>(products + offsets[static_cast<size_t>(c)]);
          }
        }
      };
    });
  });
}

IntegerKernel Linear::kernel(const IntegerBinding& b) const {
  return linear_kernel(*this, b, epilogue(*this, b));
}

}  // namespace qtape::integer
