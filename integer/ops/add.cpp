#include "qtape/integer/ops/add.h"

#include <algorithm>

#include "qtape/integer/integer_binding.h"
#include "qtape/kernels/simd/threads.h"

namespace qtape::integer {

using namespace kernels;
namespace {

// A sum in integers takes three multiplications of 64 bits.
constexpr int64_t grain = 4096;
constexpr int64_t min_lookups = 4096;

AddMultiplier multiplier_of(const Add& op, IntegerInputs inputs) {
  const bool of_16_bits = std::ranges::any_of(
      inputs, [](const IntegerValue& x) { return size_of(x.type.dtype) > 1; });
  return add_multiplier_of(inputs[0].scales[0], inputs[1].scales[0], op.grid.scale, of_16_bits);
}

struct Terms {
  AddMultiplier multiplier;
  Requantization requantization;
  int32_t a_zero, b_zero;
  CodeGrid grid;

  int32_t code(int32_t a, int32_t b) const {
    const int64_t rounded = requantize_add(a - a_zero, b - b_zero, multiplier, requantization);
    return static_cast<int32_t>(
        std::clamp<int64_t>(rounded + grid.zero_point, grid.low, grid.high));
  }
};

template <class A, class B, class Code>
IntegerKernel plain(const Terms& terms, const IntegerBinding& b, int threads) {
  return [terms, x = b.operand<A>(0), z = b.operand<B>(1), y = b.y<Code>(),
          n = b.output.type.elements(), threads] {
    parallel_for(threads, n, 64, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = static_cast<Code>(terms.code(x[i], z[i]));
    });
  };
}

/// Codes of 8 bits by a table of all pairs, which fits the second-level cache.
template <class A, class B, class Code>
IntegerKernel looked_up(const Terms& terms, const IntegerBinding& b) {
  std::vector<Code> table;
  for (int32_t first = 0; first < 256; ++first) {
    for (int32_t second = 0; second < 256; ++second) {
      table.push_back(
          static_cast<Code>(terms.code(static_cast<A>(first), static_cast<B>(second))));
    }
  }
  return [table = std::move(table), x = b.operand<uint8_t>(0), z = b.operand<uint8_t>(1),
          y = b.y<Code>(), n = b.output.type.elements(), threads = b.threads] {
    parallel_for(threads, n, 64, pointwise_grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = table[size_t{x[i]} * 256 + z[i]];
    });
  };
}

/// Calls `body` with the storage types of both operands and of the codes.
template <class Body>
IntegerKernel dispatch(const Add& op, const IntegerBinding& b, const Body& body) {
  const Terms terms{multiplier_of(op, b.inputs), b.requantization, b.inputs[0].zero_point,
                    b.inputs[1].zero_point, op.grid};
  return dispatch_codes(b.inputs[0].type.dtype, [&]<class A>() {
    return dispatch_codes(b.inputs[1].type.dtype, [&]<class B>() {
      return dispatch_codes(op.grid.dtype, [&]<class Code>() {
        return body.template operator()<A, B, Code>(terms);
      });
    });
  });
}

}  // namespace

static_assert(IntegerCompute<Add>);

IntegerValue Add::infer(IntegerInputs inputs) const {
  check_operands(inputs, 2);
  check_codes(inputs[0], "a");
  check_codes(inputs[1], "b");
  check(inputs[0].type.shape == inputs[1].type.shape, "shapes differ: {} and {}",
        to_string(inputs[0].type.shape), to_string(inputs[1].type.shape));
  IntegerValue y = codes_of(grid, inputs[0].type.shape);
  check(are_addable(inputs[0].scales[0], inputs[1].scales[0], grid.scale),
        "scales {} and {} cannot be added", inputs[0].scales[0], inputs[1].scales[0]);
  return y;
}

IntegerKernel Add::reference(const IntegerBinding& b) const {
  return dispatch(*this, b, [&]<class A, class B, class Code>(const Terms& terms) {
    return plain<A, B, Code>(terms, b, 1);
  });
}

IntegerKernel Add::kernel(const IntegerBinding& b) const {
  return dispatch(*this, b, [&]<class A, class B, class Code>(const Terms& terms) {
    if constexpr (sizeof(A) == 1 && sizeof(B) == 1) {
      // Small tensors are sooner added than all pairs are.
      if (b.output.type.elements() >= min_lookups) return looked_up<A, B, Code>(terms, b);
    }
    return plain<A, B, Code>(terms, b, b.threads);
  });
}

}  // namespace qtape::integer
