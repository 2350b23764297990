#include "qtape/ops/softmax_cross_entropy.h"

#include <algorithm>

#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/versions.h"
#include "qtape/ops/families/softmax_kernels.h"

namespace qtape {

using namespace kernels;
namespace {

/// Parameters of both kernels.
struct Problem {
  int64_t rows = 0;
  int64_t classes = 0;
  double on_label = 1;  // weight of the label itself: 1 - e
  double uniform = 0;   // e / classes

  bool has(int32_t label) const { return label >= 0 && label < classes; }
  /// Minimum number of rows per thread: an exponential costs about four pointwise elements.
  int64_t grain() const { return std::max<int64_t>(1, pointwise_grain / (4 * classes)); }
};

Problem problem_of(const SoftmaxCrossEntropy& op, const Shape& logits) {
  const double e = op.label_smoothing;
  return {logits[0], logits[1], 1.0 - e, e / static_cast<double>(logits[1])};
}

/// Computes p = softmax(x) for rows [begin, end), with sums[r] = sum_j exp(x_j - peak) and
/// dots[r] = sum_j t_j (x_j - peak). The loss of a row is log(sum) - dot.
template <class T>
auto probability_loop() {
  return simd::best_for<T, const Problem*, const T*, const int32_t*, T*, double*, double*,
                        int64_t, int64_t>(
      [](const Problem* problem, const T* logits, const int32_t* labels, T* probabilities,
         double* sums, double* dots, int64_t begin, int64_t end) {
        const int64_t n = problem->classes;
        for (int64_t r = begin; r < end; ++r) {
          const T* x = logits + r * n;
          T* p = probabilities + r * n;
          const double peak = softmax::largest(x, n);
          const double sum = softmax::exponentials(x, peak, p, n);
          softmax::scale(p, 1.0 / sum, n);
          const bool valid = problem->has(labels[r]);
          double dot = valid ? problem->on_label * (double{x[labels[r]]} - peak) : 0.0;
          if (valid && problem->uniform > 0) {
            dot += problem->uniform *
                   softmax::sum_of(n, [&](int64_t i) { return double{x[i]} - peak; });
          }
          sums[r] = valid ? sum : 1.0;
          dots[r] = dot;
        }
      });
}

/// losses[r] = log(losses[r]) - dots[r].
auto loss_loop() {
  return simd::best<double*, const double*, int64_t>(
      [](double* losses, const double* dots, int64_t rows) {
        QTAPE_INDEPENDENT
        for (int64_t r = 0; r < rows; ++r) losses[r] = math::log(losses[r]) - dots[r];
      });
}

/// dlogits (+)= factor (p - t) for rows [begin, end).
template <class T, bool accumulate>
auto gradient_loop() {
  return simd::best_for<T, const Problem*, const T*, const int32_t*, T*, double, int64_t,
                        int64_t>([](const Problem* problem, const T* probabilities,
                                    const int32_t* labels, T* gradients, double factor,
                                    int64_t begin, int64_t end) {
    const int64_t n = problem->classes;
    for (int64_t r = begin; r < end; ++r) {
      const T* p = probabilities + r * n;
      T* dx = gradients + r * n;
      const int32_t label = labels[r];
      const bool valid = problem->has(label);
      const double weight = valid ? factor : 0.0;
      const double uniform = problem->uniform;
      const T before = accumulate && valid ? dx[label] : T(0);
      QTAPE_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) {
        const T gradient = static_cast<T>(weight * (double{p[i]} - uniform));
        dx[i] = accumulate ? dx[i] + gradient : gradient;
      }
      if (!valid) continue;
      const double target = problem->on_label + uniform;
      dx[label] = before + static_cast<T>(weight * (double{p[label]} - target));
    }
  });
}

void report_labels(const Problem& problem, const int32_t* labels, int64_t first, Fault& fault) {
  for (int64_t r = 0; r < problem.rows && fault.text == nullptr; ++r) {
    if (problem.has(labels[r])) continue;
    fault = {"label {value} at row {index} is outside the classes", first + r,
             static_cast<double>(labels[r])};
  }
}

}  // namespace

static_assert(Compute<SoftmaxCrossEntropy>);

TensorType SoftmaxCrossEntropy::infer(Inputs inputs) const {
  const TensorType& logits = inputs[0];
  const TensorType& labels = inputs[1];
  check_compute(logits);
  check(labels.dtype == DType::S32, "labels must be s32, got {}", to_string_view(labels.dtype));
  check(logits.shape.rank() == 2, "logits must be [n, classes], got {}",
        to_string(logits.shape));
  check(logits.shape[0] >= 1 && logits.shape[1] >= 1,
        "n and classes must be at least 1, got logits {}", to_string(logits.shape));
  check(labels.shape == Shape{logits.shape[0]}, "labels must be [{}], one per row, got {}",
        logits.shape[0], to_string(labels.shape));
  check(label_smoothing >= 0.0 && label_smoothing < 1.0,
        "label_smoothing must be in [0, 1), got {}", label_smoothing);
  return {logits.dtype, Shape{}};
}

Kernel SoftmaxCrossEntropy::forward(const Binding& b) const {
  const Problem problem = problem_of(*this, b.inputs[0].shape);
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    auto* losses = reinterpret_cast<double*>(b.scratch);
    return [problem, losses, loop = probability_loop<T>(), finish = loss_loop(),
            logits = b.operand<const T>(0), labels = b.operand<const int32_t>(1), y = b.y<T>(),
            probabilities = reinterpret_cast<T*>(b.saved), first = b.first_sample,
            status = b.status, threads = b.threads](const Step&) {
      const int64_t n = problem.rows;
      parallel_for(threads, n, 1, problem.grain(), [&](int64_t begin, int64_t end) {
        loop(&problem, logits, labels, probabilities, losses, losses + n, begin, end);
      });
      finish(losses, losses + n, n);
      double sum = 0;
      for (int64_t r = 0; r < n; ++r) sum += losses[r];
      y[0] = static_cast<T>(sum / static_cast<double>(n));
      report_labels(problem, labels, first, status->fault);
    };
  });
}

Kernel SoftmaxCrossEntropy::backward(const Binding& b) const {
  if (!b.wanted(0)) return {};
  const Problem problem = problem_of(*this, b.inputs[0].shape);
  return dispatch_compute(b.output.dtype, [&]<class T>() -> Kernel {
    const auto loop = b.accumulate(0) ? gradient_loop<T, true>() : gradient_loop<T, false>();
    return [problem, loop, probabilities = reinterpret_cast<const T*>(b.saved),
            labels = b.operand<const int32_t>(1), dy = b.dy_as<const T>(), dx = b.dx<T>(0),
            threads = b.threads](const Step&) {
      const double factor = double{*dy} / static_cast<double>(problem.rows);
      const int64_t grain = std::max<int64_t>(1, pointwise_grain / problem.classes);
      parallel_for(threads, problem.rows, 1, grain, [&](int64_t begin, int64_t end) {
        loop(&problem, probabilities, labels, dx, factor, begin, end);
      });
    };
  });
}

}  // namespace qtape
