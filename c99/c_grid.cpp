// C code that converts sums to codes by the program's requantization.
#include "qtape/c99/c_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/core/weight_sums.h"
#include "qtape/kernels/quantize/requantize.h"

namespace qtape {

using namespace kernels;
namespace {

std::vector<Multiplier> multipliers_of(const IntegerValue& x, double scale,
                                       Requantization requantization) {
  std::vector<Multiplier> all;
  for (size_t c = 0; c < x.scales.size(); ++c) {
    all.push_back(integer::multiplier_to(scale, x, c, requantization));
  }
  return all;
}

template <class T, class Each>
std::vector<T> each_of(std::span<const Multiplier> multipliers, const Each& each) {
  std::vector<T> all;
  for (const Multiplier& m : multipliers) all.push_back(static_cast<T>(each(m)));
  return all;
}

/// True if sums have 64 bits although their codes have 8.
bool is_wide(std::string_view sum, Accumulator accumulator) {
  return sum == "int64_t" && accumulator == Accumulator::S32;
}

std::string product_wide(CSource& source) { return source.kernel("product_wide", ""); }

/// The ratios of a grid: arrays, followed by numbers.
struct Ratios {
  std::vector<std::string> arrays;
  std::vector<CWord> numbers = {};
};

/// C code of a requantization of codes and of sums of codes. `cmsis_nn` is true if CMSIS-NN
/// computes it with one rounding, and empty if CMSIS-NN does not support it.
template <class Each>
struct Written;

template <>
struct Written<requantization::FloatMultiply> {
  static constexpr std::optional<bool> cmsis_nn = std::nullopt;
  static constexpr std::string_view kind = "float";
  static constexpr std::string_view first = "zero_point";
  static constexpr std::string_view first_of_sum = "a";

  static Ratios ratios(CNode& node, std::span<const Multiplier> m, Accumulator) {
    const auto scales = each_of<float>(m, [](const Multiplier& each) { return each.ratio; });
    return {{node.source.array<float>(node.name, "scale", scales)}};
  }
  static std::string code(CNode& node, std::string_view sum, std::string index, Accumulator) {
    return node.source.kernel("code_float", fmt::format("{}_{}", sum, index),
                              {{"ACC", std::string(sum)}, {"INDEX", std::move(index)}});
  }
  static std::string sum(CNode& node) {
    return node.source.kernel("code_sum_float", "",
                              {{"ROUNDED", node.source.kernel("rounded", "")}});
  }
  static std::vector<CWord> sum_terms(const AddMultiplier& m) {
    return {CWord::of_float(m.a_ratio), CWord::of_float(m.b_ratio)};
  }
};

template <>
struct Written<requantization::OnnxQdq> {
  static constexpr std::optional<bool> cmsis_nn = std::nullopt;
  static constexpr std::string_view kind = "onnx";
  static constexpr std::string_view first = "step";
  static constexpr std::string_view first_of_sum = "a";

  static Ratios ratios(CNode& node, std::span<const Multiplier> m, Accumulator) {
    const auto scales =
        each_of<float>(m, [](const Multiplier& each) { return each.accumulator_scale; });
    return {{node.source.array<float>(node.name, "scale", scales)},
            {CWord::of_float(m.empty() ? 1.0f : m[0].output_scale)}};
  }
  static std::string code(CNode& node, std::string_view sum, std::string index, Accumulator) {
    return node.source.kernel("code_onnx", fmt::format("{}_{}", sum, index),
                              {{"ACC", std::string(sum)}, {"INDEX", std::move(index)}});
  }
  static std::string sum(CNode& node) {
    return node.source.kernel("code_sum_onnx", "",
                              {{"ROUNDED", node.source.kernel("rounded", "")}});
  }
  static std::vector<CWord> sum_terms(const AddMultiplier& m) {
    return {CWord::of_float(m.a_scale), CWord::of_float(m.b_scale),
            CWord::of_float(m.output_scale)};
  }
};

/// Fixed-point requantization: Each defines the `shift` of a multiplier and the scaling
/// function.
template <class Each>
struct FixedPoint {
  static constexpr std::string_view kind = "fixed";
  static constexpr std::string_view first = "zero_point";
  static constexpr std::string_view first_of_sum = "left";

