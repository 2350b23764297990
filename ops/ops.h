// The closed list of ops. A new op adds its include and its alternative here, and nothing else.
#pragma once

#include <variant>

#include "qtape/ops/abs.h"
#include "qtape/ops/add.h"
#include "qtape/ops/add_bias.h"
#include "qtape/ops/affine.h"
#include "qtape/ops/arg_max.h"
#include "qtape/ops/atan.h"
#include "qtape/ops/avg_pool.h"
#include "qtape/ops/batch_norm.h"
#include "qtape/ops/batch_norm_correction.h"
#include "qtape/ops/cast.h"
#include "qtape/ops/clamp.h"
#include "qtape/ops/concat.h"
#include "qtape/ops/conv1d.h"
#include "qtape/ops/conv2d.h"
#include "qtape/ops/conv_transpose2d.h"
#include "qtape/ops/cos.h"
#include "qtape/ops/dequantize.h"
#include "qtape/ops/div.h"
#include "qtape/ops/dropout.h"
#include "qtape/ops/elu.h"
#include "qtape/ops/embedding.h"
#include "qtape/ops/erf.h"
#include "qtape/ops/exp.h"
#include "qtape/ops/fake_quantize.h"
#include "qtape/ops/fake_quantize_bias.h"
#include "qtape/ops/fake_quantize_lsq.h"
#include "qtape/ops/fake_quantize_pact.h"
#include "qtape/ops/flatten.h"
#include "qtape/ops/floor.h"
#include "qtape/ops/fold_bias.h"
#include "qtape/ops/fold_factor.h"
#include "qtape/ops/gather.h"
#include "qtape/ops/gelu.h"
#include "qtape/ops/global_avg_pool.h"
#include "qtape/ops/group_norm.h"
#include "qtape/ops/hard_sigmoid.h"
#include "qtape/ops/hard_swish.h"
#include "qtape/ops/interpolate.h"
#include "qtape/ops/l2_normalize.h"
#include "qtape/ops/layer_norm.h"
#include "qtape/ops/leaky_relu.h"
#include "qtape/ops/leaves.h"
#include "qtape/ops/log.h"
#include "qtape/ops/log_softmax.h"
#include "qtape/ops/matmul.h"
#include "qtape/ops/max.h"
#include "qtape/ops/max_pool.h"
#include "qtape/ops/maximum.h"
#include "qtape/ops/mean.h"
#include "qtape/ops/mean_squared_error.h"
#include "qtape/ops/minimum.h"
#include "qtape/ops/mish.h"
#include "qtape/ops/mul.h"
#include "qtape/ops/neg.h"
#include "qtape/ops/pad.h"
#include "qtape/ops/pow.h"
#include "qtape/ops/prelu.h"
#include "qtape/ops/quantize.h"
#include "qtape/ops/relu.h"
#include "qtape/ops/relu6.h"
#include "qtape/ops/reshape.h"
#include "qtape/ops/rms_norm.h"
#include "qtape/ops/round.h"
#include "qtape/ops/sigmoid.h"
#include "qtape/ops/signum.h"
#include "qtape/ops/sin.h"
#include "qtape/ops/slice.h"
#include "qtape/ops/softmax.h"
#include "qtape/ops/softmax_cross_entropy.h"
#include "qtape/ops/softplus.h"
#include "qtape/ops/sqrt.h"
#include "qtape/ops/stop_gradient.h"
#include "qtape/ops/sub.h"
#include "qtape/ops/sum.h"
#include "qtape/ops/tanh.h"
#include "qtape/ops/transpose.h"
#include "qtape/ops/upsample.h"

namespace qtape {

/// The list of ops, as a variant.
// clang-format off
using OpAlternatives = std::variant<
    Input, Parameter, State, Constant,
    MatMul, AddBias, Conv1d, Conv2d, ConvTranspose2d,
    Add, Sub, Mul, Div, Maximum, Minimum,
    Neg, Relu, LeakyRelu, Sigmoid, Tanh, Gelu, Exp, Log, Sqrt, Clamp,
    Relu6, HardSigmoid, HardSwish, Abs, Affine, Elu, Softplus, Mish, Erf, Pow, PRelu,
    Sin, Cos, Atan, Signum, Floor, Round,
    Reshape, Flatten, Transpose, Concat, Slice, Gather, Pad, Upsample, Interpolate,
    Embedding,
    Sum, Mean, Max, ArgMax,
    MaxPool, AvgPool, GlobalAvgPool,
    Softmax, LogSoftmax, SoftmaxCrossEntropy, MeanSquaredError,
    BatchNorm, LayerNorm, GroupNorm, RmsNorm, L2Normalize,
    FoldFactor, FoldBias, BatchNormCorrection,
    Dropout, StopGradient, Cast,
    FakeQuantize, FakeQuantizeLSQ, FakeQuantizePACT, Quantize, Dequantize,
    FakeQuantizeBias>;
// clang-format on

/// One of the ops: a std::variant whose copies, moves and comparisons are compiled once, in
/// ops.cpp, instead of in every source that uses a graph.
struct Op : OpAlternatives {
  using OpAlternatives::OpAlternatives;
  Op();
  Op(const Op&);
  Op(Op&&) noexcept;
  Op& operator=(const Op&);
  Op& operator=(Op&&) noexcept;
  ~Op();
  bool operator==(const Op& other) const;
};

/// Name of the op in files and messages.
std::string_view name_of(const Op& op);

/// True if `op` is of one of the types X.
template <class... X>
bool is_any(const Op& op) {
  return (std::holds_alternative<X>(op) || ...);
}

/// True for Parameter and State: leaves whose memory belongs to a Parameters, under their
/// labels.
inline bool is_persistent(const Op& op) { return is_any<Parameter, State>(op); }

}  // namespace qtape
