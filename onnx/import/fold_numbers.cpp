// Arithmetic, comparisons and reductions of constants.
#include <algorithm>
#include <cmath>
#include <limits>

#include "qtape/core/math.h"
#include "qtape/onnx/import/folds.h"

namespace qtape {

template <class Compute>
void FoldOperators::give_floats(const Shape& shape, const Compute& compute) {
  OnnxConstant result{.shape = shape};
  for (int64_t i = 0; i < shape.elements(); ++i) {
    result.floats.push_back(compute(static_cast<size_t>(i)));
  }
  finish(std::move(result));
}

template <class Compute>
void FoldOperators::give_numbers(const Shape& shape, const Compute& compute) {
  OnnxConstant result{.shape = shape, .is_float = false};
  for (int64_t i = 0; i < shape.elements(); ++i) {
    result.integers.push_back(compute(static_cast<size_t>(i)));
  }
  finish(std::move(result));
}

namespace {

struct NumberFolds : FoldOperators {
  void binary();
  void several();
  void unary();
  void invert();
  void clip();
  void where();
  void cast();
  void cast_like();
  void cast_to(int64_t type);
  void reduce();
  void range();

  void combine(std::string_view op, const OnnxConstant& a, const OnnxConstant& b);
};

double power(double base, double exponent) {
  if (exponent == 0.5) return std::sqrt(base);
  if (exponent == -0.5) return 1 / std::sqrt(base);
  constexpr double most = 64;
  const bool whole = exponent == std::floor(exponent) && std::abs(exponent) <= most;
  require<FormatError>(whole, "the power {} is not supported", exponent);
  double result = 1;
  for (int k = 0; k < std::abs(static_cast<int>(exponent)); ++k) result *= base;
  return exponent < 0 ? 1 / result : result;
}

float folded_floats(std::string_view op, float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<float>::quiet_NaN();
  if (op == "Add") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (op == "Div") return a / b;
  if (op == "Min") return b < a ? b : a;
  if (op == "Max") return b > a ? b : a;
  if (op == "FMod") return std::fmod(a, b);
  if (op == "Pow")
    return static_cast<float>(power(static_cast<double>(a), static_cast<double>(b)));
  fail<FormatError>("{} of floats is not supported", op);
}

/// Compares floats. Those that depend on the batch are NaN.
int64_t compared_floats(std::string_view op, float a, float b) {
  require<FormatError>(!std::isnan(a) && !std::isnan(b), "{} of NaN is not supported", op);
  if (op == "Equal") return a == b ? 1 : 0;
  if (op == "Less") return a < b ? 1 : 0;
  if (op == "Greater") return a > b ? 1 : 0;
  return (op == "LessOrEqual" ? a <= b : a >= b) ? 1 : 0;
}

bool compares(std::string_view op) {
  return op == "Equal" || op.starts_with("Less") || op.starts_with("Greater");
}

}  // namespace

void NumberFolds::combine(std::string_view op, const OnnxConstant& a, const OnnxConstant& b) {
  const bool power = op == "Pow" && a.is_float;
  require<FormatError>(a.is_float == b.is_float || power,
                       "floats and integers cannot be combined");
  const Shape shape = room_for(broadcast_shape({&a, &b}));
  const std::vector<size_t> left = broadcast_places(a.shape, shape);
  const std::vector<size_t> right = broadcast_places(b.shape, shape);
  if (!a.is_float) {
    require<FormatError>(op != "Pow", "Pow of integers is not supported");
    return give_numbers(shape, [&](size_t i) {
      return folded_integers(op, a.integers[left[i]], b.integers[right[i]],
                             to.declared_batch());
    });
  }
  if (compares(op)) {
    return give_numbers(shape, [&](size_t i) {
      return compared_floats(op, a.floats[left[i]], b.floats[right[i]]);
    });
  }
  give_floats(shape, [&](size_t i) {
    const float second =
        b.is_float ? b.floats[right[i]] : static_cast<float>(b.integers[right[i]]);
    return folded_floats(op, a.floats[left[i]], second);
  });
}

void NumberFolds::binary() {
  const bool truncated = node.type() == "Mod" && node.integer("fmod", 0) != 0;
  combine(truncated ? "FMod" : node.type(), input(0), input(1));
}

/// Min and Max of any number of inputs.
void NumberFolds::several() {
  if (node.inputs() == 1) return finish(input(0));
  combine(node.type(), input(0), input(1));
  for (int k = 2; k < node.inputs(); ++k) {
    const OnnxConstant first = *to.find_constant(node.output(0));
    combine(node.type(), first, input(k));
  }
}

void NumberFolds::unary() {
  const OnnxConstant& a = input(0);
  const std::string& op = node.type();
  if (!a.is_float) {
    return give_numbers(a.shape, [&](size_t i) {
      const int64_t x = a.integers[i];
      require<FormatError>(op == "Neg" || op == "Abs", "{} of integers is not supported", op);
      if (op == "Abs" && (is_batch(x) || x >= 0)) return x;
      return folded_integers("Sub", 0, x, 0);
    });
  }
  give_floats(a.shape, [&](size_t i) {
    const float x = a.floats[i];
    if (op == "Neg") return -x;
    if (op == "Abs") return std::abs(x);
    if (op == "Sqrt") return std::sqrt(x);
    if (op == "Reciprocal") return 1 / x;
    if (op == "Floor") return std::floor(x);
    if (op == "Ceil") return std::ceil(x);
    if (op == "Round") return std::nearbyint(x);
    if (op == "Relu") return x > 0 ? x : 0;
    if (op == "Sign") return x > 0 ? 1 : x < 0 ? -1 : x;
    // Equal bits on every machine.
    const auto exact = static_cast<double>(x);
    if (op == "Sigmoid") return static_cast<float>(math::sigmoid(exact));
    if (op == "Tanh") return static_cast<float>(math::tanh(exact));
    if (op == "Sin") return static_cast<float>(math::sin(exact));
    if (op == "Cos") return static_cast<float>(math::cos(exact));
    if (op == "Atan") return static_cast<float>(math::atan(exact));
    return static_cast<float>(op == "Exp" ? math::exp(exact) : math::log(exact));
  });
}

void NumberFolds::invert() {
  const OnnxConstant& a = input(0);
  require<FormatError>(!a.is_float, "Not of floats is not supported");
  give_numbers(a.shape, [&](size_t i) { return a.integers[i] == 0 ? 1 : 0; });
}

void NumberFolds::clip() {
  const OnnxConstant& a = input(0);
  require<FormatError>(a.is_float, "Clip of integers is not supported");
  const auto bound = [&](const char* name, int k, float fallback) {
    if (node.has(name)) return node.real(name, fallback);
    return has(k) ? to.floats(node, k, 1)[0] : fallback;
  };
  const float low = bound("min", 1, -std::numeric_limits<float>::infinity());
  const float high = bound("max", 2, std::numeric_limits<float>::infinity());
  give_floats(a.shape, [&](size_t i) {
    const float x = a.floats[i] < low ? low : a.floats[i];
    return x > high ? high : x;
  });
}

void NumberFolds::where() {
  const OnnxConstant &condition = input(0), &a = input(1), &b = input(2);
  require<FormatError>(!condition.is_float && a.is_float == b.is_float,
                       "expected a condition and two inputs of one type");
  const Shape shape = room_for(broadcast_shape({&condition, &a, &b}));
  const std::vector<size_t> choice = broadcast_places(condition.shape, shape);
  const std::vector<size_t> left = broadcast_places(a.shape, shape);
  const std::vector<size_t> right = broadcast_places(b.shape, shape);
  const auto first = [&](size_t i) { return condition.integers[choice[i]] != 0; };
  if (a.is_float) {
    return give_floats(
        shape, [&](size_t i) { return first(i) ? a.floats[left[i]] : b.floats[right[i]]; });
  }
  give_numbers(shape,
               [&](size_t i) { return first(i) ? a.integers[left[i]] : b.integers[right[i]]; });
}

namespace {

int64_t truncated(float x) {
  constexpr float bound = 0x1p62f;
  require<FormatError>(!std::isnan(x), "casts of NaN to integers are not supported");
  require<FormatError>(x > -bound && x < bound, "{} exceeds the range of integers", x);
  return static_cast<int64_t>(x);
}

}  // namespace

void NumberFolds::cast() { cast_to(node.integer("to", 0)); }

void NumberFolds::cast_like() {
  const OnnxConstant& like = input(1);
  if (!like.is_float && !input(0).is_float) return finish(input(0));
  cast_to(like.is_float ? int64_t{onnx::TensorProto::FLOAT} : like.type);
}

void NumberFolds::cast_to(int64_t type) {
  using Proto = onnx::TensorProto;
  const OnnxConstant& a = input(0);
  const bool float_to = type == Proto::FLOAT || type == Proto::DOUBLE;
  const bool integer_to = type == Proto::INT64 || type == Proto::INT32;
  require<FormatError>(float_to || integer_to || type == Proto::BOOL,
                       "casts to type {} are not supported", type);
  if (a.is_float && float_to) return finish(a);
  if (integer_to) {
    OnnxConstant result{.shape = a.shape, .integers = a.integers, .is_float = false};
    for (const float each : a.floats) result.integers.push_back(truncated(each));
    result.type = static_cast<int32_t>(type);
    return finish(std::move(result));
  }
  if (type == Proto::BOOL) {
    return give_numbers(a.shape, [&](size_t i) {
      return (a.is_float ? a.floats[i] != 0 : a.integers[i] != 0) ? 1 : 0;
    });
  }
  OnnxConstant result{.shape = a.shape};
  for (const int64_t each : a.integers) {
    // Floats cannot hold the batch extent.
    result.unknown = result.unknown || is_batch(each);
    result.floats.push_back(is_batch(each) ? std::numeric_limits<float>::quiet_NaN()
                                           : static_cast<float>(each));
  }
  finish(std::move(result));
}

namespace {

double reduced(std::string_view op, double sum, double x) {
  if (std::isnan(sum) || std::isnan(x)) return std::numeric_limits<double>::quiet_NaN();
  if (op == "ReduceProd") return sum * x;
  if (op == "ReduceMin") return x < sum ? x : sum;
  if (op == "ReduceMax") return x > sum ? x : sum;
  return op == "ReduceL2" || op == "ReduceSumSquare" ? sum + x * x : sum + x;
}

int64_t reduced(std::string_view op, int64_t sum, int64_t x, int64_t batch) {
  if (op == "ReduceProd") return folded_integers("Mul", sum, x, batch);
  if (op == "ReduceMin") return folded_integers("Min", sum, x, batch);
  if (op == "ReduceMax") return folded_integers("Max", sum, x, batch);
  require<FormatError>(op == "ReduceSum", "{} of integers is not supported", op);
  return folded_integers("Add", sum, x, batch);
}

/// Returns the places of elements of `shape` by the element of the result, in order.
std::vector<std::vector<size_t>> groups(const Shape& shape, const std::vector<bool>& gone) {
  std::vector<int64_t> kept;
  for (int k = 0; k < shape.rank(); ++k) {
    kept.push_back(gone[static_cast<size_t>(k)] ? 1 : shape[k]);
  }
  const Shape result(kept);
  std::vector<std::vector<size_t>> places(static_cast<size_t>(result.elements()));
  const std::vector<size_t> of = broadcast_places(result, shape);
  for (size_t i = 0; i < of.size(); ++i) places[of[i]].push_back(i);
  return places;
}

}  // namespace

void NumberFolds::reduce() {
  const OnnxConstant& a = input(0);
  const std::string& op = node.type();
  const bool kept = node.integer("keepdims", 1) != 0;
  const bool none = node.integer("noop_with_empty_axes", 0) != 0;
  const auto axes = to.integers_or(node, "axes", 1);
  const bool all = !axes || axes->empty();
  if (all && none) return finish(a);
  std::vector<bool> gone(static_cast<size_t>(a.shape.rank()), all);
  for (const int64_t each : axes.value_or(std::vector<int64_t>{})) {
    gone[static_cast<size_t>(onnx_axis(each, a.shape.rank()))] = true;
  }
  std::vector<int64_t> extents;
  for (int k = 0; k < a.shape.rank(); ++k) {
    const bool reduces = gone[static_cast<size_t>(k)];
    if (!reduces || kept) extents.push_back(reduces ? 1 : a.shape[k]);
  }
  require<FormatError>(a.shape.elements() > 0 && a.batch_axis < 0,
                       "constants of {} cannot be reduced", to_string(a.shape));
  const auto places = groups(a.shape, gone);
  if (!a.is_float) {
    return give_numbers(Shape(extents), [&](size_t i) {
      int64_t sum = a.integers[places[i][0]];
      for (size_t k = 1; k < places[i].size(); ++k) {
        sum = reduced(op, sum, a.integers[places[i][k]], to.declared_batch());
      }
      return sum;
    });
  }
  give_floats(Shape(extents), [&](size_t i) {
    const bool squares = op == "ReduceL2" || op == "ReduceSumSquare";
    const auto first = static_cast<double>(a.floats[places[i][0]]);
    double sum = squares ? first * first : first;
    for (size_t k = 1; k < places[i].size(); ++k) {
      sum = reduced(op, sum, static_cast<double>(a.floats[places[i][k]]));
    }
    if (op == "ReduceMean") sum /= static_cast<double>(places[i].size());
    return static_cast<float>(op == "ReduceL2" ? std::sqrt(sum) : sum);
  });
}

void NumberFolds::range() {
  const auto one = [&](int k) {
    const OnnxConstant& found = input(k);
    require<FormatError>(
        !found.is_float && found.integers.size() == 1 && !is_batch(found.integers[0]),
        "start, limit and delta must be integers that do not depend on the "
        "number of samples");
    return found.integers[0];
  };
  const int64_t start = one(0), limit = one(1), delta = one(2);
  for (const int64_t each : {start, limit, delta}) {
    require<FormatError>(each >= -Shape::max_elements && each <= Shape::max_elements,
                         "{} exceeds the largest tensor", each);
  }
  require<FormatError>(delta != 0, "a delta of 0 is not supported");
  const int64_t distance = delta > 0 ? limit - start : start - limit;
  const int64_t step = delta > 0 ? delta : -delta;
  const int64_t count = std::max<int64_t>(0, (distance + step - 1) / step);
  to.expect_room(count);
  std::vector<int64_t> numbers;
  for (int64_t k = 0; k < count; ++k) numbers.push_back(start + k * delta);
  give_integers(std::move(numbers));
}

namespace {

constexpr OnnxOperator number_rows[] = {{"Add", convert<&NumberFolds::binary>},
                                        {"Sub", convert<&NumberFolds::binary>},
                                        {"Mul", convert<&NumberFolds::binary>},
                                        {"Div", convert<&NumberFolds::binary>},
                                        {"Mod", convert<&NumberFolds::binary>},
                                        {"Pow", convert<&NumberFolds::binary>},
                                        {"Equal", convert<&NumberFolds::binary>},
                                        {"Less", convert<&NumberFolds::binary>},
                                        {"LessOrEqual", convert<&NumberFolds::binary>},
                                        {"Greater", convert<&NumberFolds::binary>},
                                        {"GreaterOrEqual", convert<&NumberFolds::binary>},
                                        {"And", convert<&NumberFolds::binary>},
                                        {"Or", convert<&NumberFolds::binary>},
                                        {"Xor", convert<&NumberFolds::binary>},
                                        {"Min", convert<&NumberFolds::several>},
                                        {"Max", convert<&NumberFolds::several>},
                                        {"Neg", convert<&NumberFolds::unary>},
                                        {"Abs", convert<&NumberFolds::unary>},
                                        {"Sqrt", convert<&NumberFolds::unary>},
                                        {"Reciprocal", convert<&NumberFolds::unary>},
                                        {"Floor", convert<&NumberFolds::unary>},
                                        {"Ceil", convert<&NumberFolds::unary>},
                                        {"Round", convert<&NumberFolds::unary>},
                                        {"Exp", convert<&NumberFolds::unary>},
                                        {"Log", convert<&NumberFolds::unary>},
                                        {"Relu", convert<&NumberFolds::unary>},
                                        {"Sigmoid", convert<&NumberFolds::unary>},
                                        {"Tanh", convert<&NumberFolds::unary>},
                                        {"Sign", convert<&NumberFolds::unary>},
                                        {"Sin", convert<&NumberFolds::unary>},
                                        {"Cos", convert<&NumberFolds::unary>},
                                        {"Atan", convert<&NumberFolds::unary>},
                                        {"Not", convert<&NumberFolds::invert>},
                                        {"Clip", convert<&NumberFolds::clip>},
                                        {"Where", convert<&NumberFolds::where>},
                                        {"Cast", convert<&NumberFolds::cast>},
                                        {"CastLike", convert<&NumberFolds::cast_like>},
                                        {"ReduceSum", convert<&NumberFolds::reduce>},
                                        {"ReduceProd", convert<&NumberFolds::reduce>},
                                        {"ReduceMean", convert<&NumberFolds::reduce>},
                                        {"ReduceMin", convert<&NumberFolds::reduce>},
                                        {"ReduceMax", convert<&NumberFolds::reduce>},
                                        {"ReduceL2", convert<&NumberFolds::reduce>},
                                        {"ReduceSumSquare", convert<&NumberFolds::reduce>},
                                        {"Range", convert<&NumberFolds::range>}};

}  // namespace

std::span<const OnnxOperator> number_folds() { return number_rows; }

}  // namespace qtape
