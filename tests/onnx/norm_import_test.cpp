// Norms of ONNX models: operators, and the nodes by which exporters write them.
#include <cmath>
#include <functional>

#include "qtape/tests/onnx/onnx_model.h"

using namespace qtape;
using namespace qtape::test::onnx_models;

namespace {

/// Adds a reduction with its axes as an attribute; returns the name of its output.
std::string reduced(OnnxModel& model, const char* op, const std::string& x,
                    const Extents& axes) {
  const std::string y = model.apply(op, {x});
  model.with("axes", axes);
  return y;
}

/// Returns the model whose output y is the value `last`.
OnnxModel ended(OnnxModel model, const std::string& last) {
  for (onnx::NodeProto& each : *model.graph().mutable_node()) {
    if (each.output(0) == last) each.set_output(0, "y");
  }
  return model;
}

/// Normalizes the elements of x [n, c, p] that share a set, as ONNX has them in memory.
struct Expected {
  int64_t c = 1, p = 1;  // channels, and places of each
  std::function<int64_t(int64_t channel, int64_t place)> set;
  double eps = 1e-5;
  bool centered = true;
  bool unit = false;  // divided by max(norm, eps)
  std::function<double(int64_t channel, int64_t place)> gamma = {};
  std::function<double(int64_t channel, int64_t place)> beta = {};

  std::vector<double> of(const std::vector<float>& x) const {
    std::vector<double> y(x.size());
    const int64_t sample = c * p;
    for (int64_t i = 0; i < std::ssize(x); ++i) {
      const int64_t at = i % sample;
      double n = 0, sum = 0, squares = 0;
      const auto each = [&](const auto& body) {
        for (int64_t j = 0; j < sample; ++j) {
          if (set(j / p, j % p) == set(at / p, at % p)) {
            body(double{x[static_cast<size_t>(i - at + j)]});
          }
        }
      };
      each([&](double v) { ++n, sum += v; });
      const double mean = centered ? sum / n : 0;
      each([&](double v) { squares += (v - mean) * (v - mean); });
      const double divisor =
          unit ? std::max(std::sqrt(squares), eps) : std::sqrt(squares / n + eps);
      const double h = (double{x[static_cast<size_t>(i)]} - mean) / divisor;
      y[static_cast<size_t>(i)] =
          h * (gamma ? gamma(at / p, at % p) : 1) + (beta ? beta(at / p, at % p) : 0);
    }
    return y;
  }
};

/// Checks that the model is one op of `name` beside views, and gives what is expected.
void check_norm(const OnnxModel& norm, std::string_view name, const Expected& expected) {
  const SavedModel model = norm.imported();
  int64_t found = 0;
  for (const NodeId id : ids(model.graph)) {
    const std::string_view op = name_of(model.graph[id].op);
    found += op == name ? 1 : 0;
    const std::vector<std::string_view> others = {"Input",   "Parameter", "Constant",
                                                  "Reshape", "Transpose", name};
    CAPTURE(op);
    CHECK(std::ranges::count(others, op) == 1);
  }
  CHECK(found == 1);
  constexpr int64_t samples = 3;
  Parameters parameters = parameters_of(model);
  Tape tape(model.graph.with_batch(samples), parameters, {});
  const auto x = tape.input<float>("x");
  const int64_t c = expected.c, p = expected.p;
  std::vector<float> onnx_x(x.size());
  // Place of ONNX element i in a value of the library.
  const auto place = [&](NodeId id, size_t i) {
    const Shape& shape = model.graph[id].type.shape;
    const auto at = static_cast<int64_t>(i);
    const int64_t in = at % (c * p);
    const bool last = shape.rank() == 4 && shape[-1] == c;
    return static_cast<size_t>(last ? at - in + in % p * c + in / p : at);
  };
  const NodeId answer = model.graph.outputs()[0];
  for (size_t i = 0; i < onnx_x.size(); ++i) {
    onnx_x[i] = static_cast<float>(std::sin(static_cast<double>(i) * 1.7) * 2 + 0.3);
    x[place(model.graph.at("x"), i)] = onnx_x[i];
  }
  tape.forward(mode::eval);
  const auto y = tape.value<float>(answer);
  const std::vector<double> wanted = expected.of(onnx_x);
  REQUIRE(y.size() == wanted.size());
  for (size_t i = 0; i < y.size(); ++i) {
    CHECK(std::fabs(double{y[place(answer, i)]} - wanted[i]) <= 1e-5);
  }
}

/// Returns floats of a shape: first, first + 0.25, ...
onnx::TensorProto ramp(const Extents& extents, float first) {
  Numbers values;
  const int64_t n = Shape(extents).elements();
  for (int64_t i = 0; i < n; ++i) values.push_back(first + 0.25f * static_cast<float>(i));
  return floats(extents, values);
}
onnx::TensorProto gammas(const Extents& extents) { return ramp(extents, 0.5f); }
onnx::TensorProto betas(const Extents& extents) { return ramp(extents, -1); }

double gamma_of(int64_t i) { return 0.5 + 0.25 * static_cast<double>(i); }
double beta_of(int64_t i) { return -1 + 0.25 * static_cast<double>(i); }
int64_t by_channel(int64_t c, int64_t) { return c; }
int64_t by_place(int64_t, int64_t p) { return p; }
int64_t whole(int64_t, int64_t) { return 0; }
double gamma_of_place(int64_t, int64_t p) { return gamma_of(p); }
double beta_of_place(int64_t, int64_t p) { return beta_of(p); }

// Images [n, 4, 2, 3].
const Extents image = {1, 4, 2, 3};

Expected by_channels(Expected expected) {
  expected.c = 4;
  expected.p = 6;
  expected.gamma = [](int64_t c, int64_t) { return gamma_of(c); };
  expected.beta = [](int64_t c, int64_t) { return beta_of(c); };
  return expected;
}

}  // namespace

