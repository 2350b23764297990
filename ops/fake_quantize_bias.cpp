#include "qtape/ops/fake_quantize_bias.h"

#include "qtape/kernels/quantize/quantize.h"
#include "qtape/ops/core/quantizer_op.h"
#include "qtape/ops/families/copy.h"

namespace qtape {

using namespace kernels;
namespace {

void check_source(const TensorType& source, const TensorType& b, std::string_view slot) {
  check(is_float(source.dtype), "{} must be f32, f64, f16 or bf16, got {}", slot,
        to_string_view(source.dtype));
  const DType scales = scale_dtype(source.dtype);
  check(scales == b.dtype, "{} has scales of {}, b is {}", slot, to_string_view(scales),
        to_string_view(b.dtype));
}

template <class T>
class Forward {
 public:
  explicit Forward(const Binding& b)
      : x_(b.sources[1]),
        w_(b.sources[2]),
        b_(b.operand<const T>(0)),
        y_(b.y<T>()),
        n_(b.output.elements()),
        copy_(view_forward(b)),
        status_(b.status) {}

  void operator()(const Step& step) const {
    status_->applied =
        step.mode.quantize && status_->enabled && x_.status->applied && w_.status->applied;
    if (status_->applied) return quantize();
    if (copy_) copy_(step);
  }

 private:
  void quantize() const {
    const T s_x = *x_.scales<T>();
    const T* s_w = w_.scales<T>();
    const int64_t stride = w_.channels == 1 ? 0 : 1;
    for (int64_t c = 0; c < n_; ++c) {
      const T s = s_w[stride * c];
      y_[c] = bias_value(bias_code(b_[c], s_x, s), s_x, s);
    }
  }

  ScaleSource x_;
  ScaleSource w_;
  const T* b_;
  T* y_;
  int64_t n_;
  Kernel copy_;  // empty if in place
  NodeStatus* status_;
};

}  // namespace

static_assert(Compute<FakeQuantizeBias>);

TensorType FakeQuantizeBias::infer(Inputs inputs) const {
  const TensorType& b = inputs[0];
  check_compute(b);
  check(b.shape.rank() == 1, "b must be [n], got {}", to_string(b.shape));
  check_source(inputs[1], b, "x");
  check_source(inputs[2], b, "w");
  return b;
}

Kernel FakeQuantizeBias::forward(const Binding& b) const {
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel { return Forward<T>(b); });
}

Kernel FakeQuantizeBias::backward(const Binding& b) const { return view_backward(b); }

}  // namespace qtape
