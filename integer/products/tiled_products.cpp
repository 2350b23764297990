#include "qtape/integer/products/tiled_products.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>

#include "qtape/core/aligned.h"
#include "qtape/integer/core/weight_sums.h"
#include "qtape/integer/products/code_parts.h"
#include "qtape/integer/products/shares.h"
#include "qtape/integer/products/windows.h"
#include "qtape/kernels/onednn/gemm.h"
#include "qtape/kernels/onednn/integer_gemm.h"
#include "qtape/kernels/onednn/product_trials.h"
#include "qtape/kernels/simd/threads.h"

namespace qtape {

using namespace kernels;
namespace {

// The products of a tile should stay in the second-level cache until they are codes.
constexpr int64_t tile_products = 65536;
constexpr int64_t min_rows = 16;
constexpr int64_t max_rows = 256;
// Below this number of multiplications a second thread does not pay off.
constexpr int64_t worker_work = int64_t{1} << 19;

/// Computes the products of all rows with codes X, divided into tiles for workers. Rows are
/// rows of x, or windows of x that are gathered for each tile.
template <class X>
class TiledProducts {
 public:
  TiledProducts(const QuantizedWeights& weights, const std::optional<Convolution>& windows,
                const IntegerBinding& b, Epilogue epilogue)
      : epilogue_(std::move(epilogue)),
        x_(b.operand<X>(0)),
        value_(b.inputs[0]),
        factors_(*value_),
        output_(b.output),
        numbers_(b.weights),
        n_(weights.outputs()),
        k_(weights.terms()),
        rows_(n_ == 0 ? 0 : b.out().type.elements() / n_),
        threads_(b.threads),
        sums_(static_cast<size_t>(n_)),
        offsets_(static_cast<size_t>(n_)) {
    if (windows) windows_.emplace(*windows);
    padded_ = windows && windows->window.has_padding();
    find_factors();
    if constexpr (sizeof(X) == 1) {
      parts_ = {CodePart::Whole};
    } else {
      parts_ = {CodePart::Upper, CodePart::Lower};
    }
    for (CodePart part : parts_) {
      float_loops_.push_back(extract_loop<X, float>(part));
      byte_loops_.push_back(extract_loop<X, uint8_t>(part));
    }
    if (numbers_ == nullptr) {
      constant_ = weights.unpacked();
      offsets_ = weights.offsets(*value_);
      path_ = b.path.value_or(exact_path(weights.certificate, factors_));
      paths_ = {path_};
    } else {
      forced_ = b.path;
      choose_paths();
    }
    if (has(ProductPath::F32)) floats_.resize(static_cast<size_t>(n_ * k_));
    if (has(ProductPath::F32) && numbers_ == nullptr) {
      std::ranges::copy(constant_, floats_.begin());
    }
    make_tiles();
    if (numbers_ == nullptr && path_ != ProductPath::Plain) constant_ = {};
  }

  Fault load() {
    if (numbers_ != nullptr) load_numbers();
    return epilogue_.load(offsets_);
  }

  void run() {
    std::atomic<bool> failed = false;
    parallel_for(threads_, static_cast<int64_t>(workers_.size()), 1, 1,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t w = begin; w < end; ++w) {
                     Worker& worker = *workers_[static_cast<size_t>(w)];
                     for (Tile& tile : worker.tiles) {
                       if (!run_tile(worker, tile)) failed = true;
                     }
                   }
                 });
    if (failed) fail<Error>("oneDNN failed to run a product of int8 codes");
  }

 private:
  struct Tile {
    int64_t row = 0;
    int64_t rows = 0;
    std::vector<BoundInt8Product> int8 = {};         // by part
    std::vector<std::function<void()>> floats = {};  // by part
  };
  struct Worker {
    AlignedBuffer windows;                // codes of a tile, where they are gathered
    std::vector<AlignedBuffer> inputs;    // by part: codes in the type that the product reads
    std::vector<AlignedBuffer> products;  // by part: s32
    AlignedBuffer floats;                 // products in f32
    AlignedBuffer s64;                    // s64
    std::vector<Tile> tiles;
  };

