#include "qtape/ops/quantize.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <type_traits>

#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/families/codes.h"

namespace qtape {

using namespace kernels;
namespace {

/// Elements processed at once in the first-level cache: whole blocks of the mask.
constexpr int64_t block = 2048;
static_assert(block % 512 == 0);

/// Index of the mask word of element i of a chunk; i is a multiple of 512.
constexpr int64_t mask_word(int64_t i) { return i / 512 * mask_block_words; }

template <class S>
using LoadLoop = void (*)(const S*, typename Storage<S>::Compute*, int64_t);
/// Writes codes and sets the flag if one of them was NaN.
template <class T>
using NarrowLoop = void (*)(const T*, std::byte*, int64_t, int32_t*);
template <class T>
using DivideLoop = void (*)(const float*, T*, int64_t, const QuantizeChunk<T>*);
template <class S>
using StoreLoop = void (*)(const typename Storage<S>::Compute*, S*, int64_t);

template <class S>
LoadLoop<S> load_loop() {
  using T = typename Storage<S>::Compute;
  return simd::best_for<T, const S*, T*, int64_t>([](const S* x, T* to, int64_t n) {
    QTAPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) to[i] = Storage<S>::load(x[i]);
  });
}

template <class T, class Code>
NarrowLoop<T> narrow_loop() {
  return simd::best_for<T, const T*, std::byte*, int64_t, int32_t*>(
      [](const T* codes, std::byte* to, int64_t n, int32_t* nan) {
        Code* y = reinterpret_cast<Code*>(to);
        int32_t found = 0;
        QTAPE_INDEPENDENT
        for (int64_t i = 0; i < n; ++i) {
          const bool number = codes[i] == codes[i];
          found |= number ? 0 : 1;
          y[i] = static_cast<Code>(static_cast<int32_t>(number ? codes[i] : T(0)));
        }
        *nan = found;
      });
}

template <class T, bool columns>
DivideLoop<T> divide_loop() {
  return simd::best_for<T, const float*, T*, int64_t, const QuantizeChunk<T>*>(
      [](const float* dy, T* g, int64_t n, const QuantizeChunk<T>* chunk) {
        const QuantizeChunk<T> r = *chunk;
        for_each_scaled<columns>(
            n, r, [=](int64_t i, T scale, T) { g[i] = static_cast<T>(dy[i]) / scale; });
      });
}

template <class S, bool accumulate>
StoreLoop<S> store_loop() {
  using T = typename Storage<S>::Compute;
  return simd::best_for<T, const T*, S*, int64_t>([](const T* g, S* dx, int64_t n) {
    QTAPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      dx[i] = Storage<S>::store(accumulate ? Storage<S>::load(dx[i]) + g[i] : g[i]);
    }
  });
}

/// Lowers `least` to `value`, atomically.
void lower(int64_t& least, int64_t value) {
  std::atomic_ref<int64_t> shared(least);
  int64_t seen = shared.load();
  while (value < seen && !shared.compare_exchange_weak(seen, value)) {
  }
}

template <class S>
class Forward {
 public:
  using T = typename Storage<S>::Compute;

  Forward(const Quantize& op, const Binding& b)
      : layout_(b.inputs[0].shape, granularity_of(op)),
        base_(quantize_chunk_of<T>(grid_of(op), layout_, op.mask)),
        loop_(quantize_loops<T>({.rounding = op.rounding,
                                 .division = op.division,
                                 .masked = true,
                                 .columns = layout_.columns(),
                                 .plain = false})
                  .quantize),
        load_(load_loop<S>()),
        narrow_(dispatch_codes(b.output.dtype,
                               []<class Code>() { return narrow_loop<T, Code>(); })),
        scales_(b, layout_.channels(), grid_of(op).limits),
        x_(b.operand<const S>(0)),
        y_(b.result),
        bytes_(b.output.bytes()),
        code_size_(size_of(b.output.dtype)),
        mask_(reinterpret_cast<uint64_t*>(b.saved)),
        status_(b.status),
        threads_(b.threads) {
    base_.codes = true;
  }

  void operator()(const Step&) const {
    status_->fault = scales_.load();
    status_->applied = status_->fault.text == nullptr;
    if (!status_->applied) {
      std::fill_n(y_, bytes_, std::byte{0});
      return;
    }
    int64_t first_nan = layout_.elements();
    layout_.for_each_chunk(threads_,
                           [&](int64_t, const Chunk& chunk) { quantize(chunk, first_nan); });
    if (first_nan < layout_.elements()) {
      status_->fault = {"element {index} of x is NaN, which has no code", first_nan, 0};
    }
  }

