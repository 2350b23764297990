#include "qtape/integer/ops/matmul.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "qtape/core/aligned.h"
#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/products/epilogue.h"
#include "qtape/integer/products/shares.h"
#include "qtape/integer/products/tiled_products.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/matmul.h"

namespace qtape::integer {
namespace {

/// y[j] = sum over t of a[t] b[j, t].
template <class Term, class Acc>
using RowLoop = void (*)(const Term* a, const Term* b, Acc* y, int64_t n, int64_t k);

template <class Term, class Acc>
RowLoop<Term, Acc> row_loop() {
  return simd::best<const Term*, const Term*, Acc*, int64_t, int64_t>(
      [](const Term* a, const Term* b, Acc* y, int64_t n, int64_t k) {
        for (int64_t j = 0; j < n; ++j, b += k) {
          Acc sum = 0;
          for (int64_t t = 0; t < k; ++t) {
            sum += static_cast<Acc>(a[t]) * static_cast<Acc>(b[t]);
          }
          y[j] = sum;
        }
      });
}

/// Writes codes minus their zero point as rows of k terms.
template <class Code, class Term>
void take_rows(const std::byte* from, int32_t zero, int64_t rows, int64_t row, int64_t k,
               int64_t term, Term* to) {
  const auto* x = reinterpret_cast<const Code*>(from);
  if (term == 1) {
    for (int64_t i = 0; i < rows; ++i) {
      const Code* first = x + i * row;
      for (int64_t t = 0; t < k; ++t) to[i * k + t] = static_cast<Term>(first[t] - zero);
    }
    return;
  }
  for (int64_t t = 0; t < k; ++t) {
    for (int64_t i = 0; i < rows; ++i) {
      to[i * k + t] = static_cast<Term>(x[i * row + t * term] - zero);
    }
  }
}

/// One operand of the kernel: matrices of rows of k terms.
template <class Term>
struct Rows {
  const IntegerValue* value;
  const std::byte* data;
  int64_t row, term;  ///< distances in elements

  /// Writes `rows` rows from element `first` on.
  void take(int64_t first, int64_t rows, int64_t k, Term* to) const {
    dispatch_codes(value->type.dtype, [&]<class Code>() {
      take_rows<Code>(data + first * size_of(value->type.dtype), value->zero_point, rows, row,
                      k, term, to);
    });
  }
};

/// Multiplies pairs of matrices, a tile of rows at a time.
template <class Term, class Acc>
class Products {
 public:
  Products(const MatMul::Extents& extents, const IntegerBinding& b, Epilogue epilogue)
      : e_(extents),
        a_{b.inputs[0], b.operands[0], e_.a_row, e_.a_term},
        b_{b.inputs[1], b.operands[1], e_.b_column, e_.b_term},
        tile_(std::clamp<int64_t>(tile_products / std::max<int64_t>(1, e_.n), 1, e_.m)),
        threads_(b.threads),
        no_offsets_(static_cast<size_t>(e_.n)),
        epilogue_(std::move(epilogue)) {
    const int64_t rows = e_.batch * e_.m;
    for (const RowShare& share :
         shares_of(rows, rows * e_.n * e_.k, worker_products, threads_)) {
      const int64_t terms = (tile_ + e_.n) * e_.k;
      workers_.push_back({share, AlignedBuffer(terms * int64_t{sizeof(Term)}),
                          AlignedBuffer(tile_ * e_.n * int64_t{sizeof(Acc)})});
    }
  }

  Fault load() const { return epilogue_.load(no_offsets_); }

  void run() const {
    parallel_for(threads_, std::ssize(workers_), 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t w = begin; w < end; ++w) run(workers_[static_cast<size_t>(w)]);
    });
  }

 private:
  static constexpr int64_t worker_products = int64_t{1} << 18;
  static constexpr int64_t tile_products = 8192;  // they stay in cache until they are codes

  struct Worker {
    RowShare rows;
    AlignedBuffer terms;  // of all columns of b, then of a tile of rows of a
    AlignedBuffer products;
  };

  void run(const Worker& worker) const {
    auto* const columns = reinterpret_cast<Term*>(worker.terms.data());
    auto* const rows = columns + e_.n * e_.k;
    auto* const products = reinterpret_cast<Acc*>(worker.products.data());
    int64_t taken = -1;
    for (int64_t row = worker.rows.begin, count = 0; row < worker.rows.end; row += count) {
      const int64_t matrix = row / e_.m;
      const int64_t within = row % e_.m;
      count = std::min({tile_, e_.m - within, worker.rows.end - row});
      const int64_t first = matrix * e_.b_matrix;
      if (taken != first) b_.take(first, e_.n, e_.k, columns);
      taken = first;
      a_.take(matrix * e_.m * e_.k + within * e_.a_row, count, e_.k, rows);
      for (int64_t r = 0; r < count; ++r) {
        loop_(rows + r * e_.k, columns, products + r * e_.n, e_.n, e_.k);
      }
      if constexpr (sizeof(Acc) == 4) {
        epilogue_.s32(row, count, products);
      } else {
        epilogue_.s64(row, count, products);
      }
    }
  }