  bool has(ProductPath path) const { return std::ranges::find(paths_, path) != paths_.end(); }
  const int8_t* codes_of_weights() const {
    return numbers_ == nullptr ? constant_.data() : numbers_->codes;
  }
  bool in_rows() const { return numbers_ == nullptr || numbers_->rows; }
  bool s32() const { return sizeof(X) == 1 && output_->type.dtype == DType::S32; }

  /// Upper bound of the magnitude of a part.
  static constexpr int64_t most = sizeof(X) == 1 ? 255 : 256;

  /// Selects a single path if it is exact for any weights; otherwise all paths, from which each
  /// step chooses.
  void choose_paths() {
    const Certificate any = certify_sums(k_ * 128, 128, most);
    path_ = forced_.value_or(exact_path(any, factors_));
    paths_ = {path_};
    if (forced_ || path_ == ProductPath::Int8) return;
    paths_ = {ProductPath::F32, ProductPath::Plain};
    if (int8_exactness() != Int8Exactness::Never) paths_.push_back(ProductPath::Int8);
  }

  /// Determines the range of the codes that are multiplied.
  void find_factors() {
    factors_.zero_point = value_->zero_point;
    factors_.low = value_->low;
    factors_.high = value_->high;
    if (!padded_) return;
    factors_.low = std::min<int64_t>(factors_.low, factors_.zero_point);
    factors_.high = std::max<int64_t>(factors_.high, factors_.zero_point);
  }

  void load_numbers() {
    find_factors();
    const bool choose = paths_.size() > 1;
    if (choose || value_->zero_point != 0) {
      sum_(numbers_->codes, k_, in_rows(), threads_, sums_);
    }
    if (choose) {
      int64_t magnitude = 0;
      for (const WeightSums& each : sums_) magnitude = std::max(magnitude, each.magnitude);
      path_ = exact_path(certify_sums(magnitude, largest_weight(), most), factors_);
    }
    take_offsets(numbers_->bias, sums_, value_->zero_point, offsets_);
    if (path_ == ProductPath::F32) std::copy_n(numbers_->codes, n_ * k_, floats_.begin());
    for (Int8Product& product : int8_) product.load();
  }

  int64_t largest_weight() const {
    int64_t largest = 0;
    for (int64_t i = 0; i < n_ * k_; ++i) {
      largest = std::max<int64_t>(largest, std::abs(int64_t{numbers_->codes[i]}));
    }
    return largest;
  }

  static DType dtype_of_part(CodePart part) {
    if constexpr (std::is_same_v<X, int8_t>) return DType::S8;
    if constexpr (std::is_same_v<X, int16_t>)
      return part == CodePart::Upper ? DType::S8 : DType::U8;
    return DType::U8;
  }

  void make_tiles() {
    const int64_t work = rows_ * n_ * std::max<int64_t>(1, k_);
    for (const auto& [begin, end] : shares_of(rows_, work, worker_work, threads_)) {
      const int64_t fitting = rows_of_tile();
      workers_.push_back(std::make_unique<Worker>());
      Worker& worker = *workers_.back();
      allocate(worker, std::min(fitting, end - begin));
      for (int64_t row = begin; row < end; row += fitting) {
        Tile tile{row, std::min(fitting, end - row)};
        // All gathered windows use the same memory, so tiles with the same number of rows can
        // share bindings.
        const bool bound =
            windows_ && !worker.tiles.empty() && worker.tiles.back().rows == tile.rows;
        if (bound) {
          tile.int8 = worker.tiles.back().int8;
          tile.floats = worker.tiles.back().floats;
        } else {
          bind(worker, tile);
        }
        worker.tiles.push_back(std::move(tile));
      }
    }
  }

  /// Every tile packs weights that change from step to step, so there are fewer tiles then.
  int64_t rows_of_tile() const {
    const int64_t products = numbers_ == nullptr ? tile_products : 4 * tile_products;
    return std::clamp(products / std::max<int64_t>(1, n_), min_rows, max_rows);
  }

