// Import of attention as PyTorch writes it: the batch beside the positions, or beside the
// heads.
#include <doctest/doctest.h>

#include <array>

#include "qtape/tests/onnx/onnx_model.h"

using namespace qtape;
using namespace qtape::test::onnx_models;

namespace {

constexpr int64_t positions = 3, channels = 4, heads = 2, each = channels / heads;

Numbers drawn(int64_t count, int64_t step) {
  Numbers all;
  for (int64_t k = 0; k < count; ++k) {
    all.push_back(static_cast<float>((k * step + 3) % 17) / 8 - 1);
  }
  return all;
}

/// Extents of a Reshape: numbers, and multiples of the batch as strings.
struct HeadShapes {
  bool fixed;

  /// Adds [positions, batch rows, rest...] as a constant, or computed from the extents of `s`.
  OnnxInput beside(OnnxModel& model, int64_t rows, const Extents& rest) const {
    Extents all = {positions, rows};
    all.insert(all.end(), rest.begin(), rest.end());
    if (fixed) return ints(all);
    return computed(model, rows, ints({positions}), ints(rest));
  }
  /// Adds [positions * batch, channels].
  OnnxInput joined(OnnxModel& model) const {
    if (fixed) return ints({positions, channels});
    return computed(model, positions, {}, ints({channels}));
  }

 private:
  static OnnxInput computed(OnnxModel& model, int64_t rows,
                            const std::optional<onnx::TensorProto>& first,
                            const onnx::TensorProto& rest) {
    const std::string name = fmt::format("shape{}", model.graph().node_size());
    model.node("Shape", {"s"}, {name + ".dims"})
        .node("Gather", {name + ".dims", ints({1})}, {name + ".n"})
        .node("Mul", {name + ".n", ints({rows})}, {name + ".rows"});
    OnnxInputs parts;
    if (first) parts.emplace_back(*first);
    parts.emplace_back(name + ".rows");
    parts.emplace_back(rest);
    model.node("Concat", parts, {name}).with("axis", 0);
    return name;
  }
};

/// Self-attention over x [batch, positions, channels]; `by_four_axes`: heads have an axis of
/// their own, as from scaled_dot_product_attention.
OnnxModel attention(bool fixed, bool by_four_axes, const std::array<Numbers, 4>& weights) {
  const HeadShapes shapes{fixed};
  OnnxModel model({fixed ? 1 : -1, positions, channels});
  model.transposed("x", {1, 0, 2}, "s");
  const char* names[] = {"q", "k", "v"};
  for (size_t i = 0; i < 3; ++i) {
    const std::string name = names[i];
    model.node("MatMul", {"s", floats({channels, channels}, weights[i])}, {name + ".all"});
    const OnnxInput split = shapes.beside(model, heads, {each});
    model.node("Reshape", {name + ".all", split}, {name + ".split"})
        .transposed(name + ".split", {1, 0, 2}, name + ".first");
    if (!by_four_axes) continue;
    const Extents four = {fixed ? 1 : -1, heads, positions, each};
    model.node("Reshape", {name + ".first", ints(four)}, {name + ".heads"});
  }
  const std::string end = by_four_axes ? ".heads" : ".first";
  model.transposed("k" + end, by_four_axes ? Extents{0, 1, 3, 2} : Extents{0, 2, 1}, "kt")
      .node("MatMul", {"q" + end, "kt"}, {"scores"})
      .node("Softmax", {"scores"}, {"shares"})
      .node("MatMul", {"shares", "v" + end}, {"mixed"})
      .transposed("mixed", by_four_axes ? Extents{2, 0, 1, 3} : Extents{1, 0, 2}, "back");
  const OnnxInput joined = shapes.joined(model);
  model.node("Reshape", {"back", joined}, {"rows"})
      .node("Gemm", {"rows", floats({channels, channels}, weights[3])}, {"out"});
  const OnnxInput split = shapes.beside(model, 1, {channels});
  model.node("Reshape", {"out", split}, {"t"}).transposed("t", {1, 0, 2});
  return model;
}

/// Returns x [rows, channels] times w.
std::vector<double> product(const std::vector<double>& x, const Numbers& w) {
  std::vector<double> y(x.size(), 0);
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t row = i / channels * channels, column = i % channels;
    for (size_t t = 0; t < channels; ++t) y[i] += x[row + t] * double{w[t * channels + column]};
  }
  return y;
}

