#include "qtape/kernels/onednn/gemm.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "qtape/core/aligned.h"
#include "qtape/core/error.h"
#include "qtape/kernels/onednn/onednn.h"
#include "qtape/kernels/simd/threads.h"

namespace qtape::kernels {
namespace {

using dnnl::memory;

template <class T>
constexpr auto data_type =
    std::is_same_v<T, BHalf> ? memory::data_type::bf16 : memory::data_type::f32;

template <class T>
memory::desc describe(int64_t batch, int64_t rows, int64_t columns, int64_t batch_stride,
                      int64_t row_stride, int64_t column_stride) {
  return {{batch, rows, columns},
          data_type<T>,
          memory::dims{batch_stride, row_stride, column_stride}};
}

dnnl::primitive_attr make_attributes(bool accumulate) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  // Strict regardless of the environment: integers in f32 stay exact and replays give equal
  // bits.
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);
  if (accumulate) {
    dnnl::post_ops operations;
    operations.append_sum(1.0f);
    attributes.set_post_ops(operations);
  }
  return attributes;
}

/// A part of the result: ranges of batch, rows and columns.
struct Tile {
  int64_t batch_begin, batch_end;
  int64_t m_begin, m_end;
  int64_t n_begin, n_end;
};

/// The primitive of one tile with its memories and its argument list.
class Product {
 public:
  /// `own_b`: b contains only the columns of the tile. T is float or BHalf.
  template <class T>
  Product(const dnnl::engine& engine, const Gemm& g, const Tile& t, const T* a, const T* b,
          float* c, bool own_b = false)
      : stream_(engine) {
    const int64_t batch = t.batch_end - t.batch_begin;
    const int64_t m = t.m_end - t.m_begin;
    const int64_t n = t.n_end - t.n_begin;
    const auto a_desc = g.transpose_a ? describe<T>(batch, m, g.k, g.m * g.k, 1, g.m)
                                      : describe<T>(batch, m, g.k, g.m * g.k, g.k, 1);
    const int64_t b_row = own_b ? n : g.n;
    const auto b_desc = g.transpose_b ? describe<T>(batch, g.k, n, g.n * g.k, 1, g.k)
                                      : describe<T>(batch, g.k, n, b_row * g.k, b_row, 1);
    const auto c_desc = describe<float>(batch, m, n, g.m * g.n, g.n, 1);
    const auto pd =
        describe_matmul(engine, a_desc, b_desc, c_desc, make_attributes(g.accumulate));
    primitive_ = dnnl::matmul(pd);
    a += t.batch_begin * g.m * g.k + t.m_begin * (g.transpose_a ? 1 : g.k);
    if (!own_b) b += t.batch_begin * g.n * g.k + t.n_begin * (g.transpose_b ? g.k : 1);
    c += t.batch_begin * g.m * g.n + t.m_begin * g.n + t.n_begin;
    memories_ = {memory(a_desc, engine, const_cast<T*>(a)),
                 memory(b_desc, engine, const_cast<T*>(b)), memory(c_desc, engine, c),
                 memory(pd.scratchpad_desc(), engine)};
    arguments_ = {{{DNNL_ARG_SRC, memories_[0].get()},
                   {DNNL_ARG_WEIGHTS, memories_[1].get()},
                   {DNNL_ARG_DST, memories_[2].get()},
                   {DNNL_ARG_SCRATCHPAD, memories_[3].get()}}};
  }

