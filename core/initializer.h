// Initialisers: the initial value of a parameter as a pure function of seed and name.
#pragma once

#include <string_view>
#include <variant>

#include "qtape/core/fields.h"
#include "qtape/core/types.h"

namespace qtape {

/// Weights have shape [out, ..., in]; filters are OHWI. fan_in, the number of terms of an
/// output, is the product of all extents except the first. fan_out is the product of all
/// extents except the last, divided by the groups of a convolution. Kaiming: He et al., arXiv
/// 1502.01852. Xavier: Glorot and Bengio, 2010.
namespace init {

/// All elements are 0.
struct Zeros {
  static constexpr std::string_view name = "Zeros";
  static constexpr auto fields() { return std::tuple<>{}; }
  bool operator==(const Zeros&) const = default;
};

/// All elements have the same value.
struct Fill {
  static constexpr std::string_view name = "Fill";
  double value = 0;
  static constexpr auto fields() {
    return std::tuple{field("value", &Fill::value, "value of every element, finite")};
  }
  bool operator==(const Fill&) const = default;
};

/// Normal distribution with standard deviation gain / sqrt(fan_in).
struct KaimingNormal {
  static constexpr std::string_view name = "KaimingNormal";
  double gain = 0x1.6a09e667f3bcdp0;
  static constexpr auto fields() {
    return std::tuple{field("gain", &KaimingNormal::gain,
                            "standard deviation is gain / sqrt(fan_in); sqrt 2 suits ReLU")};
  }
  bool operator==(const KaimingNormal&) const = default;
};

/// Uniform distribution on [-b, b) with b = gain sqrt(3 / fan_in).
struct KaimingUniform {
  static constexpr std::string_view name = "KaimingUniform";
  double gain = 0x1.6a09e667f3bcdp0;
  static constexpr auto fields() {
    return std::tuple{field("gain", &KaimingUniform::gain,
                            "bound is gain sqrt(3 / fan_in); sqrt 2 suits ReLU")};
  }
  bool operator==(const KaimingUniform&) const = default;
};

/// Normal distribution with standard deviation gain sqrt(2 / (fan_in + fan_out)).
struct XavierNormal {
  static constexpr std::string_view name = "XavierNormal";
  double gain = 1;
  int64_t groups = 1;
  static constexpr auto fields() {
    return std::tuple{
        field("gain", &XavierNormal::gain,
              "standard deviation is gain sqrt(2 / (fan_in + fan_out))"),
        field("groups", &XavierNormal::groups, "of the convolution: they divide fan_out")};
  }
  bool operator==(const XavierNormal&) const = default;
};

/// Uniform distribution on [-b, b) with b = gain sqrt(6 / (fan_in + fan_out)).
struct XavierUniform {
  static constexpr std::string_view name = "XavierUniform";
  double gain = 1;
  int64_t groups = 1;
  static constexpr auto fields() {
    return std::tuple{
        field("gain", &XavierUniform::gain, "bound is gain sqrt(6 / (fan_in + fan_out))"),
        field("groups", &XavierUniform::groups, "of the convolution: they divide fan_out")};
  }
  bool operator==(const XavierUniform&) const = default;
};

}  // namespace init

/// Any initialiser.
using Initializer = std::variant<init::Zeros, init::Fill, init::KaimingNormal,
                                 init::KaimingUniform, init::XavierNormal, init::XavierUniform>;

/// Throws GraphError unless `initializer` suits a parameter of `shape`. Gains and values must
/// be finite; Kaiming and Xavier require rank >= 2; groups must divide the first extent.
void validate(const Initializer& initializer, const Shape& shape);

/// Fills `value`, a tensor of `type` (f32 or f64), from `seed` and the parameter's `name`.
void initialize(const Initializer& initializer, uint64_t seed, std::string_view name,
                const TensorType& type, std::byte* value);

}  // namespace qtape