 private:
  void quantize(const Chunk& chunk, int64_t& first_nan) const {
    alignas(64) T codes[block];
    const QuantizeChunk<T> whole = at_chunk(base_, scales_.record(), layout_, chunk);
    for (int64_t begin = 0; begin < chunk.length; begin += block) {
      const int64_t n = std::min(block, chunk.length - begin);
      const int64_t at = chunk.offset + begin;
      const QuantizeChunk<T> r = advanced(whole, layout_.columns(), begin);
      loop_(loaded(x_ + at, codes, n), codes, mask_ + chunk.word + mask_word(begin), n, &r);
      int32_t nan = 0;
      narrow_(codes, y_ + at * code_size_, n, &nan);
      if (nan != 0) replace(codes, at, n, first_nan);
    }
  }

  /// x as T: x itself, or converted into `buffer`.
  const T* loaded(const S* x, T* buffer, int64_t n) const {
    if constexpr (std::is_same_v<S, T>) {
      return x;
    } else {
      load_(x, buffer, n);
      return buffer;
    }
  }

  /// Rewrites the n codes starting at element `at`, with zero points in place of NaN.
  void replace(T* codes, int64_t at, int64_t n, int64_t& first_nan) const {
    for (int64_t i = n; i-- > 0;) {
      if (codes[i] == codes[i]) continue;
      codes[i] = scales_.record().zero_point[layout_.channel_of(at + i)];
      lower(first_nan, at + i);
    }
    int32_t none = 0;
    narrow_(codes, y_ + at * code_size_, n, &none);
  }

  QuantizeLayout layout_;
  QuantizeChunk<T> base_;
  typename QuantizeLoops<T>::Quantize loop_;
  LoadLoop<S> load_;
  NarrowLoop<T> narrow_;
  ScaleOperands<T> scales_;
  const S* x_;
  std::byte* y_;
  int64_t bytes_;
  int64_t code_size_;
  uint64_t* mask_;
  NodeStatus* status_;
  int threads_;
};

template <class S>
class Backward {
 public:
  using T = typename Storage<S>::Compute;
  /// True if gradients are stored in the type in which they are computed.
  static constexpr bool direct = std::is_same_v<S, T>;

  Backward(const Quantize& op, const Binding& b)
      : layout_(b.inputs[0].shape, granularity_of(op)),
        base_(quantize_chunk_of<T>(grid_of(op), layout_, op.mask)),
        record_(b.record, layout_.channels()),
        divide_(layout_.columns() ? divide_loop<T, true>() : divide_loop<T, false>()),
        select_(select_loop<T>(direct && b.accumulate(0))),
        store_(b.accumulate(0) ? store_loop<S, true>() : store_loop<S, false>()),
        dy_(b.dy_as<const float>()),
        dx_(b.dx<S>(0)),
        mask_(reinterpret_cast<const uint64_t*>(b.saved)),
        threads_(b.threads) {}

  void operator()(const Step&) const {
    layout_.for_each_chunk(threads_, [&](int64_t, const Chunk& chunk) { pass(chunk); });
  }

 private:
  void pass(const Chunk& chunk) const {
    alignas(64) T g[block];
    const QuantizeChunk<T> whole = at_chunk(base_, record_, layout_, chunk);
    for (int64_t begin = 0; begin < chunk.length; begin += block) {
      const int64_t n = std::min(block, chunk.length - begin);
      const int64_t at = chunk.offset + begin;
      const QuantizeChunk<T> r = advanced(whole, layout_.columns(), begin);
      divide_(dy_ + at, g, n, &r);
      const uint64_t* mask = mask_ + chunk.word + mask_word(begin);
      if constexpr (direct) {
        select_(g, dx_ + at, mask, n);
      } else {
        select_(g, g, mask, n);
        store_(g, dx_ + at, n);
      }
    }
  }

  QuantizeLayout layout_;
  QuantizeChunk<T> base_;
  QuantizerRecord<T> record_;
  DivideLoop<T> divide_;
  SelectLoop<T> select_;
  StoreLoop<S> store_;
  const float* dy_;
  S* dx_;
  const uint64_t* mask_;
  int threads_;
};

}  // namespace

static_assert(Compute<Quantize>);

TensorType Quantize::infer(Inputs inputs) const {
  const TensorType& x = inputs[0];
  check(is_float(x.dtype), "expected f32, f64, f16 or bf16, got {}", to_string_view(x.dtype));
  check_grid(*this);
  check_quantizer_operands(*this, x, inputs);
  return {code_dtype(bits, range), x.shape};
}

Footprint Quantize::footprint(Inputs inputs) const {
  const QuantizeLayout layout(inputs[0].shape, granularity_of(*this));
  return dispatch_compute(scale_dtype(inputs[0].dtype), [&]<class T>() -> Footprint {
    return {.saved = 8 * layout.mask_words(),
            .record = QuantizerRecord<T>::bytes(layout.channels())};
  });
}

Kernel Quantize::forward(const Binding& b) const {
  return dispatch_float(b.inputs[0].dtype,
                        [&]<class S>() -> Kernel { return Forward<S>(*this, b); });
}

Kernel Quantize::backward(const Binding& b) const {
  if (!b.wanted(0)) return {};
  return dispatch_float(b.inputs[0].dtype,
                        [&]<class S>() -> Kernel { return Backward<S>(*this, b); });
}

}  // namespace qtape
