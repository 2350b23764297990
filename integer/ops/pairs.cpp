#include "qtape/integer/ops/pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "qtape/integer/core/integer_binding.h"
#include "qtape/kernels/quantize/requantize_kernels.h"
#include "qtape/kernels/simd/threads.h"

namespace qtape::integer {

using namespace kernels;
namespace {

// An integer sum takes three 64-bit multiplications.
constexpr int64_t pair_grain = 4096;
constexpr int64_t vector_grain = 32768;

/// Returns the parameters of three grids that the vector loops read.
PairTerms terms_on(const IntegerValue& a, const IntegerValue& b, const CodeGrid& y) {
  return {.a = {a.type.dtype == DType::S8, a.zero_point},
          .b = {b.type.dtype == DType::S8, b.zero_point},
          .y = {y.zero_point, y.low, y.high}};
}

/// Computes the code of a sum or a difference.
template <int32_t sign>
struct SumTerms {
  Requantization requantization;
  AddMultiplier multiplier = {};
  int32_t a_zero = 0;
  int32_t b_zero = 0;
  CodeGrid grid = {};

  Fault load(const IntegerValue& a, const IntegerValue& b, const CodeGrid& to) {
    for (double scale : {a.scales[0], b.scales[0], to.scale}) {
      if (!are_addable(scale, scale, scale)) {
        return {"integer sums need normal f32 scales below 2^100; one is {value}", 0, scale};
      }
    }
    if (!are_addable(a.scales[0], b.scales[0], to.scale)) {
      const auto [smallest, largest] = std::minmax({a.scales[0], b.scales[0], to.scale});
      return {
          "the scales of two summands and their sum must differ by less than a factor of 2^64; "
          "the largest is {value} times the smallest",
          0, largest / smallest};
    }
    const bool of_16_bits = size_of(a.type.dtype) > 1 || size_of(b.type.dtype) > 1;
    multiplier = add_multiplier_of(a.scales[0], b.scales[0], to.scale, of_16_bits);
    a_zero = a.zero_point;
    b_zero = b.zero_point;
    grid = to;
    return {};
  }
  static bool fits(const IntegerValue& a, const IntegerValue& b, const CodeGrid& to) {
    return are_addable(a.scales[0], b.scales[0], to.scale);
  }
  static PairLoop loop(Requantization requantization) { return add_loop(requantization); }
  PairTerms of_pair(const IntegerValue& a, const IntegerValue& b) const {
    PairTerms terms = terms_on(a, b, grid);
    terms.sum = multiplier;
    terms.sign = sign;
    return terms;
  }
  int32_t code(int32_t a, int32_t b) const {
    const int64_t rounded =
        requantize_add(a - a_zero, sign * (b - b_zero), multiplier, requantization);
    return static_cast<int32_t>(
        std::clamp<int64_t>(rounded + grid.zero_point, grid.low, grid.high));
  }
};

/// Computes the code of a product.
struct ProductTerms {
  Requantization requantization;
  Multiplier multiplier = {};
  int32_t a_zero = 0;
  int32_t b_zero = 0;
  CodeGrid grid = {};