  /// Uses the C API, which takes a plain array; the C++ API would build a map in every step.
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

// A tile with fewer multiplications (10 us) is not worth a separate thread.
constexpr int64_t tile_work = int64_t{1} << 20;
constexpr int64_t max_tiles = 64;

/// Divides [0, extent) into `count` slices that are multiples of `unit`.
template <class Add>
void slice(int64_t extent, int64_t count, int64_t unit, const Add& add) {
  const int64_t units = (extent + unit - 1) / unit;
  for (int64_t i = 0; i < count; ++i) {
    add(units * i / count * unit, std::min(extent, units * (i + 1) / count * unit));
  }
}

/// Below AVX-512, oneDNN 2.6 packs operands only under this condition; otherwise it reads a
/// transposed `a` at less than half the speed.
bool packs(int64_t m, int64_t n) {
  return 1.0 / static_cast<double>(m) + 1.0 / static_cast<double>(n) < 0.0038;
}

/// True if the product should have tiles large enough that oneDNN packs its operands.
bool wants_packing(const Gemm& g) {
  return g.transpose_a && !onednn_has(dnnl_cpu_isa_avx512_core) && packs(g.m, g.n);
}

/// Maximum number of row slices at which oneDNN runs at full speed. It packs all of b for each
/// slice and is fastest with whole rows of the result.
int64_t row_slices(const Gemm& g) {
  const int64_t count = g.m / (g.m < 256 ? 64 : 128);
  if (!wants_packing(g)) return count;
  int64_t packed = 1;
  while (packs(g.m / (packed + 1), g.n)) ++packed;
  return std::min(count, packed);
}

/// Divides the result into tiles by its extents alone: along the batch if there is one,
/// otherwise along rows, and along columns if there are few rows.
std::vector<Tile> make_tiles(const Gemm& g) {
  const int64_t work = g.batch * g.m * g.n * std::max<int64_t>(1, g.k);
  int64_t wanted = 1;
  while (wanted < max_tiles && work / (2 * wanted) >= tile_work) wanted *= 2;
  std::vector<Tile> tiles;
  if (g.batch > 1) {
    slice(g.batch, std::min(wanted, g.batch), 1, [&](int64_t begin, int64_t end) {
      tiles.push_back({begin, end, 0, g.m, 0, g.n});
    });
  } else if (g.m >= 128 || g.m >= g.n) {
    const int64_t count = std::clamp<int64_t>(row_slices(g), 1, wanted);
    slice(g.m, count, g.m >= 128 ? 16 : 1, [&](int64_t begin, int64_t end) {
      tiles.push_back({0, 1, begin, end, 0, g.n});
    });
  } else {
    const int64_t count = std::clamp<int64_t>(g.n / (g.n < 256 ? 64 : 128), 1, wanted);
    slice(g.n, count, 32, [&](int64_t begin, int64_t end) {
      tiles.push_back({0, 1, 0, g.m, begin, end});
    });
  }
  return tiles;
}

// The columns of b of one thread should fit the second-level cache.
constexpr int64_t column_bytes = int64_t{1} << 18;
constexpr int64_t column_unit = 16;

/// Number of column ranges: a multiple of four if there is work for several threads.
int64_t column_ranges(const Gemm& g) {
  const int64_t widest = std::max<int64_t>(64, column_bytes / 4 / std::max<int64_t>(1, g.k));
  const int64_t fitting = (g.n + widest - 1) / widest;
  return std::clamp<int64_t>((fitting + 3) / 4 * 4, 1, std::max<int64_t>(1, g.n / 64));
}

/// Maximum number of columns of a range.
int64_t columns_at_once(const Gemm& g) {
  const int64_t units = (g.n + column_unit - 1) / column_unit;
  const int64_t ranges = column_ranges(g);
  return std::min((units + ranges - 1) / ranges * column_unit, g.n);
}

/// Products by columns of b, each computed in the memory of a free slot.
class ColumnProducts {
 public:
  ColumnProducts(const Gemm& g, const float* a, ColumnSource b, float* c, std::byte* scratch,
                 int threads)
      : source_(std::move(b)), threads_(threads), slots_(static_cast<size_t>(threads)) {
    const ComputingThread serial;
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    for (Slot& slot : slots_) {
      slot.columns = reinterpret_cast<float*>(scratch);
      scratch += column_scratch(g);
    }
    slice(g.n, column_ranges(g), column_unit, [&](int64_t begin, int64_t end) {
      if (begin < end) ranges_.emplace_back(begin, end);
    });
    for (Slot& slot : slots_) {
      for (const auto& [begin, end] : ranges_) {
        slot.products.emplace_back(engine, g, Tile{0, 1, 0, g.m, begin, end}, a, slot.columns,
                                   c, true);
      }
    }
  }

