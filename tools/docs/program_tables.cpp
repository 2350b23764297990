#include "qtape/tools/docs/program_tables.h"

#include <fmt/format.h>

#include <bit>

#include "qtape/engine/json_file.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/integer_program.h"
#include "qtape/kernels/quantize/requantize.h"

namespace qtape {

using namespace kernels;
namespace {

/// Returns the JSON type of an attribute.
template <class T>
std::string type_text() {
  if constexpr (std::is_same_v<T, DType>) {
    return "text";
  } else if constexpr (NamedEnum<T>) {
    std::string text;
    for (std::string_view name : enum_names<T>) {
      text += fmt::format("{}`\"{}\"`", text.empty() ? "" : ", ", name);
    }
    return text;
  } else if constexpr (is_optional<T>) {
    return type_text<typename T::value_type>() + " or null";
  } else if constexpr (std::is_same_v<T, bool>) {
    return "`true`, `false`";
  } else if constexpr (std::is_integral_v<T>) {
    return fmt::format("integer, {} bits", 8 * sizeof(T));
  } else if constexpr (std::is_floating_point_v<T>) {
    return "number";
  } else if constexpr (std::is_same_v<T, Tensor>) {
    return "tensor";
  } else if constexpr (std::is_same_v<T, Shape> || is_vector<T>) {
    return "list of integers";
  } else {
    return fmt::format("{}, below", T::name);
  }
}

template <class T>
std::string default_text(const T& value) {
  if constexpr (std::is_same_v<T, Tensor>) {
    return "none";
  } else if constexpr (Described<T>) {
    return "its own";
  } else {
    return fmt::format("`{}`", write_json(value).dump());
  }
}

template <class T>
std::string typed_attributes() {
  const T defaults{};
  std::string text = "\n| attribute | type | default | meaning |\n| --- | --- | --- | --- |\n";
  for_each_field<T>([&](const auto& each) {
    const auto& value = defaults.*each.member;
    text +=
        fmt::format("| `{}` | {} | {} | {} |\n", each.key,
                    type_text<std::decay_t<decltype(value)>>(), default_text(value), each.doc);
  });
  return text;
}

template <class T>
std::string section_text() {
  return fmt::format("\n### Attributes of {}\n", T::name) + typed_attributes<T>();
}

std::string limits_text() {
  std::string text = "\n### Largest sizes\n\n| | at most |\n| --- | --- |\n";
  const auto add = [&](std::string_view what, int64_t value) {
    text += fmt::format("| {} | {} |\n", what, value);
  };
  add("axes of a tensor", Shape::max_rank);
  add("elements of a tensor", Shape::max_elements);
  add("weights and outputs of a Linear or a Conv (k, n), terms of a Sum", max_terms);
  add("magnitude of accumulators that are requantized", max_accumulator - 1);
  add("bytes of a file", max_file_bytes);
  return text;
}

uint32_t bits_of(float v) { return std::bit_cast<uint32_t>(v); }

/// S and s_y of the examples: powers of two, a tie of the mantissa, both ends.
struct Scales {
  double accumulators;
  double output;
};
const std::vector<Scales> examples = {{0.5, 1},
                                      {0.25, 1},
                                      {(1 + 0x1p-16) * (1 + 0x1p-15) * 0x1p-15, 1},
                                      {double{0.037f} * double{0.0021f}, double{0.11f}},
                                      {0x1.fffffep-1, 1},
                                      {double{0.9f} * double{0.7f}, double{0.013f}},
                                      {0x1p-32, 1},
                                      {0x1.fffffep-33, 1},
                                      {0x1p40, 1}};

std::string multipliers_text() {
  std::string text =
      "\n### Examples of multipliers\n\nFloats are C's hexadecimal ones, `ratio` its 32 "
      "bits.\n\n| S | s_y | ratio | m | sh | r |\n| --- | --- | --- | --- | --- | --- |\n";
  for (const auto& [accumulators, output] : examples) {
    const Multiplier m = multiplier_of(accumulators, output);
    text += fmt::format("| `{:a}` | `{:a}` | `{:#010x}` | {} | {} | {} |\n", accumulators,
                        output, bits_of(m.ratio), m.mantissa, m.exponent, reduced_mantissa(m));
  }
  return text;
}

std::string requantized_text() {
  std::string text =
      "\n### Examples of requant\n\nThe last column holds for accumulators of 16-bit codes in "
      "`SingleRounding` and "
      "`DoubleRounding`.\n\n| S | s_y | acc |";
  std::string rule = "\n| --- | --- | --- |";
  for (std::string_view name : enum_names<Requantization>) {
    text += fmt::format(" `{}` |", name);
    rule += " --- |";
  }
  text += " accumulators of 16-bit codes |" + rule + " --- |\n";
  for (const auto& [accumulators, output] : examples) {
    const Multiplier m = multiplier_of(accumulators, output);
    for (int64_t acc : {3LL, -2LL, -100001LL, 2147483647LL, -249848654099LL}) {
      text += fmt::format("| `{:a}` | `{:a}` | {} |", accumulators, output, acc);
      for (Requantization requantization : requantization::values) {
        text += fmt::format(" {} |", requantize(acc, m, requantization));
      }
      text += fmt::format(" {} |\n",
                          requantize(acc, m, Requantization::SingleRounding, Accumulator::S64));
    }
  }
  return text;
}

}  // namespace

std::string program_tables() {
  std::string text;
  for_each_alternative<IntegerOp>([&]<class T>() { text += section_text<T>(); });
  text +=
      section_text<CodeGrid>() + section_text<QuantizedWeights>() + section_text<Certificate>();
  return text + limits_text() + multipliers_text() + requantized_text() + "\n";
}

}  // namespace qtape
