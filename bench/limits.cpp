#include "qtape/bench/limits.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "qtape/core/aligned.h"
#include "qtape/kernels/onednn/gemm.h"
#include "qtape/kernels/onednn/onednn.h"
#include "qtape/kernels/simd/threads.h"

namespace qtape::bench {
namespace {

using dnnl::memory;
using Seconds = std::chrono::duration<double>;

/// Returns the wall time of `work(thread)` in all threads at once.
double time_threads(int threads, const std::function<void(int)>& work) {
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::jthread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back([&work, t] { work(t); });
  work(0);
  others.clear();
  return Seconds(std::chrono::steady_clock::now() - begin).count();
}

double measure_copy(int threads, int rounds) {
  constexpr int64_t bytes = int64_t{1} << 26;
  std::vector<AlignedBuffer> from;
  std::vector<AlignedBuffer> to;
  for (int t = 0; t < threads; ++t) {
    from.emplace_back(bytes);
    to.emplace_back(bytes);
    std::memset(from.back().data(), 1, bytes);
    std::memset(to.back().data(), 2, bytes);
  }
  double best = 0;
  for (int round = 0; round < rounds; ++round) {
    const double time = time_threads(threads, [&](int t) {
      const auto i = static_cast<size_t>(t);
      std::memcpy(to[i].data(), from[i].data(), bytes);
    });
    best = std::max(best, 2.0 * bytes * threads / time);
  }
  return best;
}

/// A square product that fits the second-level cache, one per thread.
class PeakProduct {
 public:
  PeakProduct(memory::data_type a, memory::data_type b, memory::data_type c)
      : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    const memory::dims shape{extent, extent};
    const memory::desc a_desc(shape, a, memory::format_tag::ab);
    const memory::desc c_desc(shape, c, memory::format_tag::ab);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::library);
    const auto pd = kernels::describe_matmul(
        engine_, a_desc, memory::desc(shape, b, memory::format_tag::any), c_desc, attributes);
    primitive_ = dnnl::matmul(pd);
    arguments_ = {{DNNL_ARG_SRC, memory(pd.src_desc(), engine_)},
                  {DNNL_ARG_WEIGHTS, memory(pd.weights_desc(), engine_)},
                  {DNNL_ARG_DST, memory(pd.dst_desc(), engine_)}};
    for (auto& [name, each] : arguments_) {
      std::memset(each.get_data_handle(), 0, each.get_desc().get_size());
    }
  }

  static constexpr int64_t extent = 384;
  static constexpr double operations = 2.0 * extent * extent * extent;

  void run() {
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::matmul primitive_;
  std::unordered_map<int, memory> arguments_;
};

double measure_products(int threads, int rounds, memory::data_type a, memory::data_type b,
                        memory::data_type c) {
  constexpr int repetitions = 40;
  std::vector<std::unique_ptr<PeakProduct>> products;
  for (int t = 0; t < threads; ++t) products.push_back(std::make_unique<PeakProduct>(a, b, c));
  double best = 0;
  for (int round = 0; round < rounds; ++round) {
    const double time = time_threads(threads, [&](int t) {
      const kernels::ComputingThread serial;
      for (int i = 0; i < repetitions; ++i) products[static_cast<size_t>(t)]->run();
    });
    best = std::max(best, threads * repetitions * PeakProduct::operations / time);
  }
  return best;
}

}  // namespace

Limits measure_limits(int threads, int rounds) {
  using Type = memory::data_type;
  Limits limits{.copy = measure_copy(threads, rounds),
                .f32 = measure_products(threads, rounds, Type::f32, Type::f32, Type::f32)};
  if (kernels::has_bf16_products()) {
    limits.bf16 = measure_products(threads, rounds, Type::bf16, Type::bf16, Type::f32);
  }
  limits.int8 = measure_products(threads, rounds, Type::u8, Type::s8, Type::s32);
  return limits;
}

}  // namespace qtape::bench
