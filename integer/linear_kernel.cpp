#include "qtape/integer/linear_kernel.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "qtape/core/aligned.h"
#include "qtape/kernels/onednn/gemm.h"
#include "qtape/kernels/onednn/integer_gemm.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape {

using namespace kernels;
namespace {

// Products of a tile should stay in the second-level cache until they are codes.
constexpr int64_t tile_products = 65536;
constexpr int64_t min_rows = 16;
constexpr int64_t max_rows = 256;
// Below this many multiplications a second thread does not pay.
constexpr int64_t worker_work = int64_t{1} << 19;

/// An 8-bit part of codes: all of them, or the upper or lower byte of 16 bits.
enum class Part : uint8_t { Whole, Upper, Lower };

template <class X, class To>
void extract(Part part, const X* x, To* to, int64_t n) {
  QTAPE_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) {
    const int32_t v = x[i];
    const int32_t half = part == Part::Upper ? v >> 8 : v & 255;
    to[i] = static_cast<To>(part == Part::Whole ? v : half);
  }
}

template <class X, class To>
using ExtractLoop = void (*)(const X*, To*, int64_t);

template <class X, class To>
ExtractLoop<X, To> extract_loop(Part part) {
  switch (part) {
    case Part::Upper:
      return simd::best<const X*, To*, int64_t>(
          [](const X* x, To* to, int64_t n) { extract(Part::Upper, x, to, n); });
    case Part::Lower:
      return simd::best<const X*, To*, int64_t>(
          [](const X* x, To* to, int64_t n) { extract(Part::Lower, x, to, n); });
    case Part::Whole:
      break;
  }
  return simd::best<const X*, To*, int64_t>(
      [](const X* x, To* to, int64_t n) { extract(Part::Whole, x, to, n); });
}

/// The products of all rows with codes X, cut into tiles for workers.
template <class X>
class TiledProducts {
 public:
  TiledProducts(const integer::Linear& op, const IntegerBinding& b, Epilogue epilogue)
      : epilogue_(std::move(epilogue)),
        x_(b.operand<X>(0)),
        n_(op.shape[0]),
        k_(op.shape[1]),
        rows_(n_ == 0 ? 0 : b.output.type.elements() / n_),
        path_(b.path.value_or(exact_path(op.certificate, b.inputs[0]))),
        s32_(sizeof(X) == 1 && b.output.type.dtype == DType::S32),
        threads_(b.threads),
        codes_(op.codes()) {
    if constexpr (sizeof(X) == 1) {
      parts_ = {Part::Whole};
    } else {
      parts_ = {Part::Upper, Part::Lower};
    }
    for (Part part : parts_) {
      float_loops_.push_back(extract_loop<X, float>(part));
      byte_loops_.push_back(extract_loop<X, uint8_t>(part));
    }
    if (path_ == ProductPath::F32) floats_.assign(codes_.begin(), codes_.end());
    make_tiles();
    if (path_ != ProductPath::Plain) codes_ = {};
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
    std::vector<AlignedBuffer> inputs;    // by part: codes as the product reads them
    std::vector<AlignedBuffer> products;  // by part: s32
    AlignedBuffer floats;                 // products in f32
    AlignedBuffer s64;                    // s64
    std::vector<Tile> tiles;
  };

  static DType dtype_of_part(Part part) {
    if constexpr (std::is_same_v<X, int8_t>) return DType::S8;
    if constexpr (std::is_same_v<X, int16_t>)
      return part == Part::Upper ? DType::S8 : DType::U8;
    return DType::U8;
  }

  void make_tiles() {
    const int64_t work = rows_ * n_ * std::max<int64_t>(1, k_);
    const int64_t useful = std::clamp<int64_t>(work / worker_work, 1, threads_);
    const int64_t count = std::clamp<int64_t>(rows_, 1, useful);
    for (int64_t w = 0; w < count; ++w) {
      const int64_t begin = rows_ * w / count;
      const int64_t end = rows_ * (w + 1) / count;
      const int64_t fitting =
          std::clamp(tile_products / std::max<int64_t>(1, n_), min_rows, max_rows);
      workers_.push_back(std::make_unique<Worker>());
      Worker& worker = *workers_.back();
      allocate(worker, std::min(fitting, end - begin));
      for (int64_t row = begin; row < end; row += fitting) {
        worker.tiles.push_back({row, std::min(fitting, end - row)});
        bind(worker, worker.tiles.back());
      }
    }
  }

