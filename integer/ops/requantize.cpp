#include "qtape/integer/ops/requantize.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/products/epilogue.h"
#include "qtape/kernels/quantize/requantize_kernels.h"
#include "qtape/kernels/simd/threads.h"

namespace qtape::integer {

using namespace kernels;
namespace {

constexpr int64_t requantize_grain = 4096;

/// Parameters with which requantize computes the code of one accumulator or code.
struct Terms {
  std::vector<Multiplier> multipliers;  // by channel
  Requantization requantization;
  Accumulator accumulator;
  int32_t zero = 0;  // of x
  CodeGrid grid = {};

  explicit Terms(const IntegerBinding& b)
      : requantization(b.requantization), accumulator(b.in(0).accumulator) {
    multipliers.reserve(b.in(0).scales.size());
  }

  Fault load(const IntegerValue& x, const CodeGrid& to) {
    zero = x.zero_point;
    grid = to;
    return load_multipliers(x, to.scale, requantization, multipliers);
  }
  int64_t code(int64_t x, size_t channel) const {
    const int64_t rounded =
        requantize(x - zero, multipliers[channel], requantization, accumulator);
    return std::clamp<int64_t>(rounded + grid.zero_point, grid.low, grid.high);
  }
};

/// Returns the kernel that processes one accumulator or code at a time.
template <class X, class Code>
IntegerKernel plain(const Requantize& op, const IntegerBinding& b) {
  auto terms = std::make_shared<Terms>(b);
  return {[terms, &op, x = b.inputs[0]] { return terms->load(*x, op.grid); },
          [terms, x = b.operand<X>(0), y = b.y<Code>(), n = b.out().type.elements(),
           threads = b.threads] {
            const size_t channels = terms->multipliers.size();
            parallel_for(threads, n, 64, requantize_grain, [&](int64_t begin, int64_t end) {
              for (int64_t i = begin; i < end; ++i) {
                y[i] = static_cast<Code>(terms->code(x[i], static_cast<size_t>(i) % channels));
              }
            });
          }};
}

/// Returns the kernel that uses a lookup table of all codes.
template <class X, class Code>
IntegerKernel looked_up(const Requantize& op, const IntegerBinding& b) {
  constexpr int32_t least = std::numeric_limits<X>::lowest();
  constexpr int32_t most = std::numeric_limits<X>::max();
  struct State {
    Terms terms;
    std::vector<Code> table;
  };
  auto state = std::make_shared<State>(State{Terms(b), {}});
  state->table.resize(static_cast<size_t>(most - least + 1));
  return {[state, &op, x = b.inputs[0]] {
            const Fault fault = state->terms.load(*x, op.grid);
            if (fault.text != nullptr) return fault;
            for (int32_t q = least; q <= most; ++q) {
              state->table[static_cast<size_t>(q - least)] =
                  static_cast<Code>(state->terms.code(q, 0));
            }
            return Fault{};
          },
          [state, x = b.operand<X>(0), y = b.y<Code>(), n = b.out().type.elements(),
           threads = b.threads] {
            const Code* table = state->table.data();
            parallel_for(threads, n, 64, pointwise_grain, [&](int64_t begin, int64_t end) {
              for (int64_t i = begin; i < end; ++i) {
                y[i] = table[static_cast<size_t>(x[i] - least)];
              }
            });
          }};
}

/// Parameters of the vector loops. A multiplier takes about 20 ns to compute, so multipliers
/// are kept as long as the scales do not change.
struct Vectors {
  RequantizeTable table;
  RequantizeCodes codes;
  Requantization requantization;
  std::vector<Multiplier> multipliers;
  std::vector<double> scales = {};
  double output_scale = 0;

  Vectors(Requantization of, int64_t n) : requantization(of) {
    multipliers.reserve(static_cast<size_t>(n));
    scales.reserve(static_cast<size_t>(n));
  }

