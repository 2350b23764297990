#include "qtape/ops/dequantize.h"

#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/families/codes.h"

namespace qtape {

using namespace kernels;
namespace {

template <class S>
using ComputeOf = typename Storage<S>::Compute;
template <class S>
using DecodeLoop = void (*)(const std::byte*, S*, int64_t, const QuantizeChunk<ComputeOf<S>>*);
template <class S>
using MultiplyLoop = void (*)(const S*, float*, int64_t, const QuantizeChunk<ComputeOf<S>>*);

template <class S, class Code, bool columns>
DecodeLoop<S> decode_loop() {
  using T = ComputeOf<S>;
  return simd::best_for<T, const std::byte*, S*, int64_t, const QuantizeChunk<T>*>(
      [](const std::byte* codes, S* y, int64_t n, const QuantizeChunk<T>* chunk) {
        const QuantizeChunk<T> r = *chunk;
        const Code* q = reinterpret_cast<const Code*>(codes);
        for_each_scaled<columns>(n, r, [=](int64_t i, T scale, T zero_point) {
          y[i] = Storage<S>::store((static_cast<T>(q[i]) - zero_point) * scale);
        });
      });
}

template <class S, bool columns, bool accumulate>
MultiplyLoop<S> multiply_loop() {
  using T = ComputeOf<S>;
  return simd::best_for<T, const S*, float*, int64_t, const QuantizeChunk<T>*>(
      [](const S* dy, float* dq, int64_t n, const QuantizeChunk<T>* chunk) {
        const QuantizeChunk<T> r = *chunk;
        for_each_scaled<columns>(n, r, [=](int64_t i, T scale, T) {
          const T g = Storage<S>::load(dy[i]) * scale;
          dq[i] = static_cast<float>(accumulate ? static_cast<T>(dq[i]) + g : g);
        });
      });
}

/// Chunk with the segments and channels of `layout`, for for_each_scaled.
template <class T>
QuantizeChunk<T> walk_of(const QuantizeLayout& layout) {
  QuantizeChunk<T> chunk;
  chunk.segment = layout.segment();
  chunk.channels = layout.channels();
  return chunk;
}

template <class Code>
CodeLimits limits_of() {
  return {std::numeric_limits<Code>::min(), std::numeric_limits<Code>::max()};
}

template <class S>
class DequantizeForward {
 public:
  using T = ComputeOf<S>;

  DequantizeForward(const Dequantize& op, const Binding& b)
      : layout_(b.inputs[0].shape, granularity_of(op)),
        base_(walk_of<T>(layout_)),
        decode_(dispatch_codes(b.inputs[0].dtype,
                               [&]<class Code>() {
                                 return layout_.columns() ? decode_loop<S, Code, true>()
                                                          : decode_loop<S, Code, false>();
                               })),
        scales_(
            b, layout_.channels(),
            dispatch_codes(b.inputs[0].dtype, []<class Code>() { return limits_of<Code>(); })),
        q_(b.operand<const std::byte>(0)),
        y_(b.y<S>()),
        code_size_(size_of(b.inputs[0].dtype)),
        status_(b.status),
        threads_(b.threads) {}

  void operator()(const Step&) const {
    status_->fault = scales_.load();
    if (status_->fault.text != nullptr) {
      std::fill_n(y_, layout_.elements(), S{});
      return;
    }
    layout_.for_each_chunk(threads_, [&](int64_t, const Chunk& chunk) {
      const QuantizeChunk<T> r = at_chunk(base_, scales_.record(), layout_, chunk);
      decode_(q_ + chunk.offset * code_size_, y_ + chunk.offset, chunk.length, &r);
    });
  }

 private:
  QuantizeLayout layout_;
  QuantizeChunk<T> base_;
  DecodeLoop<S> decode_;
  ScaleOperands<T> scales_;
  const std::byte* q_;
  S* y_;
  int64_t code_size_;
  NodeStatus* status_;
  int threads_;
};

template <class S>
class Backward {
 public:
  using T = ComputeOf<S>;

  Backward(const Dequantize& op, const Binding& b)
      : layout_(b.inputs[0].shape, granularity_of(op)),
        base_(walk_of<T>(layout_)),
        record_(b.record, layout_.channels()),
        multiply_(choose(layout_.columns(), b.accumulate(0))),
        dy_(b.dy_as<const S>()),
        dq_(b.dx<float>(0)),
        threads_(b.threads) {}

  void operator()(const Step&) const {
    layout_.for_each_chunk(threads_, [&](int64_t, const Chunk& chunk) {
      const QuantizeChunk<T> r = at_chunk(base_, record_, layout_, chunk);
      multiply_(dy_ + chunk.offset, dq_ + chunk.offset, chunk.length, &r);
    });
  }

 private:
  static MultiplyLoop<S> choose(bool columns, bool accumulate) {
    if (columns) {
      return accumulate ? multiply_loop<S, true, true>() : multiply_loop<S, true, false>();
    }
    return accumulate ? multiply_loop<S, false, true>() : multiply_loop<S, false, false>();
  }

  QuantizeLayout layout_;
  QuantizeChunk<T> base_;
  QuantizerRecord<T> record_;
  MultiplyLoop<S> multiply_;
  const S* dy_;
  float* dq_;
  int threads_;
};

}  // namespace

static_assert(Compute<Dequantize>);

TensorType Dequantize::infer(Inputs inputs) const {
  const TensorType& q = inputs[0];
  const bool codes = q.dtype == DType::S8 || q.dtype == DType::U8 || q.dtype == DType::S16 ||
                     q.dtype == DType::U16;
  check(codes, "expected s8, u8, s16 or u16, got {}", to_string_view(q.dtype));
  check(is_float(dtype), "dtype must be f32, f64, f16 or bf16, got {}", to_string_view(dtype));
  const TensorType y{dtype, q.shape};
  check_quantizer_operands(*this, y, inputs);
  return y;
}

Footprint Dequantize::footprint(Inputs inputs) const {
  const QuantizeLayout layout(inputs[0].shape, granularity_of(*this));
  return dispatch_compute(scale_dtype(dtype), [&]<class T>() -> Footprint {
    return {.record = QuantizerRecord<T>::bytes(layout.channels())};
  });
}

Kernel Dequantize::forward(const Binding& b) const {
  return dispatch_float(dtype,
                        [&]<class S>() -> Kernel { return DequantizeForward<S>(*this, b); });
}

Kernel Dequantize::backward(const Binding& b) const {
  if (!b.wanted(0)) return {};
  return dispatch_float(dtype, [&]<class S>() -> Kernel { return Backward<S>(*this, b); });
}

}  // namespace qtape
