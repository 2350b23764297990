#include "qtape/ops/core/gemm.h"

#include <algorithm>
#include <array>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "qtape/ops/core/error.h"

namespace qtape {
namespace {

using dnnl::memory;

memory::desc describe(int64_t batch, int64_t rows, int64_t columns, int64_t batch_stride,
                      int64_t row_stride, int64_t column_stride) {
  return {{batch, rows, columns},
          memory::data_type::f32,
          memory::dims{batch_stride, row_stride, column_stride}};
}

/// The C++ interface of oneDNN 2 and 3 differs here and nowhere else.
dnnl::matmul::primitive_desc describe_matmul(const dnnl::engine& engine, const memory::desc& a,
                                             const memory::desc& b, const memory::desc& c,
                                             const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, c, attributes};
#else
  return {dnnl::matmul::desc(a, b, c), attributes, engine};
#endif
}

dnnl::primitive_attr make_attributes(bool accumulate) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (accumulate) {
    dnnl::post_ops operations;
    operations.append_sum(1.0f);
    attributes.set_post_ops(operations);
  }
  return attributes;
}

/// One primitive with its memories and its argument list.
class Product {
 public:
  Product(const dnnl::engine& engine, const Gemm& g, int64_t k_begin, int64_t k_end,
          const float* a, const float* b, float* c)
      : stream_(engine) {
    const int64_t k = k_end - k_begin;
    const auto a_desc = g.transpose_a ? describe(g.batch, g.m, k, g.m * g.k, 1, g.m)
                                      : describe(g.batch, g.m, k, g.m * g.k, g.k, 1);
    const auto b_desc = g.transpose_b ? describe(g.batch, k, g.n, g.n * g.k, 1, g.k)
                                      : describe(g.batch, k, g.n, g.n * g.k, g.n, 1);
    const auto c_desc = describe(g.batch, g.m, g.n, g.m * g.n, g.n, 1);
    const bool accumulate = g.accumulate || k_begin > 0;
    const auto pd =
        describe_matmul(engine, a_desc, b_desc, c_desc, make_attributes(accumulate));
    primitive_ = dnnl::matmul(pd);
    const float* a_block = a + k_begin * (g.transpose_a ? g.m : 1);
    const float* b_block = b + k_begin * (g.transpose_b ? 1 : g.n);
    memories_ = {memory(a_desc, engine, const_cast<float*>(a_block)),
                 memory(b_desc, engine, const_cast<float*>(b_block)), memory(c_desc, engine, c),
                 memory(pd.scratchpad_desc(), engine)};
    arguments_ = {{{DNNL_ARG_SRC, memories_[0].get()},
                   {DNNL_ARG_WEIGHTS, memories_[1].get()},
                   {DNNL_ARG_DST, memories_[2].get()},
                   {DNNL_ARG_SCRATCHPAD, memories_[3].get()}}};
  }

  /// The C call takes a plain array: the C++ one would build a map in every step.
  void run() const {
    dnnl_primitive_execute(primitive_.get(), stream_.get(), static_cast<int>(arguments_.size()),
                           arguments_.data());
  }

 private:
  dnnl::stream stream_;
  dnnl::matmul primitive_;
  std::array<memory, 4> memories_;
  std::array<dnnl_exec_arg_t, 4> arguments_{};
};

std::vector<Product> make_products(const Gemm& g, const float* a, const float* b, float* c) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  std::vector<Product> products;
  for (int64_t k = 0; k < g.k; k += gemm_k_block) {
    products.emplace_back(engine, g, k, std::min(k + gemm_k_block, g.k), a, b, c);
  }
  return products;
}

template <class T>
void fill_zero(const Gemm& g, T* c) {
  if (!g.accumulate) std::fill_n(c, g.batch * g.m * g.n, T(0));
}

void plain_product(const Gemm& g, const double* a, const double* b, double* c) {
  const int64_t a_row = g.transpose_a ? 1 : g.k;
  const int64_t a_column = g.transpose_a ? g.m : 1;
  const int64_t b_row = g.transpose_b ? 1 : g.n;
  const int64_t b_column = g.transpose_b ? g.k : 1;
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      double sum = g.accumulate ? c[i * g.n + j] : 0.0;
      for (int64_t k = 0; k < g.k; ++k) {
        sum += a[i * a_row + k * a_column] * b[k * b_row + j * b_column];
      }
      c[i * g.n + j] = sum;
    }
  }
}

}  // namespace

std::function<void()> prepare_gemm(const Gemm& gemm, const float* a, const float* b, float* c) {
  if (gemm.batch * gemm.m * gemm.n == 0) return [] {};
  if (gemm.k == 0) return [gemm, c] { fill_zero(gemm, c); };
  try {
    return [products = make_products(gemm, a, b, c)] {
      for (const Product& product : products) product.run();
    };
  } catch (const dnnl::error& error) {
    fail<GraphError>("oneDNN refuses the product [{}, {}, {}] x [{}, {}, {}]: {}", gemm.batch,
                     gemm.m, gemm.k, gemm.batch, gemm.k, gemm.n, error.what());
  }
}

std::function<void()> prepare_gemm(const Gemm& gemm, const double* a, const double* b,
                                   double* c) {
  return [gemm, a, b, c] {
    for (int64_t i = 0; i < gemm.batch; ++i) {
      plain_product(gemm, a + i * gemm.m * gemm.k, b + i * gemm.k * gemm.n,
                    c + i * gemm.m * gemm.n);
    }
  };
}

}  // namespace qtape
