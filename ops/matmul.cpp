#include "qtape/ops/matmul.h"

#include <algorithm>

#include "qtape/kernels/onednn/gemm.h"
#include "qtape/ops/families/decode.h"
#include "qtape/ops/families/sequence.h"

namespace qtape {

using namespace kernels;
namespace {

/// The product of the operands as matrices: leading extents either become a batch or, when b
/// has none and a is not transposed, join the rows of a.
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

template <class T>
Kernel run(const Gemm& g, int threads, const T* a, const T* b, T* c) {
  return [product = prepare_gemm(g, a, b, c, threads)](const Step&) { product(); };
}

/// da = dy b, where b is stored transposed and a is not.
Gemm gradient_a_of(const Gemm& g) { return {.batch = g.batch, .m = g.m, .n = g.k, .k = g.n}; }

/// db = dy^T a, likewise.
Gemm gradient_b_of(const Gemm& g) {
  return {.batch = g.batch, .m = g.n, .n = g.k, .k = g.m, .transpose_a = true};
}

/// The gradient of operand `to`, the other one being rows of g.k that are held as codes.
Kernel gradient_of_codes(Gemm product, const Binding& b, int to) {
  product.accumulate = b.accumulate(to);
  const EncodedOperand codes = *b.encoded_operand(1 - to);
  if (product.batch > 1) {
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

/// da: dy op(b)^T, or its transpose when a is stored transposed.
template <class T>
Kernel gradient_a(const Gemm& g, const Binding& b) {
  const bool accumulate = b.accumulate(0);
  if (g.transpose_a) {
    return run<T>({g.batch, g.k, g.m, g.n, g.transpose_b, true, accumulate}, b.threads,
                  b.operand<const T>(1), b.dy_as<const T>(), b.dx<T>(0));
  }
  return run<T>({g.batch, g.m, g.k, g.n, false, !g.transpose_b, accumulate}, b.threads,
                b.dy_as<const T>(), b.operand<const T>(1), b.dx<T>(0));
}

/// db: op(a)^T dy, or its transpose when b is stored transposed.
template <class T>
Kernel gradient_b(const Gemm& g, const Binding& b) {
  const bool accumulate = b.accumulate(1);
  if (g.transpose_b) {
    return run<T>({g.batch, g.n, g.k, g.m, true, g.transpose_a, accumulate}, b.threads,
                  b.dy_as<const T>(), b.operand<const T>(0), b.dx<T>(1));
  }
  return run<T>({g.batch, g.k, g.n, g.m, !g.transpose_a, false, accumulate}, b.threads,
                b.operand<const T>(0), b.dy_as<const T>(), b.dx<T>(1));
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

/// What is held as codes becomes values a few columns at a time, matrices of a batch all at
/// once.
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
    if (g.batch > 1) {
      footprint.scratch = std::max(footprint.scratch, 4 * inputs[i].elements());
    } else {
      const int64_t columns = column_scratch(i == 0 ? gradient_b_of(g) : gradient_a_of(g));
      footprint.thread_scratch = std::max(footprint.thread_scratch, columns);
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

Kernel MatMul::backward(const Binding& b) const {
  const Gemm g = product_of(*this, b.inputs[0].shape, b.inputs[1].shape);
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    Kernel da, db;
    if (b.wanted(0)) {
      da = b.encoded_operand(1) ? gradient_of_codes(gradient_a_of(g), b, 0)
                                : gradient_a<T>(g, b);
    }
    if (b.wanted(1)) {
      db = b.encoded_operand(0) ? gradient_of_codes(gradient_b_of(g), b, 1)
                                : gradient_b<T>(g, b);
    }
    return sequence(std::move(da), std::move(db));
  });
}

}  // namespace qtape
