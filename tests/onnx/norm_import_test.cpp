// Norms of ONNX models: operators, and the nodes by which exporters write them.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "qtape/engine/tape.h"
#include "qtape/onnx/import.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/small_nets.h"

using namespace qtape;

namespace {

/// A model under construction, with one input `x` and one output `y`.
struct Builder {
  onnx::ModelProto model;
  onnx::GraphProto& graph = *model.mutable_graph();
  int names = 0;

  Builder(int64_t opset, const std::vector<int64_t>& extents) {
    model.set_ir_version(8);
    model.add_opset_import()->set_version(opset);
    auto* input = graph.add_input();
    input->set_name("x");
    auto* type = input->mutable_type()->mutable_tensor_type();
    type->set_elem_type(onnx::TensorProto::FLOAT);
    for (const int64_t each : extents) type->mutable_shape()->add_dim()->set_dim_value(each);
    graph.add_output()->set_name("y");
  }

  std::string floats(std::vector<int64_t> extents, const std::vector<float>& values) {
    onnx::TensorProto& tensor = *graph.add_initializer();
    tensor.set_name(fmt::format("c{}", names++));
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    for (const int64_t each : extents) tensor.add_dims(each);
    for (const float each : values) tensor.add_float_data(each);
    return tensor.name();
  }
  std::string number(float value) { return floats({}, {value}); }
  std::string integers(const std::vector<int64_t>& values) {
    onnx::TensorProto& tensor = *graph.add_initializer();
    tensor.set_name(fmt::format("c{}", names++));
    tensor.set_data_type(onnx::TensorProto::INT64);
    tensor.add_dims(std::ssize(values));
    for (const int64_t each : values) tensor.add_int64_data(each);
    return tensor.name();
  }
  onnx::NodeProto& node(const char* op, const std::vector<std::string>& inputs) {
    onnx::NodeProto& made = *graph.add_node();
    made.set_op_type(op);
    made.set_name(fmt::format("/n/{}_{}", op, names));
    for (const std::string& each : inputs) made.add_input(each);
    made.add_output(fmt::format("v{}", names++));
    return made;
  }
  std::string apply(const char* op, const std::vector<std::string>& inputs) {
    return node(op, inputs).output(0);
  }
  /// Adds a reduction with its axes as an attribute.
  std::string reduced(const char* op, const std::string& x, const std::vector<int64_t>& axes) {
    onnx::NodeProto& made = node(op, {x});
    set(made, "axes", axes);
    return made.output(0);
  }
  static void set(onnx::NodeProto& node, const char* name, const std::vector<int64_t>& values) {
    auto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::INTS);
    for (const int64_t each : values) attribute.add_ints(each);
  }
  static void set(onnx::NodeProto& node, const char* name, int64_t value) {
    auto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(value);
  }
  static void set(onnx::NodeProto& node, const char* name, float value) {
    auto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::FLOAT);
    attribute.set_f(value);
  }
  std::string bytes(const std::string& last) {
    for (onnx::NodeProto& each : *graph.mutable_node()) {
      if (each.output(0) == last) each.set_output(0, "y");
    }
    return model.SerializeAsString();
  }
};

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
void check_norm(const std::string& bytes, std::string_view name, const Expected& expected) {
  const SavedModel model = parse_onnx(bytes, "m.onnx");
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
  Parameters parameters(model.graph, 0);
  for (const ParameterEntry& each : model.parameters.entries()) {
    parameters.set(each.name, model.parameters.get(each.name));
  }
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

std::vector<float> ramp(int64_t n, float first) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(first + 0.25f * static_cast<float>(i));
  return values;
}

double gamma_of(int64_t i) { return 0.5 + 0.25 * static_cast<double>(i); }
double beta_of(int64_t i) { return -1 + 0.25 * static_cast<double>(i); }

// Images [n, 4, 2, 3].
const std::vector<int64_t> image = {1, 4, 2, 3};

Expected by_channels(Expected expected) {
  expected.c = 4;
  expected.p = 6;
  expected.gamma = [](int64_t c, int64_t) { return gamma_of(c); };
  expected.beta = [](int64_t c, int64_t) { return beta_of(c); };
  return expected;
}

}  // namespace

