#include "qtape/integer/products/grouped_products.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "qtape/core/aligned.h"
#include "qtape/integer/core/weight_sums.h"
#include "qtape/integer/products/shares.h"
#include "qtape/integer/products/windows.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape {

using namespace kernels;
namespace {

// The products of a tile should stay in cache until they are codes.
constexpr int64_t grouped_tile_products = 16384;

/// Extents of a convolution that the loops read.
struct Extents {
  int64_t taps, groups, inputs, outputs;  // the last two of a group
};

/// acc [groups, outputs] = sum over taps of x [groups, inputs] w [taps, groups, inputs,
/// outputs].
template <class X, class Acc>
using PixelLoop = void (*)(const X* const*, const int32_t*, Acc*, const Extents*);

template <class X, class Acc>
PixelLoop<X, Acc> depthwise_loop() {
  return simd::best<const X* const*, const int32_t*, Acc*, const Extents*>(
      [](const X* const* taps, const int32_t* w, Acc* acc, const Extents* e) {
        const int64_t channels = e->groups;
        std::fill_n(acc, channels, Acc(0));
        for (int64_t t = 0; t < e->taps; ++t) {
          const X* x = taps[t];
          QTAPE_INDEPENDENT
          for (int64_t c = 0; c < channels; ++c) {
            acc[c] += static_cast<Acc>(x[c]) * static_cast<Acc>(w[t * channels + c]);
          }
        }
      });
}

template <class X, class Acc>
PixelLoop<X, Acc> grouped_loop() {
  return simd::best<const X* const*, const int32_t*, Acc*, const Extents*>(
      [](const X* const* taps, const int32_t* w, Acc* acc, const Extents* e) {
        std::fill_n(acc, e->groups * e->outputs, Acc(0));
        for (int64_t t = 0; t < e->taps; ++t) {
          for (int64_t g = 0; g < e->groups; ++g) {
            Acc* sums = acc + g * e->outputs;
            for (int64_t i = 0; i < e->inputs; ++i, w += e->outputs) {
              const auto x = static_cast<Acc>(taps[t][g * e->inputs + i]);
              QTAPE_INDEPENDENT
              for (int64_t o = 0; o < e->outputs; ++o) sums[o] += x * static_cast<Acc>(w[o]);
            }
          }
        }
      });
}

template <class X>
class GroupedProducts {
 public:
  GroupedProducts(const QuantizedWeights& weights, const Convolution& c,
                  const IntegerBinding& b, Epilogue epilogue)
      : epilogue_(std::move(epilogue)),
        windows_(c),
        extents_{c.window.kernel(), c.groups, c.inputs(), c.outputs()},
        x_(b.operand<X>(0)),
        value_(b.inputs[0]),
        output_(b.output),
        numbers_(b.weights),
        channels_(c.in_channels),
        n_(c.out_channels),
        rows_(c.images * c.window.outputs()),
        threads_(b.threads),
        tile_(std::clamp<int64_t>(grouped_tile_products / n_, 1, std::max<int64_t>(1, rows_))),
        weights_(static_cast<size_t>(n_ * extents_.taps * extents_.inputs)),
        padding_(static_cast<size_t>(channels_)),
        sums_(static_cast<size_t>(n_)),
        offsets_(static_cast<size_t>(n_)) {
    const bool depthwise = extents_.inputs == 1 && extents_.outputs == 1;
    narrow_ = depthwise ? depthwise_loop<X, int32_t>() : grouped_loop<X, int32_t>();
    wide_ = depthwise ? depthwise_loop<X, int64_t>() : grouped_loop<X, int64_t>();
    if (numbers_ == nullptr) {
      arrange(weights.unpacked().data());
      offsets_ = weights.offsets(*value_);
    }
    for (const RowShare& share :
         shares_of(rows_, rows_ * std::ssize(weights_), grouped_worker_work, threads_)) {
      workers_.push_back({share, AlignedBuffer(tile_ * n_ * int64_t{sizeof(int64_t)}),
                          std::vector<const X*>(static_cast<size_t>(extents_.taps))});
    }
  }

