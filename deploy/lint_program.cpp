#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "qtape/core/float_environment.h"
#include "qtape/core/printable.h"
#include "qtape/deploy/lint.h"
#include "qtape/deploy/lint_text.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/kernels/quantize/pack.h"

namespace qtape {

using namespace kernels;
namespace {

constexpr int64_t largest_denominator = 1024;

/// Returns q if `ratio` is p / q in lowest terms, within the rounding of f32, for q up to 64 or
/// a power of two up to 1024; otherwise 0. Accumulators are multiples of 1 / q on the target
/// grid, so for an even q one in q of them is a tie.
int64_t denominator_of(double ratio) {
  const auto matches = [ratio](int64_t q) {
    const double scaled = ratio * static_cast<double>(q);
    const double p = std::nearbyint(scaled);
    return p >= 1 && std::abs(scaled - p) <= 0x1p-24 * p;
  };
  for (int64_t q = 1; q <= 64; ++q) {
    if (matches(q)) return q;
  }
  for (int64_t q = 128; q <= largest_denominator; q *= 2) {
    if (matches(q)) return q;
  }
  return 0;
}

/// Returns `A, B and C`: the requantizations that round ties to even, or the others.
std::string names_of(bool ties_to_even) {
  std::vector<std::string_view> names;
  requantization::for_each([&]<class Each>() {
    if (Each::ties_to_even == ties_to_even) names.push_back(Each::name);
  });
  const std::string_view last = names.back();
  names.pop_back();
  return names.empty() ? std::string(last)
                       : fmt::format("{} and {}", fmt::join(names, ", "), last);
}

std::string tie_text(int64_t q, std::string_view noun) {
  return fmt::format(
      "1 of {} {} lies halfway between two codes, where {} round to even but {} do not", q,
      noun, names_of(true), names_of(false));
}

constexpr std::string_view tie_remedy =
    "train in exact arithmetic with the target's requantization, or change a scale slightly";

/// Returns the largest magnitude that requantization multiplies.
int64_t reach_of(const IntegerValue& x) {
  return x.is_codes() ? x.limit() : std::max(std::abs(x.low), std::abs(x.high));
}

class ProgramLinter {
 public:
  explicit ProgramLinter(const IntegerProgram& program) : program_(program) {}

  std::vector<Finding> run() {
    for (const ProgramNodeId id : ids(program_)) {
      id_ = id;
      if (const QuantizedWeights* w = weights_of(program_[id_].op)) look(*w);
      std::visit([&](const auto& op) { look_at_grid(op); }, program_[id_].op);
    }
    if (program_.outputs().empty()) {
      findings_.push_back({Severity::Error, "program", "has no outputs",
                           "convert the model again, or name the outputs in the file"});
    }
    std::ranges::stable_sort(findings_, {}, &Finding::severity);
    return std::move(findings_);
  }

 private:
  std::string name(ProgramNodeId id) const {
    return program_[id].label.empty() ? program_.describe(id) : printable(program_[id].label);
  }
  void add(Severity severity, std::string what, std::string_view remedy) {
    findings_.push_back({severity, name(id_), std::move(what), std::string(remedy)});
  }
  ProgramNodeId operand_id(size_t k) const { return program_[id_].operands[k]; }
  const IntegerValue& operand(size_t k) const { return program_[operand_id(k)].value; }

  void look(const QuantizedWeights& w) {
    const std::vector<int8_t> codes = w.unpacked();
    const auto* first = reinterpret_cast<const int32_t*>(w.bias.data.data());
    biases(w, codes, {first, w.bias.data.size() / sizeof(int32_t)});
    accumulators(w.certificate);
    storage(w, codes);
  }