TEST_CASE("onnx norms: InstanceNormalization and GroupNormalization of images") {
  Builder b(18, image);
  const auto gamma = [](Builder& to) { return to.floats({4}, ramp(4, 0.5f)); };
  const auto beta = [](Builder& to) { return to.floats({4}, ramp(4, -1)); };
  const std::string y = b.apply("InstanceNormalization", {"x", gamma(b), beta(b)});
  check_norm(b.bytes(y), "GroupNorm",
             by_channels({.set = [](int64_t c, int64_t) { return c; }}));
  for (const bool each_channel : {false, true}) {
    Builder g(18, image);
    const std::string scale = each_channel ? gamma(g) : g.floats({2}, {2, 3});
    const std::string bias = each_channel ? beta(g) : g.floats({2}, {-1, 1});
    onnx::NodeProto& node = g.node("GroupNormalization", {"x", scale, bias});
    Builder::set(node, "num_groups", int64_t{2});
    Builder::set(node, "epsilon", 0.5f);
    Expected expected =
        by_channels({.set = [](int64_t c, int64_t) { return c / 2; }, .eps = 0.5});
    if (!each_channel) {
      expected.gamma = [](int64_t c, int64_t) { return c < 2 ? 2.0 : 3.0; };
      expected.beta = [](int64_t c, int64_t) { return c < 2 ? -1.0 : 1.0; };
    }
    check_norm(g.bytes(node.output(0)), "GroupNorm", expected);
  }
  Builder m(13, image);
  onnx::NodeProto& node = m.node("MeanVarianceNormalization", {"x"});
  Builder::set(node, "axes", {2, 3});
  check_norm(m.bytes(node.output(0)), "GroupNorm",
             {.c = 4, .p = 6, .set = [](int64_t c, int64_t) { return c; }, .eps = 1e-18});
}

TEST_CASE("onnx norms: over the last axis, several axes and channels") {
  Builder b(17, {1, 3, 5});
  onnx::NodeProto& last = b.node(
      "LayerNormalization", {"x", b.floats({5}, ramp(5, 0.5f)), b.floats({5}, ramp(5, -1))});
  const Expected rows = {.c = 3,
                         .p = 5,
                         .set = [](int64_t c, int64_t) { return c; },
                         .gamma = [](int64_t, int64_t p) { return gamma_of(p); },
                         .beta = [](int64_t, int64_t p) { return beta_of(p); }};
  check_norm(b.bytes(last.output(0)), "LayerNorm", rows);
  Builder w(17, image);
  onnx::NodeProto& whole =
      w.node("LayerNormalization",
             {"x", w.floats({4, 2, 3}, ramp(24, 0.5f)), w.floats({4, 2, 3}, ramp(24, -1))});
  Builder::set(whole, "axis", int64_t{1});
  check_norm(w.bytes(whole.output(0)), "LayerNorm",
             {.c = 4,
              .p = 6,
              .set = [](int64_t, int64_t) { return 0; },
              .gamma = [](int64_t c, int64_t p) { return gamma_of(6 * c + p); },
              .beta = [](int64_t c, int64_t p) { return beta_of(6 * c + p); }});
  Builder part(17, image);
  onnx::NodeProto& two =
      part.node("LayerNormalization", {"x", part.floats({2, 3}, ramp(6, 0.5f))});
  Builder::set(two, "axis", int64_t{2});
  check_norm(part.bytes(two.output(0)), "LayerNorm",
             {.c = 4,
              .p = 6,
              .set = [](int64_t c, int64_t) { return c; },
              .gamma = [](int64_t, int64_t p) { return gamma_of(p); }});
  Builder l(17, image);
  onnx::NodeProto& unit = l.node("LpNormalization", {"x"});
  Builder::set(unit, "axis", int64_t{1});
  check_norm(l.bytes(unit.output(0)), "L2Normalize",
             {.c = 4,
              .p = 6,
              .set = [](int64_t, int64_t p) { return p; },
              .eps = 1e-30,
              .centered = false,
              .unit = true});
}

namespace {

/// Adds x / sqrt(mean x^2 + eps) in one of the forms that exporters write.
std::string rooted(Builder& b, const std::string& x, const std::vector<int64_t>& axes,
                   int form) {
  const std::string square =
      form == 0 ? b.apply("Pow", {x, b.number(2)}) : b.apply("Mul", {x, x});
  const std::string mean = b.reduced("ReduceMean", square, axes);
  const std::string sum = form == 1 ? b.apply("Add", {b.number(0.25f), mean})
                                    : b.apply("Add", {mean, b.number(0.25f)});
  const std::string root = b.apply("Sqrt", {sum});
  if (form == 0) return b.apply("Div", {x, root});
  const std::string inverse =
      form == 1 ? b.apply("Reciprocal", {root}) : b.apply("Div", {b.number(1), root});
  return form == 1 ? b.apply("Mul", {inverse, x}) : b.apply("Mul", {x, inverse});
}

}  // namespace