std::vector<double> expected_of(const Numbers& x, const std::array<Numbers, 4>& weights) {
  const std::vector<double> from(x.begin(), x.end());
  const auto q = product(from, weights[0]), k = product(from, weights[1]),
             v = product(from, weights[2]);
  std::vector<double> y(x.size(), 0);
  const auto samples = std::ssize(x) / (positions * channels);
  for (int64_t n = 0; n < samples; ++n) {
    for (int64_t h = 0; h < heads; ++h) {
      const auto at = [&](int64_t p, int64_t c) {
        return static_cast<size_t>((n * positions + p) * channels + h * each + c);
      };
      for (int64_t i = 0; i < positions; ++i) {
        std::array<double, positions> share{};
        double sum = 0;
        for (int64_t j = 0; j < positions; ++j) {
          double score = 0;
          for (int64_t c = 0; c < each; ++c) score += q[at(i, c)] * k[at(j, c)];
          sum += share[static_cast<size_t>(j)] = std::exp(score);
        }
        for (int64_t j = 0; j < positions; ++j) {
          for (int64_t c = 0; c < each; ++c) {
            y[at(i, c)] += share[static_cast<size_t>(j)] / sum * v[at(j, c)];
          }
        }
      }
    }
  }
  return product(y, weights[3]);
}

}  // namespace

TEST_CASE("onnx: attention with the batch beside positions and heads") {
  const std::array<Numbers, 4> weights = {drawn(16, 5), drawn(16, 7), drawn(16, 11),
                                          drawn(16, 13)};
  const Numbers x = drawn(2 * positions * channels, 6);
  for (const bool fixed : {false, true}) {
    for (const bool by_four_axes : {false, true}) {
      CAPTURE(fixed);
      CAPTURE(by_four_axes);
      check_close(answer(attention(fixed, by_four_axes, weights), x, 2),
                  expected_of(x, weights));
    }
  }
}

TEST_CASE(
    "onnx: heads that do not divide the channels, and rows of other samples, are refused") {
  const auto reshaped = [](const Extents& to) {
    return OnnxModel({2, 3, 6})
        .transposed("x", {1, 0, 2}, "s")
        .node("Reshape", {"s", ints(to)});
  };
  CHECK(error_of(reshaped({3, 8, 3})).find("would mix samples") != std::string::npos);
  CHECK(error_of(reshaped({3, 3, 4})).find("would mix samples") != std::string::npos);
  CHECK(error_of(reshaped({2, 6, 3})).find("would mix samples") != std::string::npos);
}

TEST_CASE("onnx: extents whose product overflows are refused") {
  constexpr int64_t large = int64_t{1} << 40;
  const OnnxModel model = OnnxModel({1, 3, 6})
                              .transposed("x", {1, 2, 0}, "s")
                              .node("Reshape", {"s", ints({large, large, 2})});
  refused(model,
          "node 'the Reshape' (Reshape): extents 1099511627776 and 1099511627776 exceed the "
          "largest tensor");
}

TEST_CASE("onnx: Split of values whose batch is not the first axis") {
  const Numbers x = drawn(2 * 2 * 3, 5);
  const OnnxModel model = OnnxModel({-1, 2, 3})
                              .transposed("x", {1, 0, 2}, "s")
                              .integers("sizes", {1, 1})
                              .node("Split", {"s", "sizes"}, {"a", "b"})
                              .with("axis", 0)
                              .node("Sub", {"a", "b"}, {"d"})
                              .transposed("d", {1, 0, 2}, "t")
                              .node("Flatten", {"t"});
  std::vector<double> expected;
  for (size_t n = 0; n < 2; ++n) {
    for (size_t c = 0; c < 3; ++c) {
      expected.push_back(double{x[n * 6 + c]} - double{x[n * 6 + 3 + c]});
    }
  }
  check_close(answer(model, x, 2), expected);
  refused(OnnxModel({-1, 2, 3})
              .transposed("x", {1, 0, 2}, "s")
              .integers("sizes", {2, 1})
              .node("Split", {"s", "sizes"}, {"y", "b"})
              .with("axis", 2)
              .input(1, "three")
              .integers("three", {2, 2}),
          "node 'the Split' (Split): [2, 2] does not split an extent of 3 among 2 outputs");
}