  void biases(const QuantizedWeights& op, std::span<const int8_t> weights,
              std::span<const int32_t> biases) {
    const auto k = static_cast<size_t>(op.terms());
    const IntegerValue factors = factors_of(program_[id_].op, operand(0));
    std::vector<int64_t> limited, large;
    for (size_t c = 0; c < biases.size(); ++c) {
      const int64_t bias = std::abs(int64_t{biases[c]});
      const auto row = weights.subspan(c * k, k);
      const AccumulatorRange range = accumulator_range(row, 0, factors);
      const int64_t products = std::max(std::abs(range.low), std::abs(range.high));
      if (bias >= Certificate::s32_limit)
        limited.push_back(static_cast<int64_t>(c));
      else if (products > 0 && bias > products)
        large.push_back(static_cast<int64_t>(c));
    }
    if (!limited.empty()) {
      add(Severity::Warning,
          fmt::format("bias of {} is clamped to the range of s32",
                      channels_text(limited, op.outputs())),
          "give the input or the weights a larger scale: their product is the step of the "
          "bias");
    }
    if (!large.empty()) {
      add(Severity::Note,
          fmt::format("bias of {} is larger than any sum of the products",
                      channels_text(large, op.outputs())),
          "no input changes the sign of this sum: retrain it if a ReLU reads it");
    }
  }

  void accumulators(const Certificate& c) {
    if (!c.fits_s32()) {
      add(Severity::Warning,
          fmt::format("accumulators can reach {}, beyond s32, and are computed in s64",
                      c.accumulator_bound),
          "targets that sum in 32 bits overflow: use fewer bits or a shorter sum");
    }
    if (c.exact_in_f32()) return;
    const bool int8 = c.part_bound <= Certificate::s32_limit;
    const bool pairs = c.exact_in_pairs();
    add(Severity::Note,
        fmt::format(
            "accumulators of products can reach {}, beyond f32's 2^24{}: {}plain loops on all "
            "other processors",
            c.part_bound, pairs ? "" : fmt::format(", and pairs {}, beyond 2^15", c.pair_bound),
            !int8   ? ""
            : pairs ? "int8 with VNNI, AVX-512 or oneDNN 2, "
                    : "int8 where it is added in 32 bits (VNNI), "),
        "use weights of fewer bits, which are fast everywhere");
  }

  void storage(const QuantizedWeights& op, const std::vector<int8_t>& weights) {
    if (size_of(operand(0).type.dtype) == 2) {
      add(Severity::Note, "input has more than 8 bits: every product is computed twice",
          "quantize it to 8 bits where accuracy allows");
    }
    if (weights.empty()) return;
    const auto [low, high] = std::ranges::minmax(weights);
    const int fitting = storage_bits(low, high);
    if (fitting >= op.storage_bits) return;
    add(Severity::Note,
        fmt::format("weights have the codes {}..{}, which fit {} bits, and are stored in {}",
                    low, high, fitting, op.storage_bits),
        "give their quantizer that many bits, with the same scale");
  }

  template <class X>
  void look_at_grid(const X& op) {
    if constexpr (std::is_same_v<X, integer::Requantize>) requantized(op.grid);
    if constexpr (std::is_same_v<X, integer::Mul>) multiplied(op.grid);
    if constexpr (std::is_same_v<X, integer::Add> || std::is_same_v<X, integer::Sub>) {
      added(op.grid);
    }
  }

  void requantized(const CodeGrid& grid) {
    const IntegerValue& x = operand(0);
    const auto reach = static_cast<double>(reach_of(x));
    // A value that is always 0 fits every grid; one that is clamped to one code is as intended.
    if (reach == 0 || grid.low == grid.high) return;
    // Between codes of nearly equal grids a few codes are always skipped.
    const double finest = x.is_codes() ? 2 : 1;
    std::vector<int64_t> vanish, coarse, ties;
    double least = 1;
    double most = 1;
    double largest = 0;
    int64_t tie = 0;
    for (size_t c = 0; c < x.scales.size(); ++c) {
      const double ratio = x.scales[c] / grid.scale;
      // In Q31 ratios below 2^-32 vanish.
      if (ratio * reach < 0.5 || ratio < 0x1p-32) vanish.push_back(static_cast<int64_t>(c));
      if (ratio > finest) coarse.push_back(static_cast<int64_t>(c));
      least = std::min(least, ratio);
      most = std::max(most, ratio);
      largest = std::max(largest, ratio);
      const int64_t q = denominator_of(ratio);
      if (q == 0 || q % 2 != 0) continue;
      ties.push_back(static_cast<int64_t>(c));
      tie = tie == 0 ? q : std::min(tie, q);
    }
    report_vanishing(vanish, least, reach);
    report_few(grid, largest, reach);
    if (!coarse.empty()) {
      const bool leaps = most >= grid.high - grid.low;
      add(leaps ? Severity::Warning : Severity::Note,
          fmt::format("{}{} are up to {:.3g} steps apart: not every code can occur",
                      of_channels(coarse), noun(), most),
          "give it fewer bits or a larger scale");
    }
    if (!ties.empty())
      add(Severity::Warning, of_channels(ties) + tie_text(tie, noun()), tie_remedy);
  }