TEST_CASE("onnx norms: InstanceNormalization and GroupNormalization of images") {
  check_norm(OnnxModel(image, 18).node("InstanceNormalization", {"x", gammas({4}), betas({4})}),
             "GroupNorm", by_channels({.set = by_channel}));
  for (const bool each_channel : {false, true}) {
    OnnxModel g(image, 18);
    g.node("GroupNormalization", {"x", each_channel ? gammas({4}) : floats({2}, {2, 3}),
                                  each_channel ? betas({4}) : floats({2}, {-1, 1})})
        .with("num_groups", 2)
        .with("epsilon", 0.5f);
    Expected expected =
        by_channels({.set = [](int64_t c, int64_t) { return c / 2; }, .eps = 0.5});
    if (!each_channel) {
      expected.gamma = [](int64_t c, int64_t) { return c < 2 ? 2.0 : 3.0; };
      expected.beta = [](int64_t c, int64_t) { return c < 2 ? -1.0 : 1.0; };
    }
    check_norm(g, "GroupNorm", expected);
  }
  check_norm(
      OnnxModel(image, 13).node("MeanVarianceNormalization", {"x"}).with("axes", Extents{2, 3}),
      "GroupNorm", {.c = 4, .p = 6, .set = by_channel, .eps = 1e-18});
}

TEST_CASE("onnx norms: over the last axis, several axes and channels") {
  const auto normed = [](const Extents& extents, const OnnxInputs& inputs) {
    return OnnxModel(extents, 17).node("LayerNormalization", inputs);
  };
  check_norm(
      normed({1, 3, 5}, {"x", gammas({5}), betas({5})}), "LayerNorm",
      {.c = 3, .p = 5, .set = by_channel, .gamma = gamma_of_place, .beta = beta_of_place});
  check_norm(normed(image, {"x", gammas({4, 2, 3}), betas({4, 2, 3})}).with("axis", 1),
             "LayerNorm",
             {.c = 4,
              .p = 6,
              .set = whole,
              .gamma = [](int64_t c, int64_t p) { return gamma_of(6 * c + p); },
              .beta = [](int64_t c, int64_t p) { return beta_of(6 * c + p); }});
  check_norm(normed(image, {"x", gammas({2, 3})}).with("axis", 2), "LayerNorm",
             {.c = 4, .p = 6, .set = by_channel, .gamma = gamma_of_place});
  check_norm(OnnxModel(image, 17).node("LpNormalization", {"x"}).with("axis", 1), "L2Normalize",
             {.c = 4, .p = 6, .set = by_place, .eps = 1e-30, .centered = false, .unit = true});
}