  MatMul::Extents e_;
  Rows<Term> a_;
  Rows<Term> b_;
  int64_t tile_;  // rows
  int threads_;
  std::vector<int64_t> no_offsets_;
  Epilogue epilogue_;
  std::vector<Worker> workers_;
  RowLoop<Term, Acc> loop_ = row_loop<Term, Acc>();
};

template <class Term, class Acc>
IntegerKernel multiply(const MatMul::Extents& extents, const IntegerBinding& b, Epilogue next) {
  auto products = std::make_shared<Products<Term, Acc>>(extents, b, std::move(next));
  return {[products] { return products->load(); }, [products] { products->run(); }};
}

/// Bounds of (a - zp_a) (b - zp_b).
std::pair<int64_t, int64_t> product_range(const IntegerValue& a, const IntegerValue& b) {
  const int64_t a_low = a.low - a.zero_point;
  const int64_t a_high = a.high - a.zero_point;
  const int64_t b_low = b.low - b.zero_point;
  const int64_t b_high = b.high - b.zero_point;
  return std::minmax({a_low * b_low, a_low * b_high, a_high * b_low, a_high * b_high});
}

double scale_of(const IntegerValue& a, const IntegerValue& b) {
  return a.scales[0] * b.scales[0];
}

}  // namespace

MatMul::Extents MatMul::extents(const Shape& a, const Shape& b) const {
  Extents e{.m = transpose_a ? a[-1] : a[-2],
            .k = transpose_a ? a[-2] : a[-1],
            .n = transpose_b ? b[-2] : b[-1]};
  for (int i = 0; i < a.rank() - 2; ++i) e.batch *= a[i];
  std::tie(e.a_row, e.a_term) =
      transpose_a ? std::pair<int64_t, int64_t>(1, e.m) : std::pair<int64_t, int64_t>(e.k, 1);
  std::tie(e.b_column, e.b_term) =
      transpose_b ? std::pair<int64_t, int64_t>(e.k, 1) : std::pair<int64_t, int64_t>(1, e.n);
  if (b.rank() > 2) e.b_matrix = e.k * e.n;
  return e;
}

IntegerValue MatMul::infer(IntegerInputs inputs) const {
  check_operands(inputs, 2);
  const IntegerValue& a = inputs[0];
  const IntegerValue& b = inputs[1];
  check_codes(a, "a");
  check_codes(b, "b");
  const TensorType floats[] = {{DType::F32, a.type.shape}, {DType::F32, b.type.shape}};
  const Shape shape = qtape::MatMul{transpose_a, transpose_b}.infer(floats).shape;
  const int64_t terms = extents(a.type.shape, b.type.shape).k;
  check(terms <= max_terms, "accumulators may have at most 2^23 terms, got {}", terms);
  const auto [least, most] = product_range(a, b);
  const int64_t low = std::min<int64_t>(0, terms * least);
  const int64_t high = std::max<int64_t>(0, terms * most);
  const bool of_16_bits = size_of(a.type.dtype) > 1 || size_of(b.type.dtype) > 1;
  const bool narrow = !of_16_bits && std::max(-low, high) <= Certificate::s32_limit;
  IntegerValue y{{narrow ? DType::S32 : DType::S64, shape}, {scale_of(a, b)}, 0, low, high};
  y.accumulator = of_16_bits ? Accumulator::S64 : Accumulator::S32;
  check(are_scales(y.scales[0], 1), "accumulators need scales that are normal f32, got {}",
        y.scales[0]);
  return y;
}

void MatMul::update(const IntegerBinding& b, IntegerValue& y) const {
  y.scales[0] = scale_of(b.in(0), b.in(1));
}

IntegerKernel MatMul::optimized(const IntegerBinding& b) const {
  return optimized(b, store_accumulators(b));
}

IntegerKernel MatMul::optimized(const IntegerBinding& b, Epilogue next) const {
  const Extents e = extents(b.in(0).type.shape, b.in(1).type.shape);
  if (b.out().type.elements() == 0) return {};
  return b.out().type.dtype == DType::S32 ? multiply<int16_t, int32_t>(e, b, std::move(next))
                                          : multiply<int32_t, int64_t>(e, b, std::move(next));
}

}  // namespace qtape::integer