namespace {

/// An array of two samples whose axes have labels.
struct Labelled {
  std::string labels;
  std::vector<double> values;
};

int64_t extent_of(char label) { return label == 'b' ? 2 : label == 'i' ? 2 : 3; }

int64_t elements_of(const std::string& labels) {
  int64_t all = 1;
  for (const char c : labels) all *= extent_of(c);
  return all;
}

/// The place in an array with `labels` of the indices that element `at` of one with `all` has.
size_t place_of(const std::string& labels, const std::string& all, int64_t at) {
  std::array<int64_t, 128> index{};
  for (auto c = all.rbegin(); c != all.rend(); ++c) {
    index[static_cast<size_t>(*c)] = at % extent_of(*c);
    at /= extent_of(*c);
  }
  int64_t place = 0;
  for (const char c : labels) place = place * extent_of(c) + index[static_cast<size_t>(c)];
  return static_cast<size_t>(place);
}

/// Sums the products of elements of `x` and `z` over the labels that `labels` lacks.
std::vector<double> summed(const Labelled& x, const Labelled& z, const std::string& labels) {
  std::string all = labels;
  for (const char c : x.labels + z.labels) {
    if (all.find(c) == std::string::npos) all += c;
  }
  std::vector<double> y(static_cast<size_t>(elements_of(labels)), 0);
  for (int64_t at = 0; at < elements_of(all); ++at) {
    y[place_of(labels, all, at)] +=
        x.values[place_of(x.labels, all, at)] * z.values[place_of(z.labels, all, at)];
  }
  return y;
}

}  // namespace

TEST_CASE("onnx: Einsum of two values, whatever they share") {
  const Numbers x = drawn(2 * 2 * 3, 5);
  const Labelled one{"", {1}};
  const Labelled whole{"bij", {x.begin(), x.end()}};
  const Labelled rows{"bi", summed(whole, one, "bi")}, columns{"bj", summed(whole, one, "bj")};
  struct Row {
    const char* equation;
    const Labelled& left;
    const Labelled& right;
    const char* result;
  };
  for (const Row& row :
       {Row{"bij,bj->bi", whole, columns, "bi"}, Row{"bi,bij->bj", rows, whole, "bj"},
        Row{"bij,bij->b", whole, whole, "b"}, Row{"bij,bij->bj", whole, whole, "bj"},
        Row{"bij,bij->bji", whole, whole, "bji"}, Row{"bi,bj->bji", rows, columns, "bji"},
        Row{"bij,bi->bji", whole, rows, "bji"}, Row{"bi,bi->b", rows, rows, "b"}}) {
    CAPTURE(row.equation);
    const auto name = [&](const Labelled& operand) {
      return std::string(&operand == &whole ? "x" : &operand == &rows ? "r" : "c");
    };
    OnnxModel model({-1, 2, 3});
    model.node("ReduceSum", {"x", ints({2})}, {"r"}).with("keepdims", 0);
    model.node("ReduceSum", {"x", ints({1})}, {"c"}).with("keepdims", 0);
    model.node("Einsum", {name(row.left), name(row.right)}).with("equation", row.equation);
    check_close(answer(model, x, 2), summed(row.left, row.right, row.result));
  }
  refused(OnnxModel({-1, 2, 3})
              .node("ReduceSum", {"x", ints({1})}, {"c"})
              .with("keepdims", 0)
              .node("Einsum", {"x", "c"})
              .with("equation", "bij,bi->bj"),
          "node 'the Einsum' (Einsum): the axes 'i' of [1, 2, 3] and [1, 3] differ");
}

TEST_CASE("onnx: queries that are the same for each sample") {
  const Numbers x = drawn(2 * 4 * 3, 5), queries = drawn(2 * 3, 7), weights = drawn(3 * 3, 4);
  // The products of queries W and each row of x.
  std::vector<double> expected;
  for (size_t n = 0; n < 2; ++n) {
    for (size_t q = 0; q < 2; ++q) {
      for (size_t row = 0; row < 4; ++row) {
        double sum = 0;
        for (size_t i = 0; i < 9; ++i) {
          sum += double{queries[q * 3 + i / 3]} * double{weights[i]} *
                 double{x[n * 12 + row * 3 + i % 3]};
        }
        expected.push_back(sum);
      }
    }
  }
  const auto model_of = [&](int64_t samples, Numbers repeated) {
    OnnxModel model({samples, 4, 3});
    if (samples > 0) {
      model.node("Identity", {floats({samples, 2, 3}, std::move(repeated))}, {"queries"});
    } else {
      model.node("Shape", {"x"}, {"dims"}).node("Gather", {"dims", ints({0})}, {"n"});
      model.node("Concat", {"n", ints({1, 1})}, {"to"}).with("axis", 0);
      model.node("Expand", {floats({1, 2, 3}, queries), "to"}, {"queries"});
    }
    model.transposed("queries", {1, 0, 2}, "first");
    model.node("MatMul", {"first", floats({3, 3}, weights)}, {"mixed"});
    model.transposed("mixed", {1, 0, 2}, "q").transposed("x", {0, 2, 1}, "columns");
    model.node("MatMul", {"q", "columns"});
    return model;
  };
  Numbers twice = queries;
  twice.insert(twice.end(), queries.begin(), queries.end());
  check_close(answer(model_of(-1, {}), x, 2), expected);
  check_close(answer(model_of(1, queries), x, 2), expected);
  check_close(answer(model_of(2, twice), x, 2), expected);
  twice[0] += 1;
  refused(model_of(2, twice), "node 'the MatMul' (MatMul): input 0 must be a matrix of floats");
  // Four rows of x for each of this number of samples have no number in 64 bits.
  OnnxModel many({int64_t{1} << 62, 4, 3});
  many.node("Reshape", {"x", ints({-1, 3, 1})}, {"columns"});
  many.node("MatMul", {floats({4, 2, 3}, drawn(24, 3)), "columns"});
  refused(many, "node 'the MatMul' (MatMul): input 0 must be a matrix of floats");
}