namespace {

/// Adds x / sqrt(mean x^2 + eps) in one of the forms that exporters write.
std::string rooted(OnnxModel& b, const std::string& x, const Extents& axes, int form) {
  const std::string square =
      form == 0 ? b.apply("Pow", {x, number(2)}) : b.apply("Mul", {x, x});
  const std::string mean = reduced(b, "ReduceMean", square, axes);
  const std::string sum =
      form == 1 ? b.apply("Add", {number(0.25f), mean}) : b.apply("Add", {mean, number(0.25f)});
  const std::string root = b.apply("Sqrt", {sum});
  if (form == 0) return b.apply("Div", {x, root});
  const std::string inverse =
      form == 1 ? b.apply("Reciprocal", {root}) : b.apply("Div", {number(1), root});
  return form == 1 ? b.apply("Mul", {inverse, x}) : b.apply("Mul", {x, inverse});
}

/// Adds an InstanceNormalization of two groups of channels, without its last Reshape.
std::string grouped(OnnxModel& b) {
  const std::string groups = b.apply("Reshape", {"x", ints({0, 2, -1})});
  return b.apply("InstanceNormalization", {groups, floats({2}, {1, 1}), floats({2}, {0, 0})});
}

}  // namespace

TEST_CASE("onnx norms: layer norms and root mean squares of several nodes") {
  for (const int form : {0, 1, 2}) {
    CAPTURE(form);
    for (const bool centered : {true, false}) {
      OnnxModel b({1, 3, 5}, 13);
      std::string x = "x";
      if (centered) x = b.apply("Sub", {"x", reduced(b, "ReduceMean", "x", {-1})});
      std::string y = rooted(b, x, {-1}, form);
      if (form == 2) {
        y = b.apply("Cast", {y});
        b.with("to", 1);
      }
      y = b.apply("Mul", form == 0 ? OnnxInputs{y, gammas({5})} : OnnxInputs{gammas({5}), y});
      if (centered) y = b.apply("Add", {y, betas({5})});
      Expected expected{.c = 3,
                        .p = 5,
                        .set = by_channel,
                        .eps = 0.25,
                        .centered = centered,
                        .gamma = gamma_of_place};
      if (centered) expected.beta = beta_of_place;
      check_norm(ended(b, y), centered ? "LayerNorm" : "RmsNorm", expected);
    }
  }
  // The variance has a mean and a difference of its own, as torch.var writes it.
  OnnxModel apart({1, 3, 5}, 13);
  const auto difference = [&] {
    return apart.apply("Sub", {"x", reduced(apart, "ReduceMean", "x", {-1})});
  };
  const std::string above = difference();
  const std::string square = apart.apply("Pow", {difference(), number(2)});
  const std::string variance = reduced(apart, "ReduceMean", square, {-1});
  const std::string root = apart.apply("Sqrt", {apart.apply("Add", {variance, number(0.25f)})});
  check_norm(apart.node("Div", {above, root}), "LayerNorm",
             {.c = 3, .p = 5, .set = by_channel, .eps = 0.25});
  // Over the channels of images.
  OnnxModel b(image, 13);
  const std::string x = b.apply("Sub", {"x", reduced(b, "ReduceMean", "x", {1})});
  const std::string y = b.apply("Mul", {rooted(b, x, {1}, 0), gammas({4, 1, 1})});
  check_norm(b.node("Add", {y, betas({1, 4, 1, 1})}), "LayerNorm",
             by_channels({.set = by_place, .eps = 0.25}));
}

TEST_CASE("onnx norms: lengths that several nodes limit, and reshaped instance norms") {
  for (const int form : {0, 1, 2, 3, 4}) {
    CAPTURE(form);
    OnnxModel b({1, 6}, form == 4 ? 15 : 13);
    std::string length = reduced(b, "ReduceL2", "x", {1});
    if (form < 2) length = b.apply("Clip", {length, number(0.5f)});
    if (form == 2) length = b.apply("Max", {number(0.5f), length});
    if (form == 1) length = b.apply("Expand", {length, b.apply("Shape", {"x"})});
    if (form == 4) {
      length = b.apply("Clip", {length, b.apply("CastLike", {number(0.5f), length})});
    }
    if (form > 1) length = b.apply("Expand", {length, ints({1, 6})});
    check_norm(b.node("Div", {"x", length}), "L2Normalize",
               {.c = 1,
                .p = 6,
                .set = whole,
                .eps = form != 3 ? 0.5 : 1e-30,
                .centered = false,
                .unit = true});
  }
  for (const bool fixed : {false, true}) {
    OnnxModel b(image, 13);
    const std::string normed = grouped(b);
    std::string y = fixed ? b.apply("Reshape", {normed, ints({1, 4, 2, 3})})
                          : b.apply("Reshape", {normed, b.apply("Shape", {"x"})});
    y = b.apply("Mul", {y, gammas({4, 1, 1})});
    check_norm(b.node("Add", {y, betas({4, 1, 1})}), "GroupNorm",
               by_channels({.set = [](int64_t c, int64_t) { return c / 2; }}));
  }
}