  Fault load(const IntegerValue& x, const CodeGrid& grid, std::span<const int64_t> offsets,
             int64_t n) {
    codes = {grid.zero_point, grid.low, grid.high};
    if (scales != x.scales || output_scale != grid.scale) {
      scales.clear();
      const Fault fault = load_multipliers(x, grid.scale, requantization, multipliers);
      if (fault.text != nullptr) return fault;
      scales.assign(x.scales.begin(), x.scales.end());
      output_scale = grid.scale;
    } else if (offsets.empty() || std::ranges::equal(offsets, table.offsets)) {
      return {};
    }
    table.assign(multipliers, offsets, n);
    return {};
  }
};

/// Returns the kernel for s32 accumulators that uses the vector loops.
template <class Code>
IntegerKernel vectorised(const Requantize& op, const IntegerBinding& b) {
  const int64_t n = static_cast<int64_t>(b.in(0).scales.size());
  auto state = std::make_shared<Vectors>(b.requantization, n);
  return {[state, n, &op, x = b.inputs[0]] { return state->load(*x, op.grid, {}, n); },
          [state, loop = requantize_loop<Code>(b.requantization), n,
           rows = n == 0 ? 0 : b.out().type.elements() / n, x = b.operand<int32_t>(0),
           y = b.y<Code>(), threads = b.threads] {
            parallel_for(threads, rows, 1,
                         std::max<int64_t>(1, pointwise_grain / std::max<int64_t>(1, n)),
                         [&](int64_t begin, int64_t end) {
                           loop(x + begin * n, y + begin * n, end - begin, &state->table,
                                &state->codes);
                         });
          }};
}

template <class X, class Code>
IntegerKernel fast(const Requantize& op, const IntegerBinding& b) {
  if constexpr (std::is_same_v<X, int32_t>) {
    return vectorised<Code>(op, b);
  } else if constexpr (std::is_same_v<X, int64_t>) {
    return plain<X, Code>(op, b);
  } else {
    // Building a table of 16-bit codes takes longer than requantizing a small tensor.
    if (b.refreshed && sizeof(X) > 1) return plain<X, Code>(op, b);
    return looked_up<X, Code>(op, b);
  }
}

}  // namespace

Multiplier multiplier_to(double scale, const IntegerValue& x, size_t c,
                         Requantization requantization) {
  if (requantization != Requantization::DoubleRounding || x.terms == 1) {
    return multiplier_of(x.scales[c], scale);
  }
  // Scales of codes are f32, so the quotient in f64 times the number of terms rounds to them.
  const auto sum_scale = static_cast<float>(x.scales[c] * static_cast<double>(x.terms));
  return mean_multiplier_of(double{sum_scale}, scale, x.terms);
}

Fault load_multipliers(const IntegerValue& x, double scale, Requantization requantization,
                       std::vector<Multiplier>& to) {
  to.clear();
  for (size_t c = 0; c < x.scales.size(); ++c) {
    if (!are_scales(x.scales[c], scale)) {
      return {"accumulators need a normal f32 scale; that of channel {index} is {value}",
              static_cast<int64_t>(c), x.scales[c]};
    }
    to.push_back(multiplier_to(scale, x, c, requantization));
  }
  return {};
}

IntegerValue Requantize::infer(IntegerInputs inputs) const {
  check_operands(inputs, 1);
  const IntegerValue& x = inputs[0];
  check(x.is_codes() || x.is_accumulators(), "x must be codes or accumulators, got {}",
        to_string(x.type));
  check(std::max(std::abs(x.low), std::abs(x.high)) < max_accumulator,
        "accumulators must be within 2^47 of 0, got {}..{}", x.low, x.high);
  for (size_t c = 0; c < x.scales.size(); ++c) {
    check(are_scales(x.scales[c], grid.scale),
          "scale {} of channel {} must be a positive normal f32, as must {}", x.scales[c], c,
          grid.scale);
  }
  return codes_of(grid, x.type.shape);
}

void Requantize::update(const IntegerBinding&, IntegerValue& y) const { set_grid(y, grid); }

IntegerKernel Requantize::optimized(const IntegerBinding& b) const {
  return dispatch_integers(b.in(0).type.dtype, [&]<class X>() {
    return dispatch_codes(grid.dtype, [&]<class Code>() { return fast<X, Code>(*this, b); });
  });
}

Epilogue Requantize::epilogue(const IntegerBinding& b) const {
  return dispatch_codes(grid.dtype, [&]<class Code>() -> Epilogue {
    const auto n = b.in(0).type.shape[-1];
    auto state = std::make_shared<Vectors>(b.requantization, n);
    Code* y = b.y<Code>();
    return {[this, state, n, x = b.inputs[0]](std::span<const int64_t> offsets) {
              return state->load(*x, grid, offsets, n);
            },
            [state, n, y, loop = requantize_loop<Code>(b.requantization)](
                int64_t row, int64_t rows, const int32_t* products) {
              loop(products, y + row * n, rows, &state->table, &state->codes);
            },
            [state, n, y, requantization = b.requantization, accumulator = b.in(0).accumulator](
                int64_t row, int64_t rows, const int64_t* products) {
              requantize_s64(products, y + row * n, rows, state->table, state->codes,
                             requantization, accumulator);
            }};
  });
}

}  // namespace qtape::integer