  static Ratios ratios(CNode& node, std::span<const Multiplier> m, Accumulator accumulator) {
    const bool reduced = accumulator == Accumulator::S64;
    const auto multipliers = each_of<int32_t>(m, [&](const Multiplier& each) {
      return reduced ? reduced_mantissa(each) : each.mantissa;
    });
    const auto shifts = each_of<int8_t>(m, [&](const Multiplier& each) {
      return reduced ? 15 - each.exponent : Each::shift(each);
    });
    const std::string all = node.source.array<int32_t>(node.name, "multiplier", multipliers);
    return {{all, node.source.array<int8_t>(node.name, "shift", shifts)}};
  }
  static std::string code(CNode& node, std::string_view sum, std::string index,
                          Accumulator accumulator) {
    const bool reduced = accumulator == Accumulator::S64;
    const std::string scaled = reduced ? node.source.kernel("scaled_reduced", "")
                               : is_wide(sum, accumulator) ? Each::wide(node.source)
                                                           : Each::scaled(node.source);
    return node.source.kernel(
        "code_fixed", fmt::format("{}_{}{}", sum, index, reduced ? "_reduced" : ""),
        {{"ACC", std::string(sum)}, {"INDEX", std::move(index)}, {"SCALED", scaled}});
  }
  static std::string sum(CNode& node) {
    return node.source.kernel("code_sum_fixed", "", {{"SCALED", Each::scaled(node.source)}});
  }
  static std::vector<CWord> sum_terms(const AddMultiplier& m) {
    return c_words_of(int64_t{1} << m.left_shift, m.a.mantissa, Each::shift(m.a), m.b.mantissa,
                      Each::shift(m.b), m.output.mantissa, Each::shift(m.output));
  }
};

template <>
struct Written<requantization::SingleRounding>
    : FixedPoint<Written<requantization::SingleRounding>> {
  static constexpr std::optional<bool> cmsis_nn = true;
  static int32_t shift(const Multiplier& m) { return 31 - m.exponent; }
  static std::string scaled(CSource& source) { return source.kernel("scaled_single", ""); }
  static std::string wide(CSource& source) { return product_wide(source); }
};

template <>
struct Written<requantization::DoubleRounding>
    : FixedPoint<Written<requantization::DoubleRounding>> {
  static constexpr std::optional<bool> cmsis_nn = false;
  static int32_t shift(const Multiplier& m) { return m.exponent; }
  static std::string scaled(CSource& source) { return source.kernel("scaled_double", ""); }
  static std::string wide(CSource& source) {
    return source.kernel("scaled_double_wide", "", {{"PRODUCT", product_wide(source)}});
  }
};

/// Returns `words` followed by zero point and limits of the grid.
std::vector<CWord> with_limits(std::vector<CWord> words, const CodeGrid& grid) {
  for (int32_t each : {grid.zero_point, grid.low, grid.high}) words.push_back(CWord::of(each));
  return words;
}

}  // namespace

CStore store_codes(CNode& node, const IntegerValue& x, const CodeGrid& to,
                   std::string_view sum) {
  return requantization::dispatch(node.requantization, [&]<class Each>() -> CStore {
    using As = Written<Each>;
    const std::vector<Multiplier> m = multipliers_of(x, to.scale, node.requantization);
    node.source.kernel(fmt::format("grid_{}", As::kind), "");
    const std::string code = As::code(node, sum, m.size() == 1 ? "0" : "c", x.accumulator);
    const std::string type = node.source.prefix() + "_grid";
    Ratios ratios = As::ratios(node, m, x.accumulator);
    const std::string grid =
        node.source.constant(node.name, "grid",
                             {.type = type,
                              .pointers = std::move(ratios.arrays),
                              .first = std::string(As::first),
                              .words = with_limits(std::move(ratios.numbers), to)});
    return {code, std::string(c_type(to.dtype)), type, "&" + grid};
  });
}

CCodeSum code_sum(CNode& node, const IntegerValue& a, const IntegerValue& b,
                  const CodeGrid& to) {
  const bool of_16_bits = size_of(a.type.dtype) > 1 || size_of(b.type.dtype) > 1;
  const AddMultiplier m = add_multiplier_of(a.scales[0], b.scales[0], to.scale, of_16_bits);
  return requantization::dispatch(node.requantization, [&]<class Each>() -> CCodeSum {
    using As = Written<Each>;
    node.source.kernel(fmt::format("sum_{}", As::kind), "");
    const std::string code = As::sum(node);
    std::vector<CWord> words = As::sum_terms(m);
    for (int32_t each : {a.zero_point, b.zero_point}) words.push_back(CWord::of(each));
    const std::string terms =
        node.source.constant(node.name, "sum",
                             {.type = node.source.prefix() + "_sum",
                              .first = std::string(As::first_of_sum),
                              .words = with_limits(std::move(words), to)});
    return {code, "&" + terms};
  });
}

std::optional<bool> cmsis_single_rounding(Requantization requantization) {
  return requantization::dispatch(requantization,
                                  []<class Each>() { return Written<Each>::cmsis_nn; });
}

namespace {

/// Smallest exponent of a multiplier: CMSIS-NN's mask for right shifts has 30 bits at most.
constexpr int32_t min_exponent = -30;

/// True if CMSIS-NN's intermediate results for sums up to `bound` fit in 32 bits: the sums
/// shifted to the left, and the scaled results, which single rounding halves last.
bool fits_cmsis_nn(const Multiplier& m, int64_t bound) {
  constexpr int64_t most = int64_t{1} << 31;
  if (m.mantissa == 0) return true;
  return m.exponent >= min_exponent && bound < most >> std::max(m.exponent + 1, 0);
}

/// True if all sums up to `bound` become 0, as in channels without weights.
bool vanishes(const Multiplier& m, int64_t bound) {
  return std::ranges::all_of(
      std::array{Requantization::SingleRounding, Requantization::DoubleRounding},
      [&](Requantization each) {
        return requantize(bound, m, each) == 0 && requantize(-bound, m, each) == 0;
      });
}

/// Returns an upper bound of the magnitudes of the sums of each output over 8-bit codes.
std::vector<int64_t> bounds_of(const QuantizedWeights& weights) {
  const std::vector<int8_t> codes = weights.unpacked();
  const std::vector<int32_t> biases = weights.all_biases();
  std::vector<WeightSums> sums(biases.size());
  WeightSummation()(codes.data(), weights.terms(), true, 1, sums);
  std::vector<int64_t> bounds;
  for (size_t c = 0; c < sums.size(); ++c) {
    const int64_t bound = 255 * sums[c].magnitude + std::abs(int64_t{biases[c]});
    bounds.push_back(std::min(bound, weights.certificate.accumulator_bound));
  }
  return bounds;
}

}  // namespace

std::string not_by_cmsis_nn(const CUse& use, const QuantizedWeights& weights) {
  if (use.grid == nullptr) return "its sums do not become codes, the only output of CMSIS-NN";
  if (use.x->type.dtype != DType::S8 || use.grid->dtype != DType::S8) {
    return fmt::format("CMSIS-NN is called for 8-bit codes, here {} become {}",
                       to_string_view(use.x->type.dtype), to_string_view(use.grid->dtype));
  }
  const std::vector<double>& scales = use.output->scales;
  const std::vector<int64_t> bounds = bounds_of(weights);
  for (size_t c = 0; c < bounds.size(); ++c) {
    const Multiplier m = multiplier_of(scales[scales.size() == 1 ? 0 : c], use.grid->scale);
    if (fits_cmsis_nn(m, bounds[c])) continue;
    if (m.exponent < min_exponent && vanishes(m, bounds[c])) continue;
    return "its sums pass the 32 bits in which CMSIS-NN scales them";
  }
  return "";
}

std::string not_a_sum_by_cmsis_nn(const IntegerValue& a, const IntegerValue& b,
                                  const CodeGrid& to) {
  for (DType dtype : {a.type.dtype, b.type.dtype, to.dtype}) {
    if (dtype == DType::S8) continue;
    return fmt::format("CMSIS-NN is called for 8-bit codes, here are {}",
                       to_string_view(dtype));
  }
  const AddMultiplier m = add_multiplier_of(a.scales[0], b.scales[0], to.scale, false);
  const int64_t shifted = int64_t{255} << m.left_shift;
  const bool fits = fits_cmsis_nn(m.a, shifted) && fits_cmsis_nn(m.b, shifted) &&
                    fits_cmsis_nn(m.output, 2 * shifted);
  return fits ? "" : "its sums pass the 32 bits in which CMSIS-NN scales them";
}

std::string cmsis_grid(CNode& node, const IntegerValue& x, const CodeGrid& to,
                       int64_t channels) {
  std::vector<Multiplier> m = multipliers_of(x, to.scale, node.requantization);
  for (Multiplier& each : m) {
    if (each.exponent < min_exponent) each.mantissa = each.exponent = 0;
  }
  if (m.size() == 1) m.resize(static_cast<size_t>(channels), m[0]);
  const auto multipliers =
      each_of<int32_t>(m, [](const Multiplier& each) { return each.mantissa; });
  const auto shifts = each_of<int32_t>(m, [](const Multiplier& each) { return each.exponent; });
  node.source.kernel("cmsis_grid", "");
  const std::string first = node.source.array<int32_t>(node.name, "multiplier", multipliers);
  const std::string second = node.source.array<int32_t>(node.name, "shift", shifts);
  const std::string name = node.source.constant(node.name, "grid",
                                                {.type = node.source.prefix() + "_cmsis_grid",
                                                 .pointers = {first, second},
                                                 .first = "zero_point",
                                                 .words = with_limits({}, to)});
  return fmt::format("&{}", name);
}

std::string cmsis_sum(CNode& node, const IntegerValue& a, const IntegerValue& b,
                      const CodeGrid& to) {
  const AddMultiplier m = add_multiplier_of(a.scales[0], b.scales[0], to.scale, false);
  node.source.kernel("cmsis_sum", "");
  const std::string name = node.source.constant(
      node.name, "sum",
      {.type = node.source.prefix() + "_cmsis_sum",
       .first = "left",
       .words = with_limits(
           c_words_of(m.left_shift, m.a.mantissa, m.a.exponent, m.b.mantissa, m.b.exponent,
                      m.output.mantissa, m.output.exponent, a.zero_point, b.zero_point),
           to)});
  return fmt::format("&{}", name);
}

bool rounds_once(Requantization requantization) {
  return cmsis_single_rounding(requantization).value_or(false);
}

}  // namespace qtape