  static bool fits(const IntegerValue& a, const IntegerValue& b, const CodeGrid& to) {
    return are_scales(a.scales[0] * b.scales[0], to.scale);
  }
  Fault load(const IntegerValue& a, const IntegerValue& b, const CodeGrid& to) {
    const double scale = a.scales[0] * b.scales[0];
    if (!fits(a, b, to)) {
      return {
          "products need a normal f32 scale; the product of the operands' scales is {value}", 0,
          scale};
    }
    multiplier = multiplier_of(scale, to.scale);
    a_zero = a.zero_point;
    b_zero = b.zero_point;
    grid = to;
    return {};
  }
  static PairLoop loop(Requantization requantization) { return multiply_loop(requantization); }
  PairTerms of_pair(const IntegerValue& a, const IntegerValue& b) const {
    PairTerms terms = terms_on(a, b, grid);
    terms.product = multiplier;
    return terms;
  }
  int32_t code(int32_t a, int32_t b) const {
    const int64_t product = int64_t{a - a_zero} * (b - b_zero);
    const int64_t rounded = requantize(product, multiplier, requantization);
    return static_cast<int32_t>(
        std::clamp<int64_t>(rounded + grid.zero_point, grid.low, grid.high));
  }
};

template <class Op>
struct TermsOf;
template <>
struct TermsOf<Add> : SumTerms<1> {};
template <>
struct TermsOf<Sub> : SumTerms<-1> {};
template <>
struct TermsOf<Mul> : ProductTerms {};

/// Codes that are widened, combined and narrowed at once.
constexpr int64_t block = 256;

/// Copies codes of any dtype to s32.
void widen(const std::byte* from, DType dtype, int64_t begin, int64_t n, int32_t* to) {
  dispatch_codes(dtype, [&]<class Code>() {
    const Code* codes = reinterpret_cast<const Code*>(from) + begin;
    for (int64_t i = 0; i < n; ++i) to[i] = codes[i];
  });
}

void narrow(const int32_t* from, int64_t begin, int64_t n, DType dtype, std::byte* to) {
  dispatch_codes(dtype, [&]<class Code>() {
    Code* codes = reinterpret_cast<Code*>(to) + begin;
    for (int64_t i = 0; i < n; ++i) codes[i] = static_cast<Code>(from[i]);
  });
}

/// Returns the kernel for codes of 16 bits, in blocks of s32.
template <class Op>
IntegerKernel widened(const Op& op, const IntegerBinding& b) {
  auto terms = std::make_shared<TermsOf<Op>>(TermsOf<Op>{{b.requantization}});
  return {
      [terms, &op, a = b.inputs[0], z = b.inputs[1]] { return terms->load(*a, *z, op.grid); },
      [terms, b = b, n = b.out().type.elements()] {
        parallel_for(b.threads, n, block, pair_grain, [&](int64_t begin, int64_t end) {
          std::array<int32_t, block> x, z;
          for (int64_t at = begin; at < end; at += block) {
            const int64_t width = std::min(block, end - at);
            widen(b.operands[0], b.in(0).type.dtype, at, width, x.data());
            widen(b.operands[1], b.in(1).type.dtype, at, width, z.data());
            for (size_t i = 0; i < static_cast<size_t>(width); ++i) {
              x[i] = terms->code(x[i], z[i]);
            }
            narrow(x.data(), at, width, b.out().type.dtype, b.result);
          }
        });
      }};
}

/// Returns the kernel for 8-bit codes that uses the vector loops.
template <class Op>
IntegerKernel vectorised(const Op& op, const IntegerBinding& b) {
  auto terms = std::make_shared<PairTerms>();
  return {[terms, requantization = b.requantization, &op, a = b.inputs[0], z = b.inputs[1]] {
            TermsOf<Op> scalar{{requantization}};
            const Fault fault = scalar.load(*a, *z, op.grid);
            if (fault.text == nullptr) *terms = scalar.of_pair(*a, *z);
            return fault;
          },
          [terms, loop = TermsOf<Op>::loop(b.requantization), x = b.operand<uint8_t>(0),
           z = b.operand<uint8_t>(1), y = b.y<uint8_t>(), n = b.out().type.elements(),
           threads = b.threads] {
            parallel_for(threads, n, 64, vector_grain, [&](int64_t begin, int64_t end) {
              loop(x + begin, z + begin, y + begin, end - begin, terms.get());
            });
          }};
}

template <class Op>
IntegerValue infer_pair(const Op& op, IntegerInputs inputs) {
  check_operands(inputs, 2);
  check_codes(inputs[0], "a");
  check_codes(inputs[1], "b");
  check(inputs[0].type.shape == inputs[1].type.shape, "shapes differ: {} and {}",
        to_string(inputs[0].type.shape), to_string(inputs[1].type.shape));
  IntegerValue y = codes_of(op.grid, inputs[0].type.shape);
  check(TermsOf<Op>::fits(inputs[0], inputs[1], op.grid),
        "scales {} and {} allow no {} on a grid of scale {}", inputs[0].scales[0],
        inputs[1].scales[0], Op::name, op.grid.scale);
  return y;
}

template <class Op>
IntegerKernel kernel_pair(const Op& op, const IntegerBinding& b) {
  const bool narrow =
      size_of(b.in(0).type.dtype) + size_of(b.in(1).type.dtype) + size_of(op.grid.dtype) == 3;
  return narrow ? vectorised<Op>(op, b) : widened<Op>(op, b);
}

}  // namespace

IntegerValue Add::infer(IntegerInputs inputs) const { return infer_pair(*this, inputs); }
void Add::update(const IntegerBinding&, IntegerValue& y) const { set_grid(y, grid); }
IntegerKernel Add::optimized(const IntegerBinding& b) const { return kernel_pair(*this, b); }

IntegerValue Sub::infer(IntegerInputs inputs) const { return infer_pair(*this, inputs); }
void Sub::update(const IntegerBinding&, IntegerValue& y) const { set_grid(y, grid); }
IntegerKernel Sub::optimized(const IntegerBinding& b) const { return kernel_pair(*this, b); }

IntegerValue Mul::infer(IntegerInputs inputs) const { return infer_pair(*this, inputs); }
void Mul::update(const IntegerBinding&, IntegerValue& y) const { set_grid(y, grid); }
IntegerKernel Mul::optimized(const IntegerBinding& b) const { return kernel_pair(*this, b); }

}  // namespace qtape::integer
