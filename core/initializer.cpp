#include "qtape/core/initializer.h"

#include <cmath>

#include "qtape/core/math.h"
#include "qtape/core/random.h"
#include "qtape/core/types.h"

namespace qtape {
namespace {

/// Affine transform of a standard normal or a uniform [-1, 1) variable.
struct Distribution {
  bool normal = false;
  double offset = 0;
  double scale = 0;
};

double fan_in(const Shape& shape) {
  return static_cast<double>(shape.elements()) / static_cast<double>(shape[0]);
}

double fan_out(const Shape& shape, int64_t groups) {
  return static_cast<double>(shape.elements()) / static_cast<double>(shape[-1] * groups);
}

struct DistributionOf {
  const Shape& shape;
  Distribution operator()(const init::Zeros&) const { return {}; }
  Distribution operator()(const init::Fill& fill) const { return {false, fill.value, 0}; }
  Distribution operator()(const init::KaimingNormal& k) const {
    return {true, 0, k.gain / std::sqrt(fan_in(shape))};
  }
  Distribution operator()(const init::KaimingUniform& k) const {
    return {false, 0, k.gain * std::sqrt(3.0 / fan_in(shape))};
  }
  Distribution operator()(const init::XavierNormal& x) const {
    return {true, 0, x.gain * std::sqrt(2.0 / (fan_in(shape) + fan_out(shape, x.groups)))};
  }
  Distribution operator()(const init::XavierUniform& x) const {
    return {false, 0, x.gain * std::sqrt(6.0 / (fan_in(shape) + fan_out(shape, x.groups)))};
  }
};

/// Standard normal number by Marsaglia's polar method. Each element owns 2^16 random indices,
/// far more than rejection sampling uses.
double normal(const Random& random, uint64_t element) {
  for (uint64_t index = element << 16;; index += 2) {
    const double u = 2.0 * random.uniform(index) - 1.0;
    const double v = 2.0 * random.uniform(index + 1) - 1.0;
    const double square = u * u + v * v;
    if (square > 0.0 && square < 1.0) return u * std::sqrt(-2.0 * math::log(square) / square);
  }
}

/// FNV-1a hash: maps a name to a random stream.
uint64_t stream_of(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

}  // namespace

void validate(const Initializer& initializer, const Shape& shape) {
  std::visit(
      [&]<class I>(const I& each) {
        if constexpr (requires { each.gain; }) {
          check(std::isfinite(each.gain), "gain of {} must be finite, got {}", I::name,
                each.gain);
          check(shape.rank() >= 2, "{} needs rank >= 2, got shape {}: use Zeros or Fill",
                I::name, to_string(shape));
        }
        if constexpr (requires { each.groups; }) {
          check(each.groups >= 1 && shape[0] % each.groups == 0,
                "groups of {} must divide the first extent of {}, got {}", I::name,
                to_string(shape), each.groups);
        }
        if constexpr (requires { each.value; }) {
          check(std::isfinite(each.value), "value of {} must be finite, got {}", I::name,
                each.value);
        }
      },
      initializer);
}

void initialize(const Initializer& initializer, uint64_t seed, std::string_view name,
                const TensorType& type, std::byte* value) {
  if (type.elements() == 0) return;
  const Distribution d = std::visit(DistributionOf{type.shape}, initializer);
  const Random random(seed, stream_of(name));
  dispatch_compute(type.dtype, [&]<class T>() {
    T* out = reinterpret_cast<T*>(value);
    for (int64_t i = 0; i < type.elements(); ++i) {
      const auto index = static_cast<uint64_t>(i);
      double unit = 0;
      if (d.scale != 0)
        unit = d.normal ? normal(random, index) : 2.0 * random.uniform(index) - 1.0;
      out[i] = static_cast<T>(d.offset + d.scale * unit);
    }
  });
}

}  // namespace qtape