  void run() {
    parallel_for(threads_, std::ssize(ranges_), 1, 1, [&](int64_t begin, int64_t end) {
      Slot& slot = take();
      for (int64_t i = begin; i < end; ++i) {
        const auto& [first, last] = ranges_[static_cast<size_t>(i)];
        source_(first, last, slot.columns);
        slot.products[static_cast<size_t>(i)].run();
      }
      slot.taken.clear(std::memory_order_release);
    });
  }

 private:
  struct Slot {
    float* columns = nullptr;
    std::vector<Product> products;  // one for each range
    std::atomic_flag taken;
  };

  /// There are at least as many slots as running threads.
  Slot& take() {
    for (size_t i = 0;; i = (i + 1) % slots_.size()) {
      if (!slots_[i].taken.test_and_set(std::memory_order_acquire)) return slots_[i];
    }
  }

  ColumnSource source_;
  int threads_;
  std::vector<std::pair<int64_t, int64_t>> ranges_;  // ranges of columns
  std::vector<Slot> slots_;
};

template <class T>
std::vector<Product> make_products(const Gemm& g, const T* a, const T* b, float* c) {
  const ComputingThread serial;
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  std::vector<Product> products;
  for (const Tile& tile : make_tiles(g)) products.emplace_back(engine, g, tile, a, b, c);
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

/// Returns the result of `prepare`. Converts a dnnl::error to a GraphError.
template <class Prepare>
std::function<void()> as_graph_error(const Gemm& gemm, const Prepare& prepare) {
  try {
    return prepare();
  } catch (const dnnl::error& error) {
    fail<GraphError>("oneDNN refuses the product [{}, {}, {}] x [{}, {}, {}]: {}", gemm.batch,
                     gemm.m, gemm.k, gemm.batch, gemm.k, gemm.n, error.what());
  }
}

template <class T>
std::function<void()> prepare(const Gemm& gemm, const T* a, const T* b, float* c, int threads) {
  if (gemm.batch * gemm.m * gemm.n == 0) return [] {};
  if (gemm.k == 0) return [gemm, c] { fill_zero(gemm, c); };
  return as_graph_error(gemm, [&] {
    return [products = make_products(gemm, a, b, c), threads] {
      const auto count = static_cast<int64_t>(products.size());
      parallel_for(threads, count, 1, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) products[static_cast<size_t>(i)].run();
      });
    };
  });
}

}  // namespace

std::function<void()> prepare_gemm(const Gemm& gemm, const float* a, const float* b, float* c,
                                   int threads) {
  return prepare(gemm, a, b, c, threads);
}

bool has_bf16_products() { return onednn_has(dnnl_cpu_isa_avx512_core_bf16); }

std::function<void()> prepare_gemm(const Gemm& gemm, const BHalf* a, const BHalf* b, float* c,
                                   int threads) {
  return prepare(gemm, a, b, c, threads);
}

bool runs_by_columns(const Gemm& g) { return g.batch == 1 && !wants_packing(g); }

int64_t column_scratch(const Gemm& g) {
  return aligned_size(columns_at_once(g) * std::max<int64_t>(1, g.k) * 4);
}

std::function<void()> prepare_gemm(const Gemm& gemm, const float* a, ColumnSource b, float* c,
                                   std::byte* scratch, int threads) {
  if (gemm.m * gemm.n == 0) return [] {};
  if (gemm.k == 0) return [gemm, c] { fill_zero(gemm, c); };
  return as_graph_error(gemm, [&] {
    auto products =
        std::make_shared<ColumnProducts>(gemm, a, std::move(b), c, scratch, threads);
    return [products] { products->run(); };
  });
}

std::function<void()> prepare_gemm(const Gemm& gemm, const double* a, const double* b,
                                   double* c, int) {
  return [gemm, a, b, c] {
    for (int64_t i = 0; i < gemm.batch; ++i) {
      plain_product(gemm, a + i * gemm.m * gemm.k, b + i * gemm.k * gemm.n,
                    c + i * gemm.m * gemm.n);
    }
  };
}

}  // namespace qtape::kernels
