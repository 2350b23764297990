// A quantizer node with its buffers, run without a graph: any dtype, forward and backward.
#pragma once

#include <algorithm>
#include <vector>

#include "qtape/core/aligned.h"
#include "qtape/core/random.h"
#include "qtape/ops/fake_quantize.h"

namespace qtape::test {

template <class S, class T, class X = FakeQuantize>
class QuantizerBench {
 public:
  QuantizerBench(const X& op, const Shape& shape, int threads = 1)
      : op_(op), types_{{dtype_of<S>, shape}}, threads_(threads) {
    // Never without memory, because an empty tensor of a tape has an address as well.
    const auto n = static_cast<size_t>(std::max<int64_t>(1, shape.elements()));
    x.resize(n);
    y.resize(n);
    dy.resize(n);
    dx.resize(n);
    channels_ = ChannelMap(shape, granularity_of(op)).channels;
    for (const QuantizerOperand& operand : op.operands()) {
      types_.push_back(operand_type(operand, granularity_of(op), types_[0]));
    }
    const int64_t states = types_.size() > 1 ? types_[1].elements() : channels_;
    state.resize(static_cast<size_t>(states));
    zero_point.resize(state.size());
    dstate.resize(state.size());
    dzero_point.resize(state.size());
    const TensorType inferred = op.infer(types_);
    (void)inferred;
    const Footprint f = op.footprint(types_);
    saved_ = AlignedBuffer(f.saved);
    scratch_ = AlignedBuffer(f.scratch);
    record_ = AlignedBuffer(f.record);
  }

  void forward(Mode mode) { forward_step({.mode = mode}); }
  void forward_step(const Step& step) { op_.forward(binding(false))(step); }
  void backward(bool accumulate = false) { op_.backward(binding(accumulate))({}); }
  /// Returns the scales used in the last forward pass.
  std::vector<T> scales() const {
    const T* first = reinterpret_cast<const T*>(record_.data());
    return {first, first + channels_};
  }
  /// Returns scale and zero point of a channel in the last forward pass.
  QParams<T> qparams(int64_t c) const {
    const T* first = reinterpret_cast<const T*>(record_.data());
    return {first[c], first[channels_ + c]};
  }

  std::vector<S> x, y, dy, dx;
  std::vector<T> state, zero_point, dstate, dzero_point;
  bool x_wanted = true;
  NodeStatus status;

 private:
  Binding binding(bool accumulate) {
    operands_ = {reinterpret_cast<std::byte*>(x.data()),
                 reinterpret_cast<std::byte*>(state.data()),
                 reinterpret_cast<std::byte*>(zero_point.data())};
    operands_.resize(types_.size());
    const auto slots = op_.slots();
    const auto target = [&](size_t i, void* data) {
      const bool wanted = i < slots.size() && slots[i].differentiable && (i > 0 || x_wanted);
      return Gradient{wanted ? static_cast<std::byte*>(data) : nullptr, accumulate};
    };
    gradients_ = {target(0, dx.data()), target(1, dstate.data()),
                  target(2, dzero_point.data())};
    gradients_.resize(types_.size());
    return {.inputs = types_,
            .output = types_[0],
            .operands = operands_,
            .result = reinterpret_cast<std::byte*>(y.data()),
            .dy = reinterpret_cast<std::byte*>(dy.data()),
            .gradients = gradients_,
            .saved = saved_.data(),
            .scratch = scratch_.data(),
            .record = record_.data(),
            .status = &status,
            .threads = threads_};
  }

  X op_;
  std::vector<TensorType> types_;
  std::vector<std::byte*> operands_;
  std::vector<Gradient> gradients_;
  AlignedBuffer saved_, scratch_, record_;
  int threads_;
  int64_t channels_ = 1;
};

/// Calls f with every combination of the attributes that affect codes and masks.
template <class F>
void for_each_attribute(F f) {
  for (int bits : {2, 3, 4, 8, 16}) {
    for (auto range : {CodeRange::Narrow, CodeRange::Full, CodeRange::Unsigned}) {
      for (auto rounding : {Rounding::HalfEven, Rounding::HalfAway, Rounding::HalfUp}) {
        for (auto division : {Division::Exact, Division::Reciprocal}) {
          for (auto mask : {MaskRule::Code, MaskRule::Value}) {
            f(FakeQuantize{.bits = bits,
                           .range = range,
                           .rounding = rounding,
                           .division = division,
                           .ste = Ste::ClippedIdentity,
                           .mask = mask});
          }
        }
      }
    }
  }
}

/// Returns values uniform in [-1, 1).
inline std::vector<float> random_floats(size_t n, uint64_t seed) {
  const Random random(seed, 0);
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(2 * random.uniform(i) - 1);
  return x;
}

}  // namespace qtape::test
