#include "qtape/integer/products/direct_products.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "qtape/core/aligned.h"
#include "qtape/integer/core/weight_sums.h"
#include "qtape/integer/products/shares.h"
#include "qtape/kernels/integer/channel_products.h"
#include "qtape/kernels/integer/code_products.h"
#include "qtape/kernels/integer/code_trials.h"
#include "qtape/kernels/integer/window_products.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape {

using namespace kernels;
namespace {

constexpr int64_t max_terms_of_32_bits = 65'000;
// The products of a tile should stay in the first-level cache until they are codes.
constexpr int64_t direct_tile_products = 4096;
// Below this number of multiplications a second thread does not pay off.
constexpr int64_t direct_worker_work = int64_t{1} << 19;

constexpr int64_t min_padded_limit = int64_t{1} << 20;  // codes

/// y = x - origin.
template <class X, class Code>
using CopyLoop = void (*)(const X* x, Code* y, int64_t n, int32_t origin);

template <class X, class Code>
CopyLoop<X, Code> copy_loop() {
  return simd::best<const X*, Code*, int64_t, int32_t>(
      [](const X* x, Code* y, int64_t n, int32_t origin) {
        QTAPE_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) y[i] = static_cast<Code>(x[i] - origin);
      });
}

/// An image as windows read it: exactly the lines that windows reach, including padding.
struct PaddedImage {
  explicit PaddedImage(const Convolution& c)
      : lines(reach(c.window.h)),
        width(reach(c.window.w)),
        channels(c.in_channels),
        top(std::min(c.window.h.begin, lines)),
        bottom(std::min(top + c.window.h.in, lines)),
        left(std::min(c.window.w.begin, width)),
        right(std::min(left + c.window.w.in, width)) {}

  static int64_t reach(const WindowAxis& axis) {
    return (axis.out - 1) * axis.stride + axis.span();
  }
  int64_t line() const { return width * channels; }
  int64_t codes() const { return lines * line(); }

  int64_t lines, width, channels;
  int64_t top, bottom;  // lines that come from x: [top, bottom)
  int64_t left, right;  // columns that come from x
};

bool is_depthwise(const Convolution& c) { return c.inputs() == 1 && c.outputs() == 1; }

/// The contiguous runs of codes in a window: one run per row of taps; one per tap if dilation
/// separates the taps or the convolution is depthwise.
struct Runs {
  explicit Runs(const Convolution& c) {
    const auto& [h, w] = c.window;
    const PaddedImage image(c);
    const bool rows = w.dilation == 1 && !is_depthwise(c);
    length = c.inputs() * (rows ? w.kernel : 1);
    for (int64_t i = 0; i < h.kernel; ++i) {
      for (int64_t j = 0; j < (rows ? 1 : w.kernel); ++j) {
        begins.push_back(i * h.dilation * image.line() + j * w.dilation * image.channels);
      }
    }
  }
  std::vector<int64_t> begins;
  int64_t length;
};

/// Returns an equivalent convolution with all elements of an image in one line, if windows are
/// single elements. This gives longer blocks.
Convolution as_lines(Convolution c) {
  const auto is_plain = [](const WindowAxis& axis) { return axis.in == axis.out; };
  if (c.window.kernel() > 1 || c.window.has_padding()) return c;
  if (!is_plain(c.window.h) || !is_plain(c.window.w)) return c;
  const int64_t elements = c.window.outputs();
  c.window = {{}, {.in = elements, .out = elements}};
  return c;
}

/// Computes products of codes X by WindowProducts or ChannelProducts.
template <class X, class Products>
class DirectProducts {
  using Code = typename Products::Code;

 public:
  DirectProducts(const QuantizedWeights& weights, const Convolution& c, const IntegerBinding& b,
                 Epilogue epilogue)
      : epilogue_(std::move(epilogue)),
        c_(c),
        image_(c),
        products_(products_of(c, Runs(c))),
        copy_(copy_loop<X, Code>()),
        x_(b.operand<X>(0)),
        value_(b.inputs[0]),
        output_(b.output),
        numbers_(b.weights),
        n_(c.out_channels),
        terms_(weights.terms()),
        points_(c.images * c.window.outputs()),
        threads_(b.threads),
        tile_(
            std::clamp<int64_t>(direct_tile_products / n_, 16, std::max<int64_t>(16, points_))),
        sums_(static_cast<size_t>(n_)),
        offsets_(static_cast<size_t>(n_)) {
    if (numbers_ == nullptr) {
      const std::vector<int8_t> codes = weights.unpacked();
      biases_ = weights.biases();
      take(codes.data(), true);
    }
    for (const RowShare& share :
         shares_of(points_, points_ * n_ * terms_, direct_worker_work, threads_)) {
      workers_.push_back(
          {share, AlignedBuffer((image_.codes() + products_.slack) * int64_t{sizeof(Code)}),
           AlignedBuffer(tile_ * n_ * 4),
           AlignedBuffer(numbers_ == nullptr && !is_wide() ? 0 : tile_ * n_ * 8)});
    }
  }

  Fault load() {
    if (numbers_ != nullptr) {
      biases_ = numbers_->bias;
      take(numbers_->codes, numbers_->rows);
    }
    const int64_t zero = value_->zero_point - origin;
    take_offsets(biases_, sums_, zero, offsets_);
    if (c_.window.has_padding()) {
      for (Worker& worker : workers_) {
        std::fill_n(codes_of(worker), image_.codes(), static_cast<Code>(zero));
      }
    }
    return epilogue_.load(offsets_);
  }

