#include "qtape/tests/support/grad_case.h"

namespace qtape::test {

// Extents cover remainders of vectors and blocks; ranges stay away from kinks and poles.
const std::vector<GradCase>& grad_cases() {
  static const std::vector<GradCase> cases = {
      {MatMul{}, {{{3, 5}}, {{5, 4}}}},
      {MatMul{.transpose_a = true}, {{{5, 3}}, {{5, 4}}}},
      {MatMul{.transpose_b = true}, {{{3, 5}}, {{4, 5}}}},
      {MatMul{.transpose_a = true, .transpose_b = true}, {{{5, 3}}, {{4, 5}}}},
      {MatMul{.transpose_b = true}, {{{2, 3, 5}}, {{4, 5}}}},
      {MatMul{}, {{{2, 3, 5}}, {{2, 5, 4}}}},
      {MatMul{.transpose_a = true, .transpose_b = true}, {{{2, 5, 3}}, {{2, 4, 5}}}},
      {Add{}, {{{3, 4}}, {{3, 4}}}},
      {Add{}, {{{3, 4}}, {{4}}}},
      {Add{}, {{{2, 1, 4}}, {{3, 1}}}},
      {Sub{}, {{{3, 4}}, {{3, 4}}}},
      {Sub{}, {{{1}}, {{3, 4}}}},
      {Mul{}, {{{3, 4}}, {{3, 4}}}},
      {Mul{}, {{{2, 1, 4}}, {{3, 1}}}},
      {Mul{}, {{{3, 4}}, {{}}}},
      {Div{}, {{{3, 4}}, {{3, 4}, 0.5, 2}}},
      {Div{}, {{{3, 1}}, {{1, 4}, 0.5, 2}}},
      {AddBias{}, {{{5, 7}}, {{7}}}},
      {AddBias{}, {{{2, 3, 4}}, {{4}}}},
      {Neg{}, {{{17}}}},
      {Relu{}, {{{5}, 0.1, 1}}},
      {Relu{}, {{{5}, -1, -0.1}}},
      {LeakyRelu{.negative_slope = 0.2}, {{{5}, -1, -0.1}}},
      {LeakyRelu{}, {{{5}, 0.1, 1}}},
      {Sigmoid{}, {{{17}, -4, 4}}},
      {Tanh{}, {{{17}, -3, 3}}},
      {Gelu{}, {{{17}, -3, 3}}},
      {Gelu{.form = GeluForm::Tanh}, {{{17}, -3, 3}}},
      {Exp{}, {{{17}, -3, 3}}},
      {Log{}, {{{17}, 0.5, 3}}},
      {Sqrt{}, {{{17}, 0.5, 3}}},
      {Clamp{.low = -1, .high = 1}, {{{5}, -0.9, 0.9}}},
      {Clamp{.low = -1, .high = 1}, {{{5}, 1.1, 2}}},
      {Reshape{.shape = {2, -1}}, {{{4, 3}}}},
      {Flatten{}, {{{2, 3, 2}}}},
      {Transpose{}, {{{3, 4}}}},
      {Transpose{.permutation = {1, 2, 0}}, {{{2, 3, 4}}}},
      {Sum{}, {{{3, 4}}}},
      {Sum{.axes = {1}}, {{{2, 3, 4}}}},
      {Sum{.axes = {0, -1}, .keep_dims = true}, {{{2, 3, 4}}}},
      {Mean{}, {{{3, 4}}}},
      {Mean{.axes = {-1}}, {{{2, 3, 4}}}},
      {Max{}, {{{3, 4}}}},
      {Max{.axes = {0, 2}}, {{{2, 3, 4}}}},
      {Softmax{}, {{{3, 5}, -2, 2}}},
      {Softmax{.axis = 0}, {{{3, 5}, -2, 2}}},
      {LogSoftmax{}, {{{3, 5}, -2, 2}}},
      {LogSoftmax{.axis = 1}, {{{2, 3, 4}, -2, 2}}},
      {SoftmaxCrossEntropy{}, {{{4, 5}, -2, 2}, {{4}, 0, 5, DType::S32}}},
      {SoftmaxCrossEntropy{.label_smoothing = 0.1}, {{{4, 5}, -2, 2}, {{4}, 0, 5, DType::S32}}},
      {MeanSquaredError{}, {{{5, 3}}, {{5, 3}}}},
      {Dropout{.rate = 0.4}, {{{67}}}},
      {Dropout{}, {{{67}}}, mode::eval},
      {Cast{.dtype = DType::F64}, {{{7}}}},
      // With quantizers off, FakeQuantize is the identity; its surrogates have tests of their
      // own.
      {FakeQuantize{.ste = Ste::ClippedIdentity}, {{{67}}}},
      {FakeQuantize{.axis = 0, .ste = Ste::Tanh, .scale_mode = EMA{}},
       {{{3, 5}}, {{3}, 0.1, 0.1, DType::F64, true}}},
      {FakeQuantizeLSQ{.axis = 0, .scheme = Scheme::Affine}, {{{3, 5}}, {{3}, 1, 2}, {{3}}}},
      {FakeQuantizePACT{}, {{{67}}, {{1}, 1, 2}}},
      {Parameter{.dtype = DType::F64, .shape = {3}}, {}},
  };
  return cases;
}

}  // namespace qtape::test