TEST_CASE("onnx: products whose heads share a matrix") {
  const Numbers x = drawn(2 * 2 * 3, 5);  // [b, i, j]
  for (const bool left : {false, true}) {
    CAPTURE(left);
    // [b, i, 1, j] times [b, 1, j, 3], whose columns are the rows of x and their sum.
    OnnxModel model({-1, 2, 3});
    model.node("Unsqueeze", {"x", ints({2})}, {"heads"});
    model.node("ReduceSum", {"x", ints({1})}, {"sum"}).with("keepdims", 1);
    model.node("Concat", {"x", "sum"}, {"rows"}).with("axis", 1);
    model.node("Unsqueeze", {"rows", ints({1})}, {"shared"});
    if (!left) model.transposed("shared", {0, 1, 3, 2}, "columns");
    if (left) model.transposed("heads", {0, 1, 3, 2}, "column");
    model.node("MatMul", left ? OnnxInputs{"shared", "column"} : OnnxInputs{"heads", "columns"},
               {"p"});
    model.node("Flatten", {"p"});
    std::vector<double> expected;
    for (size_t n = 0; n < 2; ++n) {
      for (size_t h = 0; h < 2; ++h) {
        for (size_t r = 0; r < 3; ++r) {
          double sum = 0;
          for (size_t j = 0; j < 3; ++j) {
            const double first = x[n * 6 + j], second = x[n * 6 + 3 + j];
            sum += double{x[n * 6 + h * 3 + j]} * (r == 0   ? first
                                                   : r == 1 ? second
                                                            : first + second);
          }
          expected.push_back(sum);
        }
      }
    }
    check_close(answer(model, x, 2), expected);
  }
}

TEST_CASE("onnx: values that are stacked before the samples") {
  const Numbers x = drawn(2 * 3, 5);  // two samples [3]
  OnnxModel model({-1, 3});
  model.node("Relu", {"x"}, {"a"}).node("Neg", {"x"}, {"b"});
  for (const char* value : {"a", "b"}) {
    model.node("Unsqueeze", {value, ints({0})}, {std::string(value) + "1"});
  }
  model.node("Concat", {"a1", "b1"}, {"all"}).with("axis", 0);
  model.node("ReduceMean", {"all"}).with("axes", Extents{0}).with("keepdims", 0);
  std::vector<double> expected;
  for (const float value : x) expected.push_back((std::max(value, 0.0f) - double{value}) / 2);
  check_close(answer(model, x, 2), expected);
}

TEST_CASE("onnx: sequences first, and reductions of them") {
  const Numbers x = drawn(2 * 2 * 3, 5);  // two samples [2, 3]
  for (const bool keeps : {false, true}) {
    CAPTURE(keeps);
    OnnxModel model({2, -1, 3});
    model.node("ReduceMean", {"x"}, {"m"}).with("axes", Extents{0}).with("keepdims", keeps);
    if (keeps) {
      model.transposed("m", {1, 0, 2}, "t").node("Flatten", {"t"});
    } else {
      model.node("Relu", {"m"});
    }
    std::vector<double> expected;
    for (size_t n = 0; n < 2; ++n) {
      for (size_t c = 0; c < 3; ++c) {
        const double mean = (double{x[n * 6 + c]} + double{x[n * 6 + 3 + c]}) / 2;
        expected.push_back(keeps ? mean : std::max(0.0, mean));
      }
    }
    check_close(answer(model, x, 2), expected);
  }
  refused(OnnxModel({2, -1, 3}).node("ReduceMean", {"x"}).with("axes", Extents{1}),
          "node 'the ReduceMean' (ReduceMean): axis 1 would join samples");
}
