// Conformance vectors of the ops that have the arithmetic of TFLite's kernels.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "qtape/integer/program/integer_node.h"
#include "qtape/tests/support/conformance_builder.h"

namespace qtape::test {
namespace {

/// MeanPool of codes of all dtypes, most of them small, so that many means are ties.
ConformanceCase means_of_windows() {
  ConformanceBuilder b("mean-pool",
                       "MeanPool with strides and padding, over codes of all dtypes",
                       Requantization::DoubleRounding);
  Draws draws(14);
  using M = integer::MeanPool;
  const M same{{.kernel = {3, 3}, .stride = {1, 1}, .padding = Padding::Same}};
  const M uneven{{.kernel = {2, 3},
                  .stride = {2, 1},
                  .padding = Padding::Explicit,
                  .pads_begin = {1, 0},
                  .pads_end = {0, 2}}};
  for (const DType dtype : {DType::S8, DType::U8, DType::S16, DType::U16}) {
    const CodeGrid whole = whole_grid(dtype, 0.5, 17);
    std::vector<int64_t> codes;
    for (int64_t i = 0; i < 4 * 5 * 2; ++i) {
      codes.push_back(std::max<int64_t>(draws.integer(-5, 5), whole.low));
    }
    codes.resize(2 * codes.size(), whole.low);
    for (size_t i = codes.size() / 2; i < codes.size(); ++i) {
      codes[i] = draws.integer(whole.low, whole.high);
    }
    const std::string name(to_string_view(dtype));
    const ProgramNodeId x = b.codes(name, {2, 4, 5, 2}, whole, codes);
    for (const M& op : {M{}, same, uneven}) b.add(op, {x});
    const ProgramNodeId line = b.add(integer::Reshape{{.shape = {2, 20, 2}}}, {x});
    b.add(M{{.kernel = {4}, .stride = {3}, .padding = Padding::Same}}, {line});
  }
  return b.done();
}

/// Softmax of rows of all lengths, by scales from the least that is taken to one that leaves
/// only the largest codes.
ConformanceCase softmax_of_rows() {
  ConformanceBuilder b("softmax", "Softmax of rows of codes of small, usual and large scales",
                       Requantization::DoubleRounding);
  Draws draws(15);
  int inputs = 0;
  for (const double scale : {0x1.8p-26, 0x1p-8, double{0.05f}, double{0.2f}, 3.0, 0x1p40}) {
    const auto x = [&](const Shape& shape, int32_t zero_point, std::vector<int64_t> first) {
      return b.random_codes(draws, fmt::format("x{}", inputs++), shape,
                            whole_grid(DType::S8, scale, zero_point), std::move(first));
    };
    const ProgramNodeId rows = x({3, 10}, 5, {-128, 127, -128, 126, 125, 120, 110, 90, 0, -1});
    b.add(integer::Softmax{}, {rows});
    b.add(integer::Softmax{.beta = 1.7}, {rows});
    b.add(integer::Softmax{}, {x({2, 2, 1}, -128, {})});
    b.add(integer::Softmax{}, {x({64}, 0, {7, 7, 7, 6, 5})});
  }
  // The sum of exponentials is 600.
  const std::vector<int64_t> equal(600, -3);
  b.add(integer::Softmax{}, {b.codes("equal", {1, 600}, whole_grid(DType::S8, 0.5), equal)});
  return b.done();
}

/// Products whose scale in f32 makes ties of what are none.
ConformanceCase scales_in_f32() {
  ConformanceBuilder b("f32-scales", "Linear with the product of its scales rounded to f32",
                       Requantization::DoubleRounding);
  Draws draws(16);
  const float above = 1.0f + 300 * 0x1p-23f;
  const float below = 1.0f - 300 * 0x1p-23f;
  const ProgramNodeId x =
      b.random_codes(draws, "x", {8, 6}, whole_grid(DType::S8, double{above}, -4));
  std::vector<int8_t> codes;
  for (int i = 0; i < 5 * 6; ++i) codes.push_back(static_cast<int8_t>(draws.integer(-9, 9)));
  const std::vector<int32_t> bias = {1, -2, 3, -4, 5};
  for (const std::vector<float>& scales :
       {std::vector{below}, std::vector{below, 0.1f, 0.7f * below, below, 3 * below}}) {
    for (const bool f32 : {false, true}) {
      const ProgramNodeId y = b.add(
          integer::Linear{pack_weights(codes, {5, 6}, 8, scales, bias, b.value(x)), f32}, {x});
      b.requantize(y, {whole_grid(DType::S16, 2, 7), whole_grid(DType::S8, 4, -3)});
    }
  }
  return b.done();
}

}  // namespace

std::vector<ConformanceCase> tflite_cases() {
  std::vector<ConformanceCase> all;
  all.push_back(means_of_windows());
  all.push_back(softmax_of_rows());
  all.push_back(scales_in_f32());
  return all;
}

}  // namespace qtape::test