  void run() {
    parallel_for(threads_, std::ssize(workers_), 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t w = begin; w < end; ++w) run(workers_[static_cast<size_t>(w)]);
    });
  }

 private:
  /// Value subtracted from codes before they are multiplied.
  static constexpr int32_t origin =
      sizeof(Code) == 1 ? std::numeric_limits<X>::min() - std::numeric_limits<Code>::min() : 0;

  struct Worker {
    RowShare points;
    AlignedBuffer image;
    AlignedBuffer products;
    AlignedBuffer wide;  // products in 64 bits
  };

  static Products products_of(const Convolution& c, const Runs& runs) {
    return {c.out_channels, runs.begins, runs.length};
  }
  static Code* codes_of(const Worker& worker) {
    return reinterpret_cast<Code*>(worker.image.data());
  }
  bool is_wide() const { return output_->type.dtype == DType::S64; }

  void take(const int8_t* w, bool rows) {
    products_.load(w, rows, threads_);
    sum_(w, terms_, rows, threads_, sums_);
  }

  /// Copies lines of x [begin, end) of the padded image.
  void copy_lines(const Worker& worker, int64_t image, int64_t begin, int64_t end) const {
    const WindowAxis& w = c_.window.w;
    const int64_t length = (image_.right - image_.left) * image_.channels;
    const X* x = x_ + image * c_.window.h.in * w.in * image_.channels;
    Code* to = codes_of(worker) + image_.left * image_.channels;
    for (int64_t line = std::max(begin, image_.top); line < std::min(end, image_.bottom);
         ++line) {
      copy_(x + (line - image_.top) * w.in * image_.channels, to + line * image_.line(), length,
            origin);
    }
  }

  void run(Worker& worker) const {
    const auto& [h, w] = c_.window;
    auto* to = reinterpret_cast<int32_t*>(worker.products.data());
    int64_t filled = 0;
    int64_t copied = 0;  // number of lines of this image
    for (int64_t point = worker.points.begin; point < worker.points.end;) {
      const int64_t column = point % w.out;
      const int64_t row = point / w.out % h.out;
      if (point == worker.points.begin || (row == 0 && column == 0)) copied = row * h.stride;
      const int64_t reached = row * h.stride + h.span();
      copy_lines(worker, point / c_.window.outputs(), copied, reached);
      copied = reached;
      const int64_t left = std::min(w.out - column, worker.points.end - point);
      if (filled > 0 && filled + left > tile_) flush(worker, point, filled);
      const int64_t count = std::min(left, tile_ - filled);
      products_.run(codes_of(worker) + row * h.stride * image_.line() +
                        column * w.stride * image_.channels,
                    w.stride * image_.channels, count, to + filled * n_);
      filled += count;
      point += count;
      if (filled == tile_ || point == worker.points.end) flush(worker, point, filled);
    }
  }

  /// Passes the products of the `filled` points that precede `end` to the epilogue.
  void flush(const Worker& worker, int64_t end, int64_t& filled) const {
    const auto* products = reinterpret_cast<const int32_t*>(worker.products.data());
    if (is_wide()) {
      auto* wide = reinterpret_cast<int64_t*>(worker.wide.data());
      std::copy_n(products, filled * n_, wide);
      epilogue_.s64(end - filled, filled, wide);
    } else {
      epilogue_.s32(end - filled, filled, products);
    }
    filled = 0;
  }

  Epilogue epilogue_;
  Convolution c_;
  PaddedImage image_;
  Products products_;
  CopyLoop<X, Code> copy_;
  const X* x_;
  const IntegerValue* value_;
  const IntegerValue* output_;
  const WeightNumbers* numbers_;  // null if weights are constant
  int64_t n_, terms_, points_;
  int threads_;
  int64_t tile_;  // points
  std::vector<int32_t> biases_;
  WeightSummation sum_;
  std::vector<WeightSums> sums_;  // by output
  std::vector<int64_t> offsets_;  // by output
  std::vector<Worker> workers_;
};

}  // namespace

bool is_direct(const Convolution& c, DType codes) {
  // Padding may be far larger than the image and would then waste memory.
  const int64_t image = c.window.h.in * c.window.w.in * c.in_channels;
  const PaddedImage padded(c);
  const int64_t limit = std::max(min_padded_limit, 4 * image);
  if (padded.lines > limit / padded.line()) return false;
  return code_products() != CodeProducts::None && (c.groups == 1 || is_depthwise(c)) &&
         size_of(codes) == 1 && c.window.kernel() <= max_terms_of_32_bits / c.inputs();
}

Convolution as_windows(int64_t rows, int64_t k, int64_t n) {
  return {.images = 1,
          .in_channels = k,
          .out_channels = n,
          .window = {{}, {.in = rows, .out = rows}}};
}

IntegerKernel direct_kernel(const QuantizedWeights& weights, const Convolution& windows,
                            const IntegerBinding& b, Epilogue epilogue) {
  require_exact_code_products();
  const auto kernel_of = [&]<class X, class Products>() -> IntegerKernel {
    auto products = std::make_shared<DirectProducts<X, Products>>(weights, as_lines(windows), b,
                                                                  std::move(epilogue));
    return {[products] { return products->load(); }, [products] { products->run(); }};
  };
  const auto kernel = [&]<class X>() {
    if (is_depthwise(windows)) return kernel_of.template operator()<X, ChannelProducts>();
    return code_products() == CodeProducts::Bytes
               ? kernel_of.template operator()<X, WindowProducts<ByteCode>>()
               : kernel_of.template operator()<X, WindowProducts<int16_t>>();
  };
  return b.in(0).type.dtype == DType::S8 ? kernel.template operator()<int8_t>()
                                         : kernel.template operator()<uint8_t>();
}

}  // namespace qtape
