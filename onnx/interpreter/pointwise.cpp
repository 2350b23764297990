// Pointwise operators as specified at https://onnx.ai/onnx/operators, for opsets 13 to 21.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "qtape/onnx/interpreter/call.h"

namespace qtape::interpreter {
namespace {

OnnxArray cast(const Call& c) {
  using Proto = onnx::TensorProto;
  const OnnxArray& x = c.in(0);
  const int64_t to = c.node.integer("to", 0);
  return std::visit(
      [&](const auto& from) -> OnnxArray {
        switch (to) {
          case Proto::FLOAT:
            return {x.shape, converted<float>(from)};
          case Proto::INT8:
            return {x.shape, converted<int8_t>(from)};
          case Proto::UINT8:
            return {x.shape, converted<uint8_t>(from)};
          case Proto::INT32:
            return {x.shape, converted<int32_t>(from)};
          case Proto::INT64:
            return {x.shape, converted<int64_t>(from)};
          default:
            fail<FormatError>("casts to the element type {} are not supported", to);
        }
      },
      x.data);
}

template <class T, class Combine>
OnnxArray combined(const Call& c, const Combine& combine) {
  const std::vector<T>& a = c.of<T>(0);
  const std::vector<T>& b = c.of<T>(1);
  const Extents shape = broadcast(c.in(0).shape, c.in(1).shape);
  std::vector<T> y;
  if (shape == c.in(0).shape && (b.size() == 1 || shape == c.in(1).shape)) {
    for (size_t i = 0; i < a.size(); ++i) y.push_back(combine(a[i], b[b.size() == 1 ? 0 : i]));
    return {shape, std::move(y)};
  }
  for_each_index(shape, [&](const Extents& index) {
    y.push_back(combine(a[static_cast<size_t>(broadcast_place(c.in(0).shape, index))],
                        b[static_cast<size_t>(broadcast_place(c.in(1).shape, index))]));
  });
  return {shape, std::move(y)};
}

template <class Combine>
OnnxArray arithmetic(const Call& c, const Combine& combine) {
  if (std::holds_alternative<std::vector<float>>(c.in(0).data)) {
    return combined<float>(c, combine);
  }
  if (std::holds_alternative<std::vector<int64_t>>(c.in(0).data)) {
    // Without signs: an overflow must be defined here.
    return combined<int64_t>(c, [&](int64_t a, int64_t b) {
      return static_cast<int64_t>(combine(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
    });
  }
  // In 64 bits: an overflow of 32 bits is undefined in ONNX, but must be defined here.
  return combined<int32_t>(
      c, [&](int64_t a, int64_t b) { return static_cast<int32_t>(combine(a, b)); });
}

}  // namespace

OnnxArray add(const Call& c) {
  return arithmetic(c, [](auto a, auto b) { return a + b; });
}

namespace {

OnnxArray subtract(const Call& c) {
  return arithmetic(c, [](auto a, auto b) { return a - b; });
}
OnnxArray multiply(const Call& c) {
  return arithmetic(c, [](auto a, auto b) { return a * b; });
}
/// Returns one of both operands for each pair, in their own type.
template <class Choose>
OnnxArray chosen(const Call& c, const Choose& choose) {
  return std::visit([&]<class T>(const std::vector<T>&) { return combined<T>(c, choose); },
                    c.in(0).data);
}

OnnxArray larger(const Call& c) {
  return chosen(c, [](auto a, auto b) { return std::max(a, b); });
}
OnnxArray smaller(const Call& c) {
  return chosen(c, [](auto a, auto b) { return std::min(a, b); });
}

/// The quotient of integers, towards 0.
template <class T>
OnnxArray quotients(const Call& c) {
  return combined<T>(c, [](int64_t a, int64_t b) {
    require<FormatError>(b != 0, "divides by 0");
    return static_cast<T>(b == -1 ? static_cast<int64_t>(-static_cast<uint64_t>(a)) : a / b);
  });
}

OnnxArray divide(const Call& c) {
  const bool narrow = std::holds_alternative<std::vector<int32_t>>(c.in(0).data);
  return narrow ? quotients<int32_t>(c) : quotients<int64_t>(c);
}

OnnxArray clip(const Call& c) {
  return std::visit(
      [&]<class T>(std::vector<T> y) {
        const T low = c.scalar<T>(1, std::numeric_limits<T>::lowest());
        const T high = c.scalar<T>(2, std::numeric_limits<T>::max());
        for (T& each : y) each = std::min(std::max(each, low), high);
        return OnnxArray{c.in(0).shape, std::move(y)};
      },
      c.in(0).data);
}

/// saturate(round(x / scale) + zero), ties to even.
template <class T>
OnnxArray quantized(const Call& c) {
  const float scale = c.scalar<float>(1, 1);
  const auto zero = static_cast<float>(c.scalar<T>(2, 0));
  std::vector<T> y;
  for (float x : c.of<float>(0)) {
    const float code = std::nearbyint(x / scale) + zero;
    const auto low = static_cast<float>(std::numeric_limits<T>::lowest());
    const auto high = static_cast<float>(std::numeric_limits<T>::max());
    require<FormatError>(!std::isnan(code), "NaN has no code");
    y.push_back(static_cast<T>(std::min(std::max(code, low), high)));
  }
  return {c.in(0).shape, std::move(y)};
}

OnnxArray quantize(const Call& c) {
  c.node.expect("output_dtype", 0);
  c.node.expect("block_size", 0);
  if (!c.has(2)) return quantized<uint8_t>(c);
  return std::visit(
      [&]<class T>(const std::vector<T>&) -> OnnxArray {
        if constexpr (sizeof(T) <= 2) return quantized<T>(c);
        fail<FormatError>("zero points must have 8 or 16 bits");
      },
      c.in(2).data);
}

OnnxArray dequantize(const Call& c) {
  const OnnxArray& x = c.in(0);
  const std::vector<float>& scales = c.of<float>(1);
  c.node.expect("block_size", 0);
  int64_t behind = x.elements();
  if (scales.size() > 1) {
    const auto axis = static_cast<size_t>(axis_of(c.node.integer("axis", 1), x.shape.size()));
    require<FormatError>(std::ssize(scales) == x.shape[axis],
                         "{} scales are given for {} indices", scales.size(), x.shape[axis]);
    behind = strides_of(x.shape)[axis];
  }
  require<FormatError>(!scales.empty(), "there is no scale");
  return std::visit(
      [&]<class T>(const std::vector<T>& codes) {
        std::vector<T> zeros(scales.size(), 0);
        if (c.has(2)) zeros = c.of<T>(2);
        require<FormatError>(zeros.size() == scales.size(), "{} zero points, {} scales",
                             zeros.size(), scales.size());
        std::vector<float> y;
        for (size_t i = 0; i < codes.size(); ++i) {
          const size_t k = behind == 0 ? 0 : i / static_cast<size_t>(behind) % scales.size();
          if constexpr (std::is_floating_point_v<T>) {
            y.push_back((codes[i] - zeros[k]) * scales[k]);
          } else {
            y.push_back(static_cast<float>(int64_t{codes[i]} - int64_t{zeros[k]}) * scales[k]);
          }
        }
        return OnnxArray{x.shape, std::move(y)};
      },
      x.data);
}

OnnxArray positive(const Call& c) {
  std::vector<float> y;
  for (const float x : c.of<float>(0)) y.push_back(x > 0 ? x : 0.0f);
  return {c.in(0).shape, std::move(y)};
}

/// Quant of QONNX: x / scale + zero point, limited and then rounded, and back, in f32.
OnnxArray quant(const Call& c) {
  const bool is_signed = c.node.integer("signed", 1) != 0;
  const bool narrow = c.node.integer("narrow", 0) != 0;
  require<FormatError>(c.node.text("rounding_mode", "ROUND") == "ROUND",
                       "rounding_mode must be ROUND");
  const float bits = c.scalar<float>(3, 0);
  require<FormatError>(bits >= 1 && bits <= 24 && bits == std::trunc(bits),
                       "bits must be in 1..24, got {}", bits);
  const float half = std::exp2(bits - 1);
  const float low = is_signed ? -half + (narrow ? 1.0f : 0.0f) : 0.0f;
  const float high = is_signed ? half - 1 : 2 * half - (narrow ? 2.0f : 1.0f);
  const float zero = c.scalar<float>(2, 0);
  return combined<float>(c, [=](float x, float scale) {
    const float code = std::nearbyint(std::clamp(x / scale + zero, low, high));
    return (code - zero) * scale;
  });
}

OnnxType cast_type(const OnnxTypes& c) {
  return {static_cast<int32_t>(c.node.integer("to", 0)), c.in(0).shape};
}

OnnxType quantized_type(const OnnxTypes& c) { return {c.in(2).element, c.in(0).shape}; }

OnnxType dequantized_type(const OnnxTypes& c) {
  return {onnx::TensorProto::FLOAT, c.in(0).shape};
}

OnnxType broadcast_type(const OnnxTypes& c) {
  Extents a = c.in(0).shape, b = c.in(1).shape;
  if (a.size() < b.size()) a.swap(b);
  b.insert(b.begin(), a.size() - b.size(), 1);
  for (size_t k = 0; k < a.size(); ++k) a[k] = a[k] == 1 ? b[k] : a[k];
  return {c.in(0).element, a};
}

constexpr Operator pointwise_table[] = {
    {"Add", add, broadcast_type},     {"Cast", cast, cast_type},
    {"Clip", clip, same_type},        {"DequantizeLinear", dequantize, dequantized_type},
    {"Div", divide, broadcast_type},  {"Max", larger, broadcast_type},
    {"Min", smaller, broadcast_type}, {"Mul", multiply, broadcast_type},
    {"Quant", quant, same_type},      {"QuantizeLinear", quantize, quantized_type},
    {"Relu", positive, same_type},    {"Sub", subtract, broadcast_type}};

}  // namespace

std::span<const Operator> pointwise_operators() { return pointwise_table; }

}  // namespace qtape::interpreter