  Fault load() {
    if (numbers_ != nullptr) {
      arrange(numbers_->codes);
      sum_offsets();
    }
    std::ranges::fill(padding_, static_cast<X>(value_->zero_point));
    return epilogue_.load(offsets_);
  }

  void run() {
    parallel_for(threads_, std::ssize(workers_), 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t w = begin; w < end; ++w) run(workers_[static_cast<size_t>(w)]);
    });
  }

 private:
  // Below this number of multiplications a second thread does not pay off.
  static constexpr int64_t grouped_worker_work = int64_t{1} << 17;

  struct Worker {
    RowShare rows;
    AlignedBuffer products;
    std::vector<const X*> taps;
  };

  /// Rearranges weights [groups, outputs, taps, inputs] to [taps, groups, inputs, outputs].
  void arrange(const int8_t* w) {
    const auto& [taps, groups, inputs, outputs] = extents_;
    for (int64_t g = 0; g < groups; ++g) {
      for (int64_t o = 0; o < outputs; ++o) {
        for (int64_t t = 0; t < taps; ++t) {
          for (int64_t i = 0; i < inputs; ++i) {
            weights_[static_cast<size_t>(((t * groups + g) * inputs + i) * outputs + o)] = *w++;
          }
        }
      }
    }
  }

  void sum_offsets() {
    sum_(numbers_->codes, extents_.taps * extents_.inputs, true, threads_, sums_);
    take_offsets(numbers_->bias, sums_, value_->zero_point, offsets_);
  }

  void run(Worker& worker) const {
    const bool narrow = sizeof(X) == 1 && output_->type.dtype == DType::S32;
    for (int64_t row = worker.rows.begin; row < worker.rows.end; row += tile_) {
      const int64_t rows = std::min(tile_, worker.rows.end - row);
      if (narrow) {
        epilogue_.s32(row, rows, products(worker, row, rows, narrow_));
      } else {
        epilogue_.s64(row, rows, products(worker, row, rows, wide_));
      }
    }
  }

  template <class Acc>
  const Acc* products(Worker& worker, int64_t row, int64_t rows, PixelLoop<X, Acc> loop) const {
    auto* to = reinterpret_cast<Acc*>(worker.products.data());
    for (int64_t r = 0; r < rows; ++r) {
      windows_.point(x_, padding_.data(), row + r, worker.taps.data());
      loop(worker.taps.data(), weights_.data(), to + r * n_, &extents_);
    }
    return to;
  }

  Epilogue epilogue_;
  CodeWindows<X> windows_;
  Extents extents_;
  const X* x_;
  const IntegerValue* value_;
  const IntegerValue* output_;
  const WeightNumbers* numbers_;  // null if weights are constant
  int64_t channels_, n_, rows_;
  int threads_;
  int64_t tile_;  // rows
  std::vector<int32_t> weights_;
  std::vector<X> padding_;  // one pixel of padding
  WeightSummation sum_;
  std::vector<WeightSums> sums_;  // by output
  std::vector<int64_t> offsets_;  // by output
  PixelLoop<X, int32_t> narrow_;
  PixelLoop<X, int64_t> wide_;
  std::vector<Worker> workers_;
};

}  // namespace

IntegerKernel grouped_kernel(const QuantizedWeights& weights, const Convolution& windows,
                             const IntegerBinding& b, Epilogue epilogue) {
  return dispatch_codes(b.in(0).type.dtype, [&]<class X>() -> IntegerKernel {
    auto products =
        std::make_shared<GroupedProducts<X>>(weights, windows, b, std::move(epilogue));
    return {[products] { return products->load(); }, [products] { products->run(); }};
  });
}

}  // namespace qtape
