#include "qtape/examples/classifier/recipe.h"

#include <algorithm>

#include "qtape/core/error.h"
#include "qtape/integer/exact.h"

namespace qtape::examples {

QuantizationSchedule schedule_of(const Recipe& recipe, int64_t steps) {
  return {.delay = recipe.quantize_after,
          .freeze = recipe.freeze_after,
          .freeze_norms = recipe.freeze_norms_after.value_or(steps - steps / 3),
          .warm_up = recipe.warm_up};
}

Arithmetic arithmetic_of(const Recipe& recipe) {
  if (recipe.exact) return exact(recipe.exact);
  const bool few = std::min(recipe.weight_bits, recipe.activation_bits) < 4;
  const Products usual = few ? Products::Values : Products::Codes;
  return recipe.products.value_or(usual) == Products::Codes ? products_of_codes()
                                                            : Arithmetic{};
}

FitOptions fit_options(const Recipe& recipe, int64_t samples) {
  const int64_t steps = recipe.epochs * (samples / recipe.batch);
  return {.epochs = recipe.epochs,
          .batch = recipe.batch,
          .learning_rate = recipe.learning_rate,
          .augmentation = {.shift = recipe.shift,
                           .rotation = recipe.rotation,
                           .noise = recipe.noise},
          .quantization = schedule_of(recipe, steps),
          .arithmetic = arithmetic_of(recipe),
          .gradient_precision = recipe.gradient_precision,
          .seed = static_cast<uint64_t>(recipe.seed)};
}

namespace {

void require_powers_possible(const Recipe& recipe) {
  const bool learned =
      recipe.scale_mode == Quantization::LSQ || recipe.scale_mode == Quantization::PACT;
  require<ArgumentError>(
      !recipe.power_of_two || !learned,
      "power of two is for scales that follow data; those of {} are learned; "
      "try scale mode EMA",
      to_string_view(recipe.scale_mode));
}

}  // namespace

std::optional<Op> weight_quantizer(const Recipe& recipe) {
  require_powers_possible(recipe);
  if (recipe.weight_bits == 0) return std::nullopt;
  const int bits = static_cast<int>(recipe.weight_bits);
  if (recipe.scale_mode == Quantization::LSQ) return FakeQuantizeLSQ{.bits = bits, .axis = 0};
  return FakeQuantize{.bits = bits,
                      .axis = 0,
                      .power_of_two = recipe.power_of_two,
                      .ste = recipe.ste,
                      .scale_mode = PerBatch{}};
}

std::optional<Op> activation_quantizer(const Recipe& recipe, CodeRange range) {
  require_powers_possible(recipe);
  if (recipe.activation_bits == 0) return std::nullopt;
  const int bits = static_cast<int>(recipe.activation_bits);
  FakeQuantize quantizer{
      .bits = bits, .range = range, .power_of_two = recipe.power_of_two, .ste = recipe.ste};
  switch (recipe.scale_mode) {
    case Quantization::LSQ:
      return FakeQuantizeLSQ{.bits = bits, .range = range};
    case Quantization::PACT:
      if (range == CodeRange::Unsigned) return FakeQuantizePACT{.bits = bits};
      break;
    case Quantization::PerBatch:
      return quantizer;
    case Quantization::EMA:
    case Quantization::Delayed:
      break;
  }
  const bool delayed = recipe.scale_mode == Quantization::Delayed;
  return quantizer.with(&FakeQuantize::scale_mode, EMA{.decay = 0.99, .delayed = delayed});
}

Value quantized(const Value& x, const Recipe& recipe, CodeRange range,
                const std::string& label) {
  const auto quantizer = activation_quantizer(recipe, range);
  return quantizer ? qtape::quantized(x, *quantizer, label) : x;
}

}  // namespace qtape::examples