TEST_CASE("onnx norms: layer norms and root mean squares of several nodes") {
  for (const int form : {0, 1, 2}) {
    CAPTURE(form);
    for (const bool centered : {true, false}) {
      Builder b(13, {1, 3, 5});
      std::string x = "x";
      if (centered) x = b.apply("Sub", {"x", b.reduced("ReduceMean", "x", {-1})});
      std::string y = rooted(b, x, {-1}, form);
      if (form == 2) {
        onnx::NodeProto& cast = b.node("Cast", {y});
        Builder::set(cast, "to", int64_t{onnx::TensorProto::FLOAT});
        y = cast.output(0);
      }
      y = b.apply("Mul", form == 0 ? std::vector{y, b.floats({5}, ramp(5, 0.5f))}
                                   : std::vector{b.floats({5}, ramp(5, 0.5f)), y});
      if (centered) y = b.apply("Add", {y, b.floats({5}, ramp(5, -1))});
      Expected expected{.c = 3,
                        .p = 5,
                        .set = [](int64_t c, int64_t) { return c; },
                        .eps = 0.25,
                        .centered = centered,
                        .gamma = [](int64_t, int64_t p) { return gamma_of(p); }};
      if (centered) expected.beta = [](int64_t, int64_t p) { return beta_of(p); };
      check_norm(b.bytes(y), centered ? "LayerNorm" : "RmsNorm", expected);
    }
  }
  // Over the channels of images.
  Builder b(13, image);
  const std::string x = b.apply("Sub", {"x", b.reduced("ReduceMean", "x", {1})});
  std::string y = b.apply("Mul", {rooted(b, x, {1}, 0), b.floats({4, 1, 1}, ramp(4, 0.5f))});
  y = b.apply("Add", {y, b.floats({1, 4, 1, 1}, ramp(4, -1))});
  check_norm(b.bytes(y), "LayerNorm",
             by_channels({.set = [](int64_t, int64_t p) { return p; }, .eps = 0.25}));
}

TEST_CASE("onnx norms: lengths that several nodes limit, and reshaped instance norms") {
  for (const int form : {0, 1, 2, 3}) {
    CAPTURE(form);
    Builder b(13, {1, 6});
    std::string length = b.reduced("ReduceL2", "x", {1});
    if (form < 2) length = b.apply("Clip", {length, b.number(0.5f)});
    if (form == 2) length = b.apply("Max", {b.number(0.5f), length});
    if (form > 0) {
      const std::string shape = form == 1 ? b.apply("Shape", {"x"}) : b.integers({1, 6});
      length = b.apply("Expand", {length, shape});
    }
    check_norm(b.bytes(b.apply("Div", {"x", length})), "L2Normalize",
               {.c = 1,
                .p = 6,
                .set = [](int64_t, int64_t) { return 0; },
                .eps = form < 3 ? 0.5 : 1e-30,
                .centered = false,
                .unit = true});
  }
  for (const bool fixed : {false, true}) {
    Builder b(13, image);
    const std::string groups = b.apply("Reshape", {"x", b.integers({0, 2, -1})});
    const std::string normed = b.apply("InstanceNormalization",
                                       {groups, b.floats({2}, {1, 1}), b.floats({2}, {0, 0})});
    const std::string shape = fixed ? b.integers({1, 4, 2, 3}) : b.apply("Shape", {"x"});
    std::string y = b.apply("Reshape", {normed, shape});
    y = b.apply("Mul", {y, b.floats({4, 1, 1}, ramp(4, 0.5f))});
    y = b.apply("Add", {y, b.floats({4, 1, 1}, ramp(4, -1))});
    check_norm(b.bytes(y), "GroupNorm",
               by_channels({.set = [](int64_t c, int64_t) { return c / 2; }}));
  }
}

