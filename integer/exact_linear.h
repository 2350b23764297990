// Products of codes, exact for every input: in f32 where no sum can leave 24 bits, else in
// parts or in integers.
#pragma once

#include <functional>
#include <vector>

#include "qtape/core/aligned.h"
#include "qtape/ops/core/op.h"

namespace qtape {

/// accumulators [m, n] = x w^T with codes x [m, k] and codes of fake-quantized weights, which
/// change from step to step.
class ExactProduct {
 public:
  struct Extents {
    int64_t m = 0;
    int64_t n = 0;
    int64_t k = 0;
    bool transpose = false;  ///< weights are stored [n, k], else [k, n]
  };

  /// `x`: codes less their zero point, at most `limit` from 0. `weights`: multiples of
  /// `scales`.
  ExactProduct(const Extents& extents, const float* x, int64_t limit, const ScaleSource& scales,
               const float* weights, int threads);

  /// Takes over this step's weights; false where there is a NaN among them.
  bool load_weights();
  /// Within a SerialLibraries.
  void run(std::vector<int64_t>& accumulators);

 private:
  bool load_rows(float* codes);
  bool load_columns(float* codes);
  void split_inputs();
  void run_plain(std::vector<int64_t>& accumulators) const;

  Extents extents_;
  const float* x_;
  int64_t limit_;
  ScaleSource scales_;
  const float* weights_;
  int threads_;
  AlignedBuffer codes_;              // of the weights, f32, as they are stored
  AlignedBuffer high_, low_;         // x = 256 high + low
  AlignedBuffer first_, second_;     // products
  std::vector<float> inverses_;      // of each output: 1 / scale
  std::vector<int32_t> magnitudes_;  // of each output: sum of its weights' magnitudes
  int64_t largest_ = 0;              // of the magnitudes
  void (*row_loop_)(const float*, float*, int64_t, float, int64_t*);
  void (*column_loop_)(const float*, float*, int64_t, const float*, int32_t*, bool*);
  std::function<void()> whole_, upper_, lower_;
};

}  // namespace qtape
