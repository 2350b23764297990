#include "qtape/integer/ops/pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/ops/operand_walk.h"
#include "qtape/integer/ops/structure.h"
#include "qtape/kernels/quantize/requantize_kernels.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/families/reduction.h"

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

/// Codes that are brought together, combined and stored at once.
constexpr int64_t block = 256;
constexpr int64_t vector_block = 1024;

void narrow(const int32_t* from, int64_t begin, int64_t n, DType dtype, std::byte* to) {
  dispatch_codes(dtype, [&]<class Code>() {
    Code* codes = reinterpret_cast<Code*>(to) + begin;
    for (int64_t i = 0; i < n; ++i) codes[i] = static_cast<Code>(from[i]);
  });
}

/// The operands of a pair, in the order of its result.
class Pair {
 public:
  explicit Pair(const IntegerBinding& b)
      : operands_{b.operands[0], b.operands[1]},
        dtypes_{b.in(0).type.dtype, b.in(1).type.dtype},
        walks_{OperandWalk(b.in(0).type.shape, b.out().type.shape),
               OperandWalk(b.in(1).type.shape, b.out().type.shape)} {}

  bool is_whole() const { return walks_[0].is_whole() && walks_[1].is_whole(); }

  /// Copies the codes of operand `k` that belong to `n` elements of the result to s32.
  void widen(size_t k, int64_t begin, int64_t n, int32_t* to) const {
    dispatch_codes(dtypes_[k], [&]<class Code>() {
      walks_[k].read(reinterpret_cast<const Code*>(operands_[k]), begin, n, to);
    });
  }
  /// Returns these codes where they lie, or else in `buffer`.
  template <class Code>
  const Code* codes(size_t k, int64_t begin, int64_t n, Code* buffer) const {
    const auto* x = reinterpret_cast<const Code*>(operands_[k]);
    if (walks_[k].is_whole()) return x + begin;
    walks_[k].read(x, begin, n, buffer);
    return buffer;
  }
  /// Calls `combine(a, b, begin, n)` with codes of both, for parts of `begin` to `end`.
  template <class Code, class Combine>
  void for_each_part(int64_t begin, int64_t end, const Combine& combine) const {
    std::array<Code, vector_block> a, b;
    const int64_t most = is_whole() ? end - begin : vector_block;
    for (int64_t at = begin; at < end; at += most) {
      const int64_t n = std::min(most, end - at);
      combine(codes(0, at, n, a.data()), codes(1, at, n, b.data()), at, n);
    }
  }

 private:
  std::array<const std::byte*, 2> operands_;
  std::array<DType, 2> dtypes_;
  std::array<OperandWalk, 2> walks_;
};

/// Returns the kernel for codes of 16 bits, in blocks of s32.
template <class Op>
IntegerKernel widened(const Op& op, const IntegerBinding& b) {
  auto terms = std::make_shared<TermsOf<Op>>(TermsOf<Op>{{b.requantization}});
  return {
      [terms, &op, a = b.inputs[0], z = b.inputs[1]] { return terms->load(*a, *z, op.grid); },
      [terms, pair = Pair(b), y = b.result, dtype = b.out().type.dtype,
       n = b.out().type.elements(), threads = b.threads] {
        parallel_for(threads, n, block, pair_grain, [&](int64_t begin, int64_t end) {
          std::array<int32_t, block> x, z;
          for (int64_t at = begin; at < end; at += block) {
            const int64_t width = std::min(block, end - at);
            pair.widen(0, at, width, x.data());
            pair.widen(1, at, width, z.data());
            for (size_t i = 0; i < static_cast<size_t>(width); ++i) {
              x[i] = terms->code(x[i], z[i]);
            }
            narrow(x.data(), at, width, dtype, y);
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
          [terms, loop = TermsOf<Op>::loop(b.requantization), pair = Pair(b),
           y = b.y<uint8_t>(), n = b.out().type.elements(), threads = b.threads] {
            const auto combine = [&](const uint8_t* x, const uint8_t* z, int64_t at,
                                     int64_t width) { loop(x, z, y + at, width, terms.get()); };
            parallel_for(threads, n, 64, vector_grain, [&](int64_t begin, int64_t end) {
              pair.for_each_part<uint8_t>(begin, end, combine);
            });
          }};
}

Shape pair_shape(IntegerInputs inputs) {
  check_operands(inputs, 2);
  qtape::check_codes(inputs[0], "a");
  qtape::check_codes(inputs[1], "b");
  return broadcast_shape(inputs[0].type.shape, inputs[1].type.shape);
}

template <class Op>
IntegerValue infer_pair(const Op& op, IntegerInputs inputs) {
  IntegerValue y = codes_of(op.grid, pair_shape(inputs));
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

/// Takes the larger code of each pair, or the smaller one.
template <class Code, bool larger>
IntegerKernel choose(const IntegerBinding& b) {
  const auto loop = simd::best<const Code*, const Code*, Code*, int64_t>(
      [](const Code* x, const Code* z, Code* y, int64_t n) {
        QTAPE_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) {
          y[i] = (larger ? x[i] > z[i] : x[i] < z[i]) ? x[i] : z[i];
        }
      });
  return {.run = [loop, pair = Pair(b), y = b.y<Code>(), n = b.out().type.elements(),
                  threads = b.threads] {
    const auto combine = [&](const Code* x, const Code* z, int64_t at, int64_t width) {
      loop(x, z, y + at, width);
    };
    parallel_for(threads, n, 64, vector_grain, [&](int64_t begin, int64_t end) {
      pair.for_each_part<Code>(begin, end, combine);
    });
  }};
}

template <bool larger>
IntegerKernel kernel_choice(const IntegerBinding& b) {
  return dispatch_codes(b.out().type.dtype,
                        [&]<class Code>() { return choose<Code, larger>(b); });
}

/// Range of the larger of two codes, or of the smaller one.
void set_choice(const IntegerValue& a, const IntegerValue& b, bool larger, IntegerValue& y) {
  y.scales[0] = a.scales[0];
  y.zero_point = a.zero_point;
  y.low = larger ? std::max(a.low, b.low) : std::min(a.low, b.low);
  y.high = larger ? std::max(a.high, b.high) : std::min(a.high, b.high);
}

IntegerValue infer_choice(IntegerInputs inputs, bool larger) {
  const Shape shape = pair_shape(inputs);
  check_one_grid(inputs);
  check(inputs[0].type.dtype == inputs[1].type.dtype, "dtypes differ: {} and {}",
        to_string_view(inputs[0].type.dtype), to_string_view(inputs[1].type.dtype));
  IntegerValue y = inputs[0];
  y.type.shape = shape;
  set_choice(inputs[0], inputs[1], larger, y);
  return y;
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

IntegerValue Maximum::infer(IntegerInputs inputs) const { return infer_choice(inputs, true); }
void Maximum::update(const IntegerBinding& b, IntegerValue& y) const {
  set_choice(b.in(0), b.in(1), true, y);
}
IntegerKernel Maximum::optimized(const IntegerBinding& b) const {
  return kernel_choice<true>(b);
}

IntegerValue Minimum::infer(IntegerInputs inputs) const { return infer_choice(inputs, false); }
void Minimum::update(const IntegerBinding& b, IntegerValue& y) const {
  set_choice(b.in(0), b.in(1), false, y);
}
IntegerKernel Minimum::optimized(const IntegerBinding& b) const {
  return kernel_choice<false>(b);
}

}  // namespace qtape::integer