TEST_CASE("onnx norms: nodes that are only similar stay what they are") {
  const auto ops_of = [](const std::string& bytes) {
    const SavedModel model = parse_onnx(bytes, "m.onnx");
    std::string text;
    for (const NodeId id : ids(model.graph)) {
      if (!model.graph[id].operands.empty()) {
        text += std::string(name_of(model.graph[id].op)) + " ";
      }
    }
    return text;
  };
  // Another reader of the squares.
  Builder shared(13, {1, 3, 5});
  const std::string y = rooted(shared, "x", {-1}, 0);
  CHECK(ops_of(shared.bytes(shared.apply("Add", {y, "v1"}))) ==
        "Pow Mean Affine Sqrt Div Add Reshape ");
  // The mean of another axis.
  Builder other(13, {1, 3, 5});
  const std::string x = other.apply("Sub", {"x", other.reduced("ReduceMean", "x", {1})});
  CHECK(ops_of(other.bytes(rooted(other, x, {-1}, 0))) == "Mean Sub RmsNorm Reshape ");
  // Axes of no norm.
  Builder rows(13, {1, 3, 5, 2});
  CHECK(ops_of(rows.bytes(rooted(rows, "x", {2}, 0))) == "Pow Mean Affine Sqrt Div Reshape ");
  // Factors and biases of other axes.
  const auto grouped = [&](const std::vector<int64_t>& factors,
                           const std::vector<int64_t>& biases) {
    Builder b(13, {1, 4, 3, 3});
    const std::string groups = b.apply("Reshape", {"x", b.integers({0, 2, -1})});
    const std::string normed = b.apply("InstanceNormalization",
                                       {groups, b.floats({2}, {1, 1}), b.floats({2}, {0, 0})});
    std::string scaled = b.apply("Reshape", {normed, b.integers({1, 4, 3, 3})});
    scaled = b.apply("Mul", {scaled, b.floats(factors, ramp(factors[0], 0.5f))});
    scaled = b.apply("Add", {scaled, b.floats(biases, ramp(biases[0], -1))});
    return ops_of(b.bytes(scaled));
  };
  CHECK(grouped({4, 1, 1}, {4, 1, 1}) == "GroupNorm Reshape ");
  CHECK(grouped({4, 1, 1}, {3, 1}) == "GroupNorm Add Reshape ");
  CHECK(grouped({3, 1}, {4, 1, 1}) == "GroupNorm Mul Add Reshape ");
}

TEST_CASE("onnx norms: what does not fit is refused") {
  const auto error_of = [](const std::string& bytes) {
    return test::error_text<FormatError>([&] { (void)parse_onnx(bytes, "m.onnx"); });
  };
  const auto refused = [&](std::vector<int64_t> extents, const char* op,
                           std::vector<int64_t> factors, const char* name, int64_t value) {
    Builder b(18, extents);
    std::vector<std::string> inputs = {"x"};
    if (!factors.empty()) {
      int64_t n = 1;
      for (const int64_t each : factors) n *= each;
      inputs.push_back(b.floats(factors, ramp(n, 1)));
      inputs.push_back(b.floats(factors, ramp(n, 1)));
    }
    onnx::NodeProto& node = b.node(op, inputs);
    if (name != nullptr) Builder::set(node, name, value);
    return error_of(b.bytes(node.output(0)));
  };
  CHECK(refused({1, 3, 5}, "LayerNormalization", {4}, nullptr, 0) ==
        "m.onnx: node '/n/LayerNormalization_2' (LayerNormalization): input 1 of [4] does not "
        "fit the normalized axes of [1, 3, 5]");
  CHECK(refused({1, 3, 5}, "LayerNormalization", {5}, "axis", 0) ==
        "m.onnx: node '/n/LayerNormalization_2' (LayerNormalization): axes [0, 1, 2] of [1, 3, "
        "5] join samples");
  CHECK(refused({1, 4, 2, 3}, "LpNormalization", {}, "axis", 2) ==
        "m.onnx: node '/n/LpNormalization_0' (LpNormalization): axes [2] are neither the last "
        "of [1, 4, 2, 3] nor its channels");
  CHECK(refused({1, 4, 2, 3}, "LpNormalization", {}, "p", 1) ==
        "m.onnx: node '/n/LpNormalization_0' (LpNormalization): attribute p is 1, only 2 is "
        "supported");
  CHECK(refused({1, 4, 2, 3}, "GroupNormalization", {3}, "num_groups", 3) ==
        "m.onnx: node '/n/GroupNormalization_2' (GroupNormalization): the number of groups, 3, "
        "does not divide 4 channels");
  CHECK(
      refused({1, 4, 2, 3}, "MeanVarianceNormalization", {}, nullptr, 0) ==
      "m.onnx: node '/n/MeanVarianceNormalization_0' (MeanVarianceNormalization): axes [0, 2, "
      "3] of [1, 4, 2, 3] are not supported, expected [2, 3]");
  CHECK(
      refused({1, 4}, "InstanceNormalization", {4}, nullptr, 0) ==
      "m.onnx: node '/n/InstanceNormalization_2' (InstanceNormalization): input 0 has rank 2");
}
