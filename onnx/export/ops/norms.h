// The norm and the softmax of codes in ONNX: integers of 64 bits.
#pragma once

#include <limits>

#include "qtape/integer/core/fixed_point.h"
#include "qtape/integer/ops/integer_ops.h"
#include "qtape/onnx/export/onnx_program.h"
#include "qtape/onnx/export/ops/structure.h"

namespace qtape {
namespace {

/// Arithmetic on s64 values of the graph.
struct Wide {
  OnnxProgram& p;

  std::string number(int64_t value) const {
    return p.to.scalar<int64_t>(p.named("number"), DType::S64, value);
  }
  std::string apply(std::string_view op, const std::string& a, const std::string& b,
                    std::string_view part) const {
    return p.to.apply(op, {a, b}, p.named(part));
  }
  std::string times(const std::string& a, const std::string& b, std::string_view part) const {
    return apply("Mul", a, b, part);
  }
  /// Adds 1 where a > b, else 0.
  std::string exceeds(const std::string& a, const std::string& b) const {
    return p.to.apply("Clip", {apply("Sub", a, b, "excess"), number(0), number(1)},
                      p.named("exceeds"));
  }
  /// Adds 1 where a >= b, else 0, for a >= 0 and b > 0.
  std::string reaches(const std::string& a, int64_t b) const {
    return p.to.apply("Clip", {apply("Div", a, number(b), "quotient"), number(0), number(1)},
                      p.named("reaches"));
  }
};

/// A root, and the power of two by which its square was scaled.
struct ScaledRoot {
  std::string root;
  std::string scale;
};

/// Adds floor(sqrt(4^k v)) and 2^k, where k brings 4^k v to 2^60 or more.
ScaledRoot scaled_root(const Wide& w, std::string v) {
  std::string scale = w.number(1);
  for (const int t : {16, 8, 4, 2, 1}) {
    const std::string large = w.reaches(v, int64_t{1} << (62 - 2 * t));
    const auto factor = [&](int bits) {
      const int64_t by = int64_t{1} << bits;
      return w.apply("Sub", w.number(by), w.times(large, w.number(by - 1), "less"), "factor");
    };
    v = w.times(v, factor(2 * t), "scaled");
    scale = w.times(scale, factor(t), "scale");
  }
  std::string root = w.number(int64_t{1} << 31);
  for (int step = 0; step < 6; ++step) {
    const std::string sum = w.apply("Add", root, w.apply("Div", v, root, "quotient"), "sum");
    root = w.apply("Div", sum, w.number(2), "root");
  }
  const std::string beyond = w.exceeds(w.times(root, root, "square"), v);
  return {w.apply("Sub", root, beyond, "root"), scale};
}

/// Axes of a set, where groups have an axis of their own.
std::vector<int64_t> set_axes(const integer::Normalize& op, int rank) {
  std::vector<int64_t> axes;
  for (int axis = 1; axis + 1 < rank && op.joint; ++axis) axes.push_back(axis);
  axes.push_back(op.groups > 1 ? rank : rank - 1);
  return axes;
}

/// Adds d and v of each set of the codes minus their zero point, in s64.
std::pair<std::string, std::string> deviations(const integer::Normalize& op, OnnxProgram& p,
                                               const std::string& q) {
  const Wide w{p};
  const Shape& x = p.in(0).type.shape;
  const std::vector<int64_t> axes = set_axes(op, x.rank());
  const std::string n = w.number(op.terms(x));
  const auto sum = [&](const std::string& of) {
    return reduced(p, "ReduceSum", of, axes, true, 13);
  };
  std::string d = w.times(q, n, "multiple");
  std::string v = w.times(sum(w.times(q, q, "square")), n, "squares");
  if (op.centered) {
    const std::string total = sum(q);
    d = w.apply("Sub", d, total, "deviation");
    v = w.apply("Sub", v, w.times(total, total, "square"), "spread");
  }
  v = w.times(v, w.number(int64_t{1} << (2 * op.shift)), "scaled");
  v = w.apply("Add", v, w.number(op.epsilon), "sum");
  return {d, p.to.apply("Clip", {v, w.number(op.least)}, p.named("limited"))};
}

/// Adds round(2^16 d / sqrt(v)), halves upwards.
std::string quotient(const integer::Normalize& op, const Wide& w, const std::string& d,
                     const std::string& v) {
  const auto power = [&](int bits) { return w.number(int64_t{1} << bits); };
  const ScaledRoot root = scaled_root(w, v);
  const std::string factor =
      w.apply("Div", w.number((int64_t{1} << 61) - 1), root.root, "reciprocal");
  const std::string unit = w.apply("Div", power(45 - op.shift), root.scale, "unit");
  // Not negative before the division, so that it rounds down.
  const std::string above = w.apply(
      "Add", power(62), w.apply("Div", power(44 - op.shift), root.scale, "half"), "above");
  const std::string sum = w.apply("Add", w.times(d, factor, "product"), above, "sum");
  return w.apply("Sub", w.apply("Div", sum, unit, "quotient"),
                 w.apply("Div", power(62), unit, "offset"), "normalized");
}

}  // namespace

inline Written write(const integer::Normalize& op, OnnxProgram& p) {
  check(!p.codes_in_floats(), "QONNX has no norms of codes");
  const Wide w{p};
  const IntegerValue& x = p.in(0);
  std::string q = p.cast(p.channels_last(0), DType::S64, "wide");
  if (x.zero_point != 0) q = w.apply("Sub", q, w.number(x.zero_point), "differences");
  if (op.groups > 1) {
    std::vector<int64_t> shape = p.extents();
    shape.back() /= op.groups;
    shape.insert(shape.end() - 1, op.groups);
    q = p.to.apply("Reshape", {q, p.to.numbers(p.named("shape"), shape)}, p.named("groups"));
  }
  const auto [d, v] = deviations(op, p, q);
  std::string h = quotient(op, w, d, v);
  if (op.groups > 1) {
    h = p.to.apply("Reshape", {h, p.to.numbers(p.named("shape"), p.extents())},
                   p.named("channels"));
  }
  const auto channels = [&](std::string_view part, const Tensor& tensor) {
    const auto values = tensor.values<int32_t>();
    return p.to.numbers(p.named(part), {values.begin(), values.end()});
  };
  h = w.apply("Add", w.times(h, channels("signs", op.signs), "signed"),
              channels("bias", op.bias), "biased");
  const std::string sums = p.cast(h, DType::S32, "sum");
  return {p.in_floats() ? p.floats(sums, p.out(), false) : sums};
}

namespace {

/// Adds round(a b / 2^31), halves upwards, for a b >= 0 or of any sign.
std::string high_product(const Wide& w, const std::string& a, const std::string& b,
                         bool positive) {
  // Not negative before the division, so that it rounds down.
  const int64_t above = positive ? 0 : int64_t{1} << 62;
  const std::string sum =
      w.apply("Add", w.times(a, b, "product"), w.number((int64_t{1} << 30) + above), "sum");
  const std::string high = w.apply("Div", sum, w.number(int64_t{1} << 31), "high");
  return positive ? high : w.apply("Sub", high, w.number(above >> 31), "high");
}

/// Adds the reciprocal of the sums in 2^-31, and the power of two by which shares are divided.
std::pair<std::string, std::string> reciprocals(const Wide& w, std::string sums) {
  std::string scale = w.number(1);
  for (const int t : {8, 4, 2, 1}) {
    const std::string large = w.reaches(sums, int64_t{1} << (32 - t));
    const int64_t by = int64_t{1} << t;
    const std::string factor =
        w.apply("Sub", w.number(by), w.times(large, w.number(by - 1), "less"), "factor");
    sums = w.times(sums, factor, "scaled");
    scale = w.times(scale, factor, "scale");
  }
  const std::string half = w.apply("Div", sums, w.number(2), "half");
  const std::string slope = w.number(reciprocal_slope);
  std::string x = w.apply("Add", w.number(reciprocal_offset),
                          high_product(w, half, slope, false), "inverse");
  for (int step = 0; step < 3; ++step) {
    const std::string rest =
        w.apply("Sub", w.number(int64_t{1} << 29), high_product(w, half, x, true), "rest");
    const std::string more = w.times(high_product(w, x, rest, false), w.number(4), "more");
    x = w.apply("Add", x, more, "inverse");
  }
  const std::string limited = w.p.to.apply("Clip",
                                           {w.times(x, w.number(2), "twice"), w.number(0),
                                            w.number(std::numeric_limits<int32_t>::max())},
                                           w.p.named("limited"));
  return {limited, w.apply("Div", w.number(int64_t{1} << 35), scale, "unit")};
}

}  // namespace

/// Exponentials are looked up by the difference of a code from the largest of its row.
inline Written write(const integer::Softmax& op, OnnxProgram& p) {
  check(!p.codes_in_floats(), "QONNX has no softmax of codes");
  const Wide w{p};
  const std::string x = p.cast(p.channels_last(0), DType::S64, "wide");
  const std::vector<int64_t> last = {p.out().type.shape.rank() - 1};
  const std::string most = reduced(p, "ReduceMax", x, last, true, 18);
  const integer::Exponentials exps = op.exponentials(p.in(0).scales[0]);
  const std::string table = p.to.numbers(p.named("exponentials"), {exps.begin(), exps.end()});
  const std::string exp =
      p.to.apply("Gather", {table, w.apply("Sub", most, x, "difference")}, p.named("exp"));
  const std::string terms =
      w.apply("Div", w.apply("Add", exp, w.number(2048), "above"), w.number(4096), "term");
  const auto [factor, unit] = reciprocals(w, reduced(p, "ReduceSum", terms, last, true, 13));
  const std::string share = high_product(w, factor, exp, true);
  const std::string half = w.apply("Div", unit, w.number(2), "half");
  const std::string code =
      w.apply("Div", w.apply("Add", share, half, "above"), unit, "quotient");
  const std::string limited =
      p.to.apply("Clip", {code, w.number(0), w.number(255)}, p.named("limited"));
  return {p.cast(w.apply("Sub", limited, w.number(128), "code"), DType::S8, "codes")};
}

}  // namespace qtape