TEST_CASE("onnx norms: nodes that are only similar stay what they are") {
  const auto ops_of = [](const OnnxModel& similar) {
    const SavedModel model = similar.imported();
    std::string text;
    for (const NodeId id : ids(model.graph)) {
      if (!model.graph[id].operands.empty()) {
        text += std::string(name_of(model.graph[id].op)) + " ";
      }
    }
    return text;
  };
  // Another reader of the squares.
  OnnxModel shared({1, 3, 5}, 13);
  const std::string y = rooted(shared, "x", {-1}, 0);
  const std::string squares = shared.graph().node(0).output(0);
  CHECK(ops_of(shared.node("Add", {y, squares})) == "Pow Mean Affine Sqrt Div Add Reshape ");
  // The mean of another axis.
  OnnxModel other({1, 3, 5}, 13);
  const std::string x = other.apply("Sub", {"x", reduced(other, "ReduceMean", "x", {1})});
  const std::string of_other = rooted(other, x, {-1}, 0);
  CHECK(ops_of(ended(other, of_other)) == "Mean Sub RmsNorm Reshape ");
  // Axes of no norm.
  OnnxModel rows({1, 3, 5, 2}, 13);
  const std::string of_rows = rooted(rows, "x", {2}, 0);
  CHECK(ops_of(ended(rows, of_rows)) == "Pow Mean Affine Sqrt Div Reshape ");
  // Factors and biases of other axes.
  const auto scaled = [&](const Extents& factors, const Extents& biases) {
    OnnxModel b({1, 4, 3, 3}, 13);
    const std::string normed = b.apply("Reshape", {grouped(b), ints({1, 4, 3, 3})});
    const std::string product = b.apply("Mul", {normed, gammas(factors)});
    return ops_of(b.node("Add", {product, betas(biases)}));
  };
  CHECK(scaled({4, 1, 1}, {4, 1, 1}) == "GroupNorm Reshape ");
  CHECK(scaled({4, 1, 1}, {3, 1}) == "GroupNorm Add Reshape ");
  CHECK(scaled({3, 1}, {4, 1, 1}) == "GroupNorm Mul Add Reshape ");
}

TEST_CASE("onnx norms: what does not fit is refused") {
  const auto of = [](const Extents& extents, const char* op, const Extents& factors = {}) {
    OnnxInputs inputs = {"x"};
    if (!factors.empty()) inputs.insert(inputs.end(), 2, ramp(factors, 1));
    return OnnxModel(extents, 18).node(op, inputs);
  };
  refused(of({1, 3, 5}, "LayerNormalization", {4}),
          "node 'the LayerNormalization' (LayerNormalization): input 1 of [4] does not fit the "
          "normalized axes of [1, 3, 5]");
  refused(
      of({1, 3, 5}, "LayerNormalization", {5}).with("axis", 0),
      "node 'the LayerNormalization' (LayerNormalization): axes [0, 1, 2] of [1, 3, 5] join "
      "samples" +
          hidden_by_batch_of_1);
  refused(of(image, "LpNormalization").with("axis", 2),
          "node 'the LpNormalization' (LpNormalization): axes [2] are neither the last of "
          "[1, 4, 2, 3] nor its channels");
  refused(
      of(image, "LpNormalization").with("p", 1),
      "node 'the LpNormalization' (LpNormalization): attribute p is 1, only 2 is supported");
  refused(of(image, "GroupNormalization", {3}).with("num_groups", 3),
          "node 'the GroupNormalization' (GroupNormalization): the number of groups, 3, does "
          "not divide 4 channels");
  refused(of(image, "MeanVarianceNormalization"),
          "node 'the MeanVarianceNormalization' (MeanVarianceNormalization): axes [0, 2, 3] of "
          "[1, 4, 2, 3] are not supported, expected [2, 3]");
  refused(of({1, 4}, "InstanceNormalization", {4}),
          "node 'the InstanceNormalization' (InstanceNormalization): input 0 has rank 2");
}
