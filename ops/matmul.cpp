#include "qtape/ops/matmul.h"

#include <algorithm>

#include "qtape/kernels/onednn/gemm.h"
#include "qtape/ops/families/bf16.h"
#include "qtape/ops/families/decode.h"
#include "qtape/ops/families/sequence.h"

namespace qtape {

using namespace kernels;
namespace {

/// The product of the operands as matrices. Leading extents become a batch or, if b has none
/// and a is not transposed, additional rows of a.
Gemm product_of(const MatMul& op, const Shape& a, const Shape& b) {
  Gemm g;
  g.m = op.transpose_a ? a[-1] : a[-2];
  g.k = op.transpose_a ? a[-2] : a[-1];
  g.n = op.transpose_b ? b[-2] : b[-1];
  g.transpose_a = op.transpose_a;
  g.transpose_b = op.transpose_b;
  for (int i = 0; i < a.rank() - 2; ++i) g.batch *= a[i];
  if (b.rank() == 2) {
    g.m *= g.batch;
    g.batch = 1;
  }
  return g;
}

void check_extents(const MatMul& op, const Shape& a, const Shape& b) {
  check(a.rank() >= 2 && b.rank() >= 2, "operands need rank >= 2, got {} and {}", a.rank(),
        b.rank());
  check(b.rank() == 2 || b.rank() == a.rank(),
        "rank of b must be 2 or that of a, got {} and {}", a.rank(), b.rank());
  check(b.rank() == a.rank() || !op.transpose_a,
        "transpose_a with a of rank {} needs b of the same rank, got rank {}", a.rank(),
        b.rank());
  for (int i = 0; b.rank() > 2 && i < a.rank() - 2; ++i) {
    check(a[i] == b[i], "batch extents of axis {} differ: {} and {}", i, a[i], b[i]);
  }
  const int64_t a_inner = op.transpose_a ? a[-2] : a[-1];
  const int64_t b_inner = op.transpose_b ? b[-1] : b[-2];
  check(a_inner == b_inner, "inner extents differ: {} and {}", a_inner, b_inner);
}

template <class T, class Result>
Kernel run(const Gemm& g, int threads, const T* a, const T* b, Result* c) {
  return [product = prepare_gemm(g, a, b, c, threads)](const Step&) { product(); };
}

/// da = dy b, if b is stored transposed and a is not.
Gemm gradient_a_of(const Gemm& g) { return {.batch = g.batch, .m = g.m, .n = g.k, .k = g.n}; }

/// db = dy^T a, under the same condition.
Gemm gradient_b_of(const Gemm& g) {
  return {.batch = g.batch, .m = g.n, .n = g.k, .k = g.m, .transpose_a = true};
}

/// Gradient of operand `to`; the other operand has g.k rows and is held as codes.
Kernel gradient_of_codes(Gemm product, const Binding& b, int to) {
  product.accumulate = b.accumulate(to);
  const EncodedOperand codes = *b.encoded_operand(1 - to);
  if (!runs_by_columns(product)) {
    auto* values = reinterpret_cast<float*>(b.scratch);
    return sequence(
        bind_decode(codes, product.batch * product.k * product.n, values, b.threads),
        run<float>(product, b.threads, b.dy_as<const float>(), values, b.dx<float>(to)));
  }
  auto columns = [codes, rows = product.k, width = product.n](int64_t begin, int64_t end,
                                                              float* values) {
    decode(codes, {.begin = begin, .stride = width, .rows = rows, .columns = end - begin},
           values);
  };
  return [run = prepare_gemm(product, b.dy_as<const float>(), std::move(columns),
                             b.dx<float>(to), b.scratch, b.threads)](const Step&) { run(); };
}

/// Operands of a gradient. T is float, double or, after rounding, BHalf.
template <class T>
struct Factors {
  const T* other;  ///< the other operand
  const T* dy;
};

/// da: dy op(b)^T, or its transpose when a is stored transposed.
template <class T, class Result>
Kernel gradient_a(const Gemm& g, const Factors<T>& of, const Binding& b) {
  auto* da = b.dx<Result>(0);
  const bool accumulate = b.accumulate(0);
  if (g.transpose_a) {
    return run({g.batch, g.k, g.m, g.n, g.transpose_b, true, accumulate}, b.threads, of.other,
               of.dy, da);
  }
  return run({g.batch, g.m, g.k, g.n, false, !g.transpose_b, accumulate}, b.threads, of.dy,
             of.other, da);
}

/// db: op(a)^T dy, or its transpose when b is stored transposed.
template <class T, class Result>
Kernel gradient_b(const Gemm& g, const Factors<T>& of, const Binding& b) {
  auto* db = b.dx<Result>(1);
  const bool accumulate = b.accumulate(1);
  if (g.transpose_b) {
    return run({g.batch, g.n, g.k, g.m, true, g.transpose_a, accumulate}, b.threads, of.dy,
               of.other, db);
  }
  return run({g.batch, g.k, g.n, g.m, !g.transpose_a, false, accumulate}, b.threads, of.other,
             of.dy, db);
}

/// Both gradients, with operands rounded to bf16 one after the other.
Kernel bf16_gradients(const Gemm& g, const Binding& b) {
  const int64_t elements = b.output.elements();
  auto* dy = reinterpret_cast<BHalf*>(b.scratch);
  auto* other = reinterpret_cast<BHalf*>(b.scratch + bf16_bytes(elements));
  const Factors<BHalf> of{other, dy};
  Kernel all = bind_rounding(b.dy_as<const float>(), elements, dy, b.threads);
  if (b.wanted(0)) {
    all = sequence(std::move(all),
                   sequence(bind_rounding(b, 1, other), gradient_a<BHalf, float>(g, of, b)));
  }
  if (b.wanted(1)) {
    all = sequence(std::move(all),
                   sequence(bind_rounding(b, 0, other), gradient_b<BHalf, float>(g, of, b)));
  }
  return all;
}

}  // namespace

static_assert(Compute<MatMul>);

TensorType MatMul::infer(Inputs inputs) const {
  check_same_compute(inputs[0], inputs[1]);
  const Shape& a = inputs[0].shape;
  const Shape& b = inputs[1].shape;
  check_extents(*this, a, b);
  const int64_t rows = transpose_a ? a[-1] : a[-2];
  std::vector<int64_t> extents(a.extents().begin(), a.extents().end());
  extents[extents.size() - 2] = rows;
  extents[extents.size() - 1] = transpose_b ? b[-2] : b[-1];
  return {inputs[0].dtype, Shape(extents)};
}

/// Operands held as codes are decoded a few columns at a time, or all at once if that is
/// faster.
Keep MatMul::keep() const {
  return {.operands = 0b11,
          .encoded = transpose_b && !transpose_a ? 0b11u : 0u,
          .for_others = 0b11};
}

Footprint MatMul::footprint(Inputs inputs) const {
  const Gemm g = product_of(*this, inputs[0].shape, inputs[1].shape);
  Footprint footprint;
  for (size_t i : {size_t{0}, size_t{1}}) {
    if (is_compute(inputs[i].dtype)) continue;
    const Gemm product = i == 0 ? gradient_b_of(g) : gradient_a_of(g);
    if (runs_by_columns(product)) {
      footprint.thread_scratch = std::max(footprint.thread_scratch, column_scratch(product));
    } else {
      footprint.scratch = std::max(footprint.scratch, 4 * inputs[i].elements());
    }
  }
  return footprint;
}

Kernel MatMul::forward(const Binding& b) const {
  const Gemm g = product_of(*this, b.inputs[0].shape, b.inputs[1].shape);
  return dispatch_compute(b.output.dtype, [&]<class T>() {
    return run<T>(g, b.threads, b.operand<const T>(0), b.operand<const T>(1), b.y<T>());
  });
}

int64_t MatMul::bf16_scratch(Inputs inputs) const {
  if (inputs[0].dtype == DType::F64) return 0;
  const Gemm g = product_of(*this, inputs[0].shape, inputs[1].shape);
  return bf16_bytes(g.batch * g.m * g.n) +
         bf16_bytes(std::max(inputs[0].elements(), inputs[1].elements()));
}

Kernel MatMul::backward(const Binding& b) const {
  const Gemm g = product_of(*this, b.inputs[0].shape, b.inputs[1].shape);
  if (b.gradient_precision == GradientPrecision::BF16 && b.output.dtype == DType::F32) {
    return bf16_gradients(g, b);
  }
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    const auto* dy = b.dy_as<const T>();
    Kernel da, db;
    if (b.wanted(0)) {
      da = b.encoded_operand(1) ? gradient_of_codes(gradient_a_of(g), b, 0)
                                : gradient_a<T, T>(g, {b.operand<const T>(1), dy}, b);
    }
    if (b.wanted(1)) {
      db = b.encoded_operand(0) ? gradient_of_codes(gradient_b_of(g), b, 1)
                                : gradient_b<T, T>(g, {b.operand<const T>(0), dy}, b);
    }
    return sequence(std::move(da), std::move(db));
  });
}

}  // namespace qtape
