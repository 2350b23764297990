#include "qtape/optim/clip.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "qtape/core/float_environment.h"
#include "qtape/core/settings.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/kernels/simd/vectorize.h"
#include "qtape/kernels/simd/versions.h"

namespace qtape {

using namespace kernels;
namespace {

constexpr int64_t clip_block = 4096;
// The sums of a region are on the stack, so nothing is allocated.
constexpr int64_t blocks_per_region = 512;
constexpr int64_t clip_grain = pointwise_grain / clip_block;
constexpr int64_t lanes = 16;

/// At most `clip_block` consecutive gradients of one entry.
struct Block {
  DType dtype;
  std::byte* gradient;
  int64_t n;
};

/// The gradients of trainable entries, without those that groups freeze.
struct Gradients {
  const Parameters& parameters;
  std::span<const ParameterGroup> groups;

  int64_t blocks_of(const ParameterEntry& entry) const {
    const ParameterGroup* group = group_of(groups, entry.name);
    if (!entry.trainable() || (group != nullptr && group->frozen)) return 0;
    return (entry.elements() + clip_block - 1) / clip_block;
  }
  int64_t count_blocks() const {
    int64_t count = 0;
    for (const ParameterEntry& entry : parameters.entries()) count += blocks_of(entry);
    return count;
  }
  /// Calls `visit(index, block)` for the blocks in [begin, end), in entry order.
  template <class Visit>
  void visit_blocks(int64_t begin, int64_t end, const Visit& visit) const {
    int64_t before = 0;
    for (const ParameterEntry& entry : parameters.entries()) {
      const int64_t count = blocks_of(entry);
      const int64_t size = size_of(entry.type.dtype);
      for (int64_t i = std::max(begin, before); i < std::min(end, before + count); ++i) {
        const int64_t start = (i - before) * clip_block;
        visit(i, Block{entry.type.dtype, entry.gradient + start * size,
                       std::min(clip_block, entry.elements() - start)});
      }
      before += count;
      if (before >= end) return;
    }
  }
};

/// Loop over the gradients of a block, one version per dtype. `x` is the result or the factor.
using Loop = void (*)(const Block*, double* x);

struct Loops {
  Loop f32;
  Loop f64;
  void operator()(const Block& block, double* x) const {
    (block.dtype == DType::F64 ? f64 : f32)(&block, x);
  }
};

/// *sum = sum of squares: element i is added to lane i mod 16, then halves are added.
template <class T>
Loop square_loop() {
  return simd::best<const Block*, double*>([](const Block* block, double* sum) {
    const T* g = reinterpret_cast<const T*>(block->gradient);
    const int64_t n = block->n;
    const int64_t even = n / lanes * lanes;
    double lane[lanes] = {};
    for (int64_t i = 0; i < even; i += lanes) {
      for (int64_t l = 0; l < lanes; ++l) {
        const auto x = static_cast<double>(g[i + l]);
        lane[l] += x * x;
      }
    }
    for (int64_t l = 0; l < n - even; ++l) {
      const auto x = static_cast<double>(g[even + l]);
      lane[l] += x * x;
    }
    for (int64_t width = lanes / 2; width > 0; width /= 2) {
      for (int64_t l = 0; l < width; ++l) lane[l] += lane[l + width];
    }
    *sum = lane[0];
  });
}

/// Multiplies in double, because a small factor may not be a normal number in f32.
template <class T>
Loop scale_loop() {
  return simd::best<const Block*, double*>([](const Block* block, double* factor) {
    T* g = reinterpret_cast<T*>(block->gradient);
    const double scale = *factor;
    const int64_t n = block->n;
    QTAPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) g[i] = static_cast<T>(static_cast<double>(g[i]) * scale);
  });
}

template <class T>
Loop clamp_loop() {
  return simd::best<const Block*, double*>([](const Block* block, double* bound) {
    T* g = reinterpret_cast<T*>(block->gradient);
    const T limit = static_cast<T>(*bound);
    const int64_t n = block->n;
    QTAPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) {
      const T above = g[i] < -limit ? -limit : g[i];
      g[i] = above > limit ? limit : above;
    }
  });
}

void run(const Gradients& gradients, const Loops& loops, double x, int threads) {
  parallel_for(threads, gradients.count_blocks(), 1, clip_grain,
               [&](int64_t begin, int64_t end) {
                 double argument = x;
                 gradients.visit_blocks(
                     begin, end, [&](int64_t, const Block& block) { loops(block, &argument); });
               });
}

}  // namespace

double gradient_norm(const Parameters& parameters, int threads,
                     std::span<const ParameterGroup> groups) {
  const FloatEnvironment floats;
  settings::require_at_least("gradient_norm", "threads", 1, threads);
  const Loops loops{square_loop<float>(), square_loop<double>()};
  const Gradients gradients{parameters, groups};
  const int64_t blocks = gradients.count_blocks();
  std::array<double, blocks_per_region> sums;
  double total = 0;
  for (int64_t first = 0; first < blocks; first += blocks_per_region) {
    const int64_t count = std::min(blocks_per_region, blocks - first);
    parallel_for(threads, count, 1, clip_grain, [&](int64_t begin, int64_t end) {
      gradients.visit_blocks(first + begin, first + end, [&](int64_t i, const Block& block) {
        loops(block, &sums[static_cast<size_t>(i - first)]);
      });
    });
    for (int64_t i = 0; i < count; ++i) total += sums[static_cast<size_t>(i)];
  }
  return std::sqrt(total);
}

double clip_by_norm(Parameters& parameters, double max_norm, int threads,
                    std::span<const ParameterGroup> groups) {
  const FloatEnvironment floats;
  settings::require_positive("clip_by_norm", "max_norm", max_norm);
  settings::require_at_least("clip_by_norm", "threads", 1, threads);
  const double norm = gradient_norm(parameters, threads, groups);
  if (!std::isfinite(norm) || norm <= max_norm) return norm;
  run({parameters, groups}, {scale_loop<float>(), scale_loop<double>()}, max_norm / norm,
      threads);
  return norm;
}

void clip_by_value(Parameters& parameters, double limit, int threads) {
  settings::require_positive("clip_by_value", "limit", limit);
  settings::require_at_least("clip_by_value", "threads", 1, threads);
  run({parameters, {}}, {clamp_loop<float>(), clamp_loop<double>()}, limit, threads);
}

}  // namespace qtape