  void allocate(Worker& worker, int64_t rows) const {
    const bool floats = path_ == ProductPath::F32;
    for (size_t p = 0; p < parts_.size(); ++p) {
      const bool copied = floats || parts_[p] != Part::Whole;
      worker.inputs.emplace_back(copied ? rows * k_ * (floats ? 4 : 1) : 0);
      worker.products.emplace_back(rows * n_ * 4);
    }
    if (floats) worker.floats = AlignedBuffer(rows * n_ * 4);
    if (!s32_) worker.s64 = AlignedBuffer(rows * n_ * 8);
  }

  void bind(Worker& worker, Tile& tile) {
    for (size_t p = 0; p < parts_.size(); ++p) {
      if (path_ == ProductPath::Int8) {
        if (int8_.size() <= p) {
          int8_.emplace_back(n_, k_, dtype_of_part(parts_[p]), codes_.data());
        }
        const void* x = parts_[p] == Part::Whole ? static_cast<const void*>(x_ + tile.row * k_)
                                                 : worker.inputs[p].data();
        tile.int8.push_back(
            int8_[p].bind(tile.rows, x, reinterpret_cast<int32_t*>(worker.products[p].data())));
      } else if (path_ == ProductPath::F32) {
        tile.floats.push_back(
            prepare_gemm(Gemm{.m = tile.rows, .n = n_, .k = k_, .transpose_b = true},
                         reinterpret_cast<const float*>(worker.inputs[p].data()),
                         floats_.data(), reinterpret_cast<float*>(worker.floats.data()), 1));
      }
    }
  }

  bool run_tile(Worker& worker, Tile& tile) const {
    bool fine = true;
    if (path_ == ProductPath::Plain && !s32_) {
      run_plain(tile, reinterpret_cast<int64_t*>(worker.s64.data()));
    } else {
      for (size_t p = 0; p < parts_.size(); ++p) fine = run_part(worker, tile, p) && fine;
      if (!s32_) widen(worker, tile.rows * n_);
    }
    if (s32_) {
      epilogue_.s32(tile.row, tile.rows,
                    reinterpret_cast<const int32_t*>(worker.products[0].data()));
    } else {
      epilogue_.s64(tile.row, tile.rows, reinterpret_cast<const int64_t*>(worker.s64.data()));
    }
    return fine;
  }

  /// Products of one part, in s32.
  bool run_part(Worker& worker, Tile& tile, size_t p) const {
    const X* x = x_ + tile.row * k_;
    const int64_t codes = tile.rows * k_;
    std::byte* input = worker.inputs[p].data();
    auto* products = reinterpret_cast<int32_t*>(worker.products[p].data());
    if (path_ == ProductPath::Plain) {
      run_plain(tile, products);
      return true;
    }
    if (path_ == ProductPath::F32) {
      float_loops_[p](x, reinterpret_cast<float*>(input), codes);
      tile.floats[p]();
      const auto* accumulators = reinterpret_cast<const float*>(worker.floats.data());
      for (int64_t i = 0; i < tile.rows * n_; ++i) {
        products[i] = static_cast<int32_t>(accumulators[i]);
      }
      return true;
    }
    if (parts_[p] != Part::Whole) {
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
  void run_plain(const Tile& tile, Acc* products) const {
    for (int64_t row = 0; row < tile.rows; ++row) {
      const X* x = x_ + (tile.row + row) * k_;
      for (int64_t c = 0; c < n_; ++c) {
        const int8_t* w = codes_.data() + c * k_;
        Acc sum = 0;
        for (int64_t i = 0; i < k_; ++i) sum += static_cast<Acc>(x[i]) * static_cast<Acc>(w[i]);
        products[row * n_ + c] = sum;
      }
    }
  }

  Epilogue epilogue_;
  const X* x_;
  int64_t n_, k_, rows_;
  ProductPath path_;
  bool s32_;
  int threads_;
  std::vector<int8_t> codes_;
  std::vector<float> floats_;
  std::vector<Part> parts_;
  std::vector<ExtractLoop<X, float>> float_loops_;   // by part
  std::vector<ExtractLoop<X, uint8_t>> byte_loops_;  // by part
  std::vector<Int8Product> int8_;                    // by part
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace

IntegerKernel linear_kernel(const integer::Linear& op, const IntegerBinding& b,
                            Epilogue epilogue) {
  return dispatch_codes(b.inputs[0].type.dtype, [&]<class X>() -> IntegerKernel {
    auto products = std::make_shared<TiledProducts<X>>(op, b, std::move(epilogue));
    return [products] { products->run(); };
  });
}

}  // namespace qtape