  void allocate(Worker& worker, int64_t rows) const {
    if (windows_) worker.windows = AlignedBuffer(rows * k_ * int64_t{sizeof(X)});
    const bool floats = has(ProductPath::F32);
    for (size_t p = 0; p < parts_.size(); ++p) {
      const bool copied = floats || parts_[p] != CodePart::Whole;
      worker.inputs.emplace_back(copied ? rows * k_ * (floats ? 4 : 1) : 0);
      worker.products.emplace_back(rows * n_ * 4);
    }
    if (floats) worker.floats = AlignedBuffer(rows * n_ * 4);
    if (!s32() || numbers_ != nullptr) worker.s64 = AlignedBuffer(rows * n_ * 8);
  }

  /// Product of a tile with one part of the codes.
  CodeProduct product_of(const Tile& tile, CodePart part) const {
    return {tile.rows, n_, k_, dtype_of_part(part),
            numbers_ == nullptr ? Int8Weights::Constant
            : in_rows()         ? Int8Weights::Rows
                                : Int8Weights::Columns};
  }

  void bind(Worker& worker, Tile& tile) {
    for (size_t p = 0; p < parts_.size(); ++p) {
      const CodeProduct product = product_of(tile, parts_[p]);
      if (has(ProductPath::Int8)) {
        require_exact_int8(product);
        if (int8_.size() <= p) {
          int8_.emplace_back(n_, k_, product.x, codes_of_weights(), product.weights);
        }
        const void* x = parts_[p] == CodePart::Whole
                            ? static_cast<const void*>(rows_of(worker, tile))
                            : worker.inputs[p].data();
        tile.int8.push_back(
            int8_[p].bind(tile.rows, x, reinterpret_cast<int32_t*>(worker.products[p].data())));
      }
      if (has(ProductPath::F32)) {
        require_exact_f32(product);
        tile.floats.push_back(
            prepare_gemm(Gemm{.m = tile.rows, .n = n_, .k = k_, .transpose_b = in_rows()},
                         reinterpret_cast<const float*>(worker.inputs[p].data()),
                         floats_.data(), reinterpret_cast<float*>(worker.floats.data()), 1));
      }
    }
  }

  /// Returns the codes of a tile.
  const X* rows_of(const Worker& worker, const Tile& tile) const {
    return windows_ ? reinterpret_cast<const X*>(worker.windows.data()) : x_ + tile.row * k_;
  }

  bool run_tile(Worker& worker, Tile& tile) const {
    bool fine = true;
    if (windows_) {
      windows_->gather(x_, static_cast<X>(value_->zero_point), tile.row, tile.rows,
                       reinterpret_cast<X*>(worker.windows.data()));
    }
    if (path_ == ProductPath::Plain && !s32()) {
      run_plain(worker, tile, reinterpret_cast<int64_t*>(worker.s64.data()));
    } else {
      for (size_t p = 0; p < parts_.size(); ++p) fine = run_part(worker, tile, p) && fine;
      if (!s32()) widen(worker, tile.rows * n_);
    }
    if (s32()) {
      epilogue_.s32(tile.row, tile.rows,
                    reinterpret_cast<const int32_t*>(worker.products[0].data()));
    } else {
      epilogue_.s64(tile.row, tile.rows, reinterpret_cast<const int64_t*>(worker.s64.data()));
    }
    return fine;
  }

  /// Computes the products of one part, in s32.
  bool run_part(Worker& worker, Tile& tile, size_t p) const {
    const X* x = rows_of(worker, tile);
    const int64_t codes = tile.rows * k_;
    std::byte* input = worker.inputs[p].data();
    auto* products = reinterpret_cast<int32_t*>(worker.products[p].data());
    if (path_ == ProductPath::Plain) {
      run_plain(worker, tile, products);
      return true;
    }
    if (path_ == ProductPath::F32) {
      float_loops_[p](x, reinterpret_cast<float*>(input), codes);
      tile.floats[p]();
      const auto* sums = reinterpret_cast<const float*>(worker.floats.data());
      for (int64_t i = 0; i < tile.rows * n_; ++i) {
        products[i] = static_cast<int32_t>(sums[i]);
      }
      return true;
    }
    if (parts_[p] != CodePart::Whole) {
      byte_loops_[p](x, reinterpret_cast<uint8_t*>(input), codes);
    }
    return tile.int8[p]();
  }

