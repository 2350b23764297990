#include <memory>
#include <span>
#include <vector>

#include "qtape/integer/products/tiled_products.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape {

using namespace kernels;
namespace {

/// Adds `added`, one number for each of n columns, to rows of products.
template <class Acc, class Product>
constexpr auto add_offsets =
    [](const Product* products, const int64_t* added, Acc* to, int64_t rows, int64_t n) {
      for (int64_t r = 0; r < rows; ++r) {
        QTAPE_INDEPENDENT
        for (int64_t c = 0; c < n; ++c) {
          to[r * n + c] = static_cast<Acc>(products[r * n + c] + added[c]);
        }
      }
    };

/// Fewer columns are mostly a remainder of wide registers.
constexpr int64_t min_wide_columns = 16;

}  // namespace

Epilogue store_accumulators(const IntegerBinding& b) {
  auto offsets = std::make_shared<std::vector<int64_t>>();
  const auto n = b.out().type.shape[-1];
  const auto write = [offsets, n, output = b.output, y = b.result]<class Product>(
                         int64_t row, int64_t rows, const Product* products) {
    dispatch_accumulators(output->type.dtype, [&]<class Acc>() {
      constexpr auto& loop = add_offsets<Acc, Product>;
      static const auto wide =
          simd::best<const Product*, const int64_t*, Acc*, int64_t, int64_t>(loop);
      Acc* to = reinterpret_cast<Acc*>(y) + row * n;
      if (n < min_wide_columns) return loop(products, offsets->data(), to, rows, n);
      wide(products, offsets->data(), to, rows, n);
    });
  };
  return {[offsets](std::span<const int64_t> added) {
            offsets->assign(added.begin(), added.end());
            return Fault{};
          },
          write, write};
}

}  // namespace qtape