  /// Reports channels in which every code is the zero point. Some of many may be small by
  /// themselves, such as those of a small factor.
  void report_vanishing(const std::vector<int64_t>& channels, double ratio, double reach) {
    if (channels.empty()) return;
    const bool all = channels.size() == operand(0).scales.size();
    add(all ? Severity::Warning : Severity::Note,
        fmt::format("{}{} up to {}, times {:.3g}, round to 0: every code is the zero point",
                    of_channels(channels), noun(), reach, ratio),
        all ? "calibrate it again: its scale is too large"
            : "if they matter compared with the other channels, give it more bits");
  }

  /// Reports codes of which few remain on a grid with many more.
  void report_few(const CodeGrid& grid, double ratio, double reach) {
    constexpr double few = 8;
    const double remaining = ratio * reach + 1;
    const double least = std::min<double>(reach, static_cast<double>(grid.high - grid.low));
    if (ratio * reach < 0.5 || remaining >= few || least < 4 * remaining) return;
    add(Severity::Warning,
        fmt::format("about {:.0f} of {:.0f} codes remain", remaining, reach + 1),
        "calibrate it again; if its values are small compared with others on the same grid, such "
        "as that of a Concat, give it more bits or make both separate answers");
  }

  /// Returns the kind of integers that a Requantize reads.
  std::string_view noun() const {
    return operand(0).is_accumulators() ? "accumulators" : "codes";
  }
  /// Returns `in channel 3 of 8, `, or an empty string if there is a single scale.
  std::string of_channels(const std::vector<int64_t>& channels) const {
    const auto all = static_cast<int64_t>(operand(0).scales.size());
    return all == 1 ? "" : fmt::format("in {}, ", channels_text(channels, all));
  }

  void multiplied(const CodeGrid& grid) {
    const IntegerValue& a = operand(0);
    const IntegerValue& b = operand(1);
    const double reach = static_cast<double>(a.limit()) * static_cast<double>(b.limit());
    const double ratio = a.scales[0] * b.scales[0] / grid.scale;
    if (reach == 0 || ratio * reach >= 0.5) return;
    add(Severity::Warning,
        fmt::format(
            "products of codes up to {:.0f}, times {:.3g}, round to 0: every code is the "
            "zero point",
            reach, ratio),
        "calibrate it again: its scale is too large");
  }

  void added(const CodeGrid& grid) {
    const bool difference = std::holds_alternative<integer::Sub>(program_[id_].op);
    if (difference && operand_id(0) == operand_id(1)) return;  // always 0
    // The codes of a sum of a value with itself are even.
    const double twice = operand_id(0) == operand_id(1) ? 2 : 1;
    int64_t q = 1;
    for (size_t k = 0; k < 2; ++k) {
      if (operand(k).limit() == 0) continue;  // always 0
      const double ratio = twice * operand(k).scales[0] / grid.scale;
      const double steps = ratio * static_cast<double>(operand(k).limit());
      if (steps < 1) {
        add(Severity::Warning,
            fmt::format("summand {} is at most {:.2g} of a step of the sum",
                        name(operand_id(k)), steps),
            "it hardly changes the sum: give the sum more bits, or calibrate all three "
            "together");
      }
      q = std::lcm(q, denominator_of(ratio));
    }
    if (q > 0 && q <= largest_denominator && q % 2 == 0)
      add(Severity::Warning, tie_text(q, "accumulators"), tie_remedy);
  }

  const IntegerProgram& program_;
  ProgramNodeId id_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> lint(const IntegerProgram& program) {
  const FloatEnvironment floats;
  return ProgramLinter(program).run();
}

}  // namespace qtape
