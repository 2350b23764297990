// A quantizer node whose operands, values and gradients are lists of numbers: any dtype.
#pragma once

#include <doctest/doctest.h>

#include <vector>

#include "qtape/ops/fake_quantize.h"
#include "qtape/tests/support/first_difference.h"
#include "qtape/tests/support/op_run.h"

namespace qtape::test {

/// S: type of x; T: type of scales.
template <class S, class T, class X = FakeQuantize>
class QuantizerBench {
 public:
  QuantizerBench(const X& op, const Shape& shape, int threads = 1)
      : run_(op, types(op, shape), zeros(types(op, shape)), {.threads = threads}),
        operands_(1 + op.operands().size()),
        channels_(static_cast<size_t>(ChannelMap(shape, granularity_of(op)).channels)) {
    const TensorType scales = types(op, shape).back();
    const auto states = static_cast<size_t>(scales.elements());
    x.resize(static_cast<size_t>(shape.elements()));
    y = dy = dx = x;
    state.resize(operands_ > 1 ? states : channels_);
    zero_point = dstate = dzero_point = state;
  }

  void forward(Mode mode) { forward_step({.mode = mode}); }
  void forward_step(const Step& step) {
    run_.memory(0).put(x);
    if (operands_ > 1) run_.memory(1).put(state);
    if (operands_ > 2) run_.memory(2).put(zero_point);
    run_.bind_forward()(step);
    run_.value().get(y);
    if (operands_ > 1) run_.memory(1).get(state);
    if (operands_ > 2) run_.memory(2).get(zero_point);
    run_.record().get(record_);
  }
  void backward(bool accumulate = false) {
    run_.options().accumulate = accumulate;
    run_.options().unwanted = x_wanted ? -1 : 0;
    run_.dy().put(dy);
    run_.gradient(0).put(dx);
    if (operands_ > 1) run_.gradient(1).put(dstate);
    if (operands_ > 2) run_.gradient(2).put(dzero_point);
    run_.bind_backward()({});
    run_.gradient(0).get(dx);
    if (operands_ > 1) run_.gradient(1).get(dstate);
    if (operands_ > 2) run_.gradient(2).get(dzero_point);
  }
  void train() {
    forward(mode::qat);
    backward();
  }
  NodeStatus& status() { return run_.status(); }
  /// Returns the scales used in the last forward pass.
  std::vector<T> scales() const { return {record_.data(), record_.data() + channels_}; }
  std::vector<T> zero_points() const {
    return {record_.data() + channels_, record_.data() + 2 * channels_};
  }
  /// Returns scale and zero point of a channel in the last forward pass.
  QParams<T> qparams(int64_t channel) const {
    const auto c = static_cast<size_t>(channel);
    return {record_[c], record_[channels_ + c]};
  }

  std::vector<S> x, y, dy, dx;
  std::vector<T> state, zero_point, dstate, dzero_point;
  bool x_wanted = true;

 private:
  static std::vector<TensorType> types(const X& op, const Shape& shape) {
    std::vector<TensorType> all = {{dtype_of<S>, shape}};
    for (const QuantizerOperand& each : op.operands()) {
      all.push_back(operand_type(each, granularity_of(op), all[0]));
    }
    return all;
  }
  static std::vector<Values> zeros(const std::vector<TensorType>& types) {
    std::vector<Values> all;
    for (const TensorType& each : types) {
      all.emplace_back(static_cast<size_t>(each.elements()));
    }
    return all;
  }

  OpRun run_;
  size_t operands_, channels_;
  std::vector<T> record_;
};

/// One call of a quantizer and its exact results. Empty lists are not compared.
template <class T>
struct Call {
  Mode mode = mode::qat;
  std::vector<T> x;  ///< empty: that of the preceding call
  std::vector<T> state, scales, zero_points, y, dx, dstate;
};

/// Checks calls, one after the other.
template <class T, class X>
void check_calls(QuantizerBench<T, T, X>& bench, const std::vector<Call<T>>& calls) {
  for (const Call<T>& call : calls) {
    INFO("call ", &call - calls.data());
    const auto check = [](const std::vector<T>& got, const std::vector<T>& expected) {
      if (!expected.empty()) CHECK(difference(got, expected) == "");
    };
    if (!call.x.empty()) bench.x = call.x;
    bench.forward(call.mode);
    check(bench.state, call.state);
    check(bench.scales(), call.scales);
    check(bench.zero_points(), call.zero_points);
    check(bench.y, call.y);
    if (call.dx.empty() && call.dstate.empty()) continue;
    bench.backward();
    check(bench.dx, call.dx);
    check(bench.dstate, call.dstate);
  }
}

/// Calls f with every combination of the attributes that affect codes and masks.
template <class F>
void for_each_attribute(F f, std::initializer_list<int> all_bits = {2, 3, 4, 8, 16}) {
  for (int bits : all_bits) {
    for (auto range : {CodeRange::Narrow, CodeRange::Full, CodeRange::Unsigned}) {
      if (bits == 1 && range != CodeRange::Unsigned) continue;
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

}  // namespace qtape::test
