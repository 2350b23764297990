#include "qtape/tflite/import/model_notes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "qtape/core/printable.h"
#include "qtape/integer/core/quantized_weights.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/kernels/quantize/quantize.h"
#include "qtape/kernels/quantize/requantize.h"
#include "qtape/tflite/activations.h"
#include "qtape/tflite/import/tables.h"

namespace qtape::tflite {

using namespace kernels;
namespace {

/// True if both ratios of scales have the same multiplier in integers.
bool same_multiplier(double a, double b, double y_scale) {
  if (!are_scales(a, y_scale) || !are_scales(b, y_scale)) return false;
  const Multiplier of_a = multiplier_of(a, y_scale), of_b = multiplier_of(b, y_scale);
  return of_a.mantissa == of_b.mantissa && of_a.exponent == of_b.exponent;
}

/// True if the multiplier changes where the product of scales is rounded to f32.
bool has_products_of_f32(const OperatorView& view, const LinearLayer& linear) {
  if (linear.weights.scales.size() != 1) return false;
  const double x = view.grid_of(view.input(0)).scale;
  const float w = linear.weights.scales[0];
  return !same_multiplier(accumulator_scale(x, w, true), accumulator_scale(x, w, false),
                          view.grid_of(view.output()).scale);
}

/// Returns the code that a converted model computes for a code of a function.
int32_t converted_code(const FunctionLayer& layer, int32_t code, const CodeGrid& x,
                       const CodeGrid& y) {
  if (layer.function == Builtin::Relu) {
    const CodeGrid limits = limited(y, Activation::Relu);
    const int32_t scaled = requantize(code - x.zero_point, multiplier_of(x.scale, y.scale),
                                      Requantization::DoubleRounding);
    return std::clamp(scaled + y.zero_point, limits.low, limits.high);
  }
  const auto params = [](const CodeGrid& grid) -> QParams<float> {
    return {static_cast<float>(grid.scale), static_cast<float>(grid.zero_point)};
  };
  const float value = value_of(static_cast<float>(code), params(x));
  const Grid grid{.limits = {-128, 127}, .rounding = Rounding::HalfAway};
  const float mapped = map_value(op_of(layer), std::array{value});
  return static_cast<int32_t>(code_of(mapped, params(y), grid));
}

/// Returns the number of codes of which a converted model computes other codes.
int64_t differing_codes(const FunctionLayer& layer, const CodeGrid& x, const CodeGrid& y) {
  if (!are_scales(x.scale, y.scale)) return 256;
  const CodeTable table = function_table(layer, x, y);
  int64_t count = 0;
  for (int32_t code = -128; code < 128; ++code) {
    count += converted_code(layer, code, x, y) != table[static_cast<size_t>(code + 128)];
  }
  return count;
}

}  // namespace

Op op_of(const FunctionLayer& layer) {
  switch (layer.function) {
    case Builtin::Relu:
      return qtape::Relu{};
    case Builtin::LeakyRelu:
      return qtape::LeakyRelu{.negative_slope = double{layer.alpha}};
    case Builtin::HardSwish:
      return qtape::HardSwish{};
    case Builtin::Logistic:
      return qtape::Sigmoid{};
    default:
      return qtape::Tanh{};
  }
}

void ModelNotes::add(std::string_view text, const std::string& name) {
  auto found = std::ranges::find(notes_, text, &Note::text);
  if (found == notes_.end()) found = notes_.insert(found, Note{text, {}});
  found->names.push_back(name);
}

std::vector<std::string> ModelNotes::lines() const {
  constexpr size_t max_names = 4;
  std::vector<std::string> lines;
  for (const Note& note : notes_) {
    const size_t shown = std::min(max_names, note.names.size());
    const size_t more = note.names.size() - shown;
    lines.push_back(fmt::format(
        "{}: {}{}", note.text,
        fmt::join(note.names.begin(), note.names.begin() + static_cast<ptrdiff_t>(shown), ", "),
        more == 0 ? "" : fmt::format(" and {} more", more)));
  }
  return lines;
}

void ModelNotes::add_differences(const OperatorView& view, const Layer& layer) {
  const std::string name =
      fmt::format("{} '{}'", name_of(view.op().op), printable(view.output().name));
  if (std::holds_alternative<SoftmaxLayer>(layer)) {
    return add(
        "without an integer form: conversion leaves out a softmax at the end, whose operand "
        "becomes the answer",
        name);
  }
  if (const auto* linear = std::get_if<LinearLayer>(&layer)) {
    if (has_products_of_f32(view, *linear)) {
      add("codes that may differ after conversion, since the file's product of two scales is "
          "rounded to f32",
          name);
    }
  } else if (const auto* pool = std::get_if<PoolLayer>(&layer); pool && !pool->largest) {
    add("codes that may differ after conversion, since halves of the file's means are rounded "
        "away from the code 0, not from the value 0",
        name);
  } else if (const auto* function = std::get_if<FunctionLayer>(&layer)) {
    const int64_t count =
        differing_codes(*function, view.grid_of(view.input(0)), view.grid_of(view.output()));
    if (count == 0) return;
    add("codes that differ after conversion, since the file's functions are computed in fixed "
        "point",
        fmt::format("{} ({} of 256)", name, count));
  }
}

}  // namespace qtape::tflite