  void widen(Worker& worker, int64_t count) const {
    auto* to = reinterpret_cast<int64_t*>(worker.s64.data());
    const auto* first = reinterpret_cast<const int32_t*>(worker.products[0].data());
    if (parts_.size() == 1) {
      std::copy_n(first, count, to);
      return;
    }
    const auto* second = reinterpret_cast<const int32_t*>(worker.products[1].data());
    for (int64_t i = 0; i < count; ++i) to[i] = 256 * int64_t{first[i]} + second[i];
  }

  template <class Acc>
  void run_plain(const Worker& worker, const Tile& tile, Acc* products) const {
    const int64_t step = in_rows() ? 1 : n_;
    for (int64_t row = 0; row < tile.rows; ++row) {
      const X* x = rows_of(worker, tile) + row * k_;
      for (int64_t c = 0; c < n_; ++c) {
        const int8_t* w = codes_of_weights() + (in_rows() ? c * k_ : c);
        Acc sum = 0;
        for (int64_t i = 0; i < k_; ++i) {
          sum += static_cast<Acc>(x[i]) * static_cast<Acc>(w[i * step]);
        }
        products[row * n_ + c] = sum;
      }
    }
  }

  Epilogue epilogue_;
  const X* x_;
  const IntegerValue* value_;
  IntegerValue factors_;  // the codes that are multiplied
  const IntegerValue* output_;
  const WeightNumbers* numbers_;  // null if weights are constant
  int64_t n_, k_, rows_;
  int threads_;
  WeightSummation sum_;
  std::vector<WeightSums> sums_;  // by output
  std::vector<int64_t> offsets_;  // by output
  std::optional<ProductPath> forced_;
  ProductPath path_ = ProductPath::Plain;
  std::vector<ProductPath> paths_;  // the paths to choose from
  std::vector<int8_t> constant_;    // weights
  std::vector<float> floats_;       // weights
  std::vector<CodePart> parts_;
  std::vector<ExtractLoop<X, float>> float_loops_;   // by part
  std::vector<ExtractLoop<X, uint8_t>> byte_loops_;  // by part
  std::vector<Int8Product> int8_;                    // by part
  std::optional<CodeWindows<X>> windows_;
  bool padded_ = false;
  std::vector<std::unique_ptr<Worker>> workers_;
};

IntegerKernel tiled_kernel(const QuantizedWeights& weights,
                           const std::optional<Convolution>& windows, const IntegerBinding& b,
                           Epilogue epilogue) {
  return dispatch_codes(b.in(0).type.dtype, [&]<class X>() -> IntegerKernel {
    auto products =
        std::make_shared<TiledProducts<X>>(weights, windows, b, std::move(epilogue));
    return {[products] { return products->load(); }, [products] { products->run(); }};
  });
}

}  // namespace

void update_scales(const QuantizedWeights& weights, const IntegerBinding& b, IntegerValue& y,
                   bool f32_scales) {
  const auto own = weights.scales.values<float>();
  const auto s_w = b.weights == nullptr ? own : std::span<const float>(b.weights->scales);
  for (size_t c = 0; c < y.scales.size(); ++c) {
    const float each = s_w[s_w.size() == 1 ? 0 : c];
    y.scales[c] = accumulator_scale(b.in(0).scales[0], each, f32_scales);
  }
}

IntegerKernel linear_kernel(const QuantizedWeights& weights, const IntegerBinding& b,
                            Epilogue epilogue) {
  return tiled_kernel(weights, {}, b, std::move(epilogue));
}

IntegerKernel window_kernel(const QuantizedWeights& weights, const Convolution& windows,
                            const IntegerBinding& b, Epilogue epilogue) {
  return tiled_kernel(weights, windows, b, std::move(epilogue));
}

}  // namespace qtape
