#include "qtape/c99/c_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>

#include "qtape/c99/c_hash.h"
#include "qtape/c99/c_names.h"
#include "qtape/c99/c_writers.h"
#include "qtape/c99/kernel_texts.h"
#include "qtape/core/error.h"

namespace qtape {
namespace {

bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

std::string_view stem_of(std::string_view file) { return file.substr(0, file.find('.')); }

bool is_kernel(std::string_view name) {
  return std::ranges::any_of(c_kernel_texts(),
                             [&](const auto& each) { return stem_of(each.first) == name; });
}

/// True for the first word of functions and variables of the program, such as NAME_step_codes.
bool is_reserved(std::string_view word) {
  constexpr std::array<std::string_view, 9> words = {
      "begin", "constant", "end", "glue", "result", "run", "static", "step", "test"};
  return std::ranges::find(words, word) != words.end();
}

std::string_view text_of(std::string_view kernel) {
  for (const auto& [name, text] : c_kernel_texts()) {
    if (stem_of(name) == kernel) return text;
  }
  fail<GraphError>("there is no kernel {} in C", kernel);
}

/// Returns `text` with its placeholders `@name` replaced by their values; `@_name` becomes the
/// prefix followed by `_name`, `@^_NAME` the same with the prefix in capitals.
std::string filled(std::string_view text, const std::string& prefix, const std::string& self,
                   const CParameters& parameters) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '@') {
      result += text[at++];
      continue;
    }
    ++at;
    const bool macro = at < text.size() && text[at] == '^';
    if (macro) ++at;
    size_t end = at;
    while (end < text.size() && is_word_character(text[end])) ++end;
    const std::string_view name = text.substr(at, end - at);
    at = end;
    if (name.starts_with('_')) {
      result += (macro ? c_macro(prefix) : prefix) + std::string(name);
    } else if (name == "self") {
      result += self;
    } else {
      const auto found = std::ranges::find(parameters, name, &CParameters::value_type::first);
      require<GraphError>(found != parameters.end(), "{}: @{} has no value", self, name);
      result += found->second;
    }
  }
  return result;
}

template <class T>
std::string number(T v) {
  if constexpr (std::is_floating_point_v<T>) return c_float(v);
  return fmt::format("{}", v);
}

/// Formats numbers in lines of at most 99 columns.
template <class T>
std::string lines_of(std::span<const T> values) {
  std::string text;
  size_t column = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string each = number(values[i]) + (i + 1 < values.size() ? "," : "");
    if (column == 0 || column + each.size() + 1 > 99) {
      text += text.empty() ? "    " : "\n    ";
      column = 4;
    } else {
      text += ' ';
      ++column;
    }
    text += each;
    column += each.size();
  }
  return text;
}

/// Returns the part of an array definition that follows its name.
template <class T>
std::string elements_of(std::span<const T> values) {
  // C has no arrays without elements.
  if (values.empty()) return "[1] = {0}";
  return fmt::format("[{}] = {{\n{}}}", values.size(), lines_of(values));
}

template <class T>
constexpr std::string_view type_name = "";
template <>
constexpr std::string_view type_name<float> = "float";
template <>
constexpr std::string_view type_name<int8_t> = "int8_t";
template <>
constexpr std::string_view type_name<uint8_t> = "uint8_t";
template <>
constexpr std::string_view type_name<int16_t> = "int16_t";
template <>
constexpr std::string_view type_name<uint16_t> = "uint16_t";
template <>
constexpr std::string_view type_name<int32_t> = "int32_t";
template <>
constexpr std::string_view type_name<uint32_t> = "uint32_t";
template <>
constexpr std::string_view type_name<int64_t> = "int64_t";

}  // namespace

std::string_view c_type(DType dtype) {
  switch (dtype) {
    case DType::S8:
      return "int8_t";
    case DType::U8:
      return "uint8_t";
    case DType::S16:
      return "int16_t";
    case DType::U16:
      return "uint16_t";
    case DType::S32:
      return "int32_t";
    case DType::S64:
      return "int64_t";
    default:
      return "float";
  }
}

namespace {

std::string infinity(float v) { return v < 0 ? "-(1.0f / 0.0f)" : "(1.0f / 0.0f)"; }

/// Hexadecimal digits of a finite value, with a point in every locale.
std::string hexadecimal(double v) {
  std::array<char, 32> digits{};
  const char* end =
      std::to_chars(digits.begin(), digits.end(), std::abs(v), std::chars_format::hex).ptr;
  return fmt::format("{}0x{}", std::signbit(v) ? "-" : "",
                     std::string_view(digits.begin(), end));
}

}  // namespace

std::string c_float(double v) {
  const auto narrow = static_cast<float>(v);
  return std::isinf(narrow) ? infinity(narrow) : hexadecimal(narrow) + "f";
}

std::string c_decimal(double v) {
  const auto narrow = static_cast<float>(v);
  return std::isinf(narrow) ? infinity(narrow) : fmt::format("{:#}f", narrow);
}

template <class T>
std::string c_array(std::string_view name, std::span<const T> values) {
  return fmt::format("static const {} {}{};\n", type_name<T>, name, elements_of(values));
}

CWord CWord::of(int64_t v) { return {fmt::format("{}", v), static_cast<uint32_t>(v)}; }

CWord CWord::of_float(double v) {
  return {c_float(v), std::bit_cast<uint32_t>(static_cast<float>(v))};
}

std::string CSource::define(Array array, std::string_view name, std::string_view before,
                            std::string_view after) {
  std::string part = fmt::format("{}_{}", array.of, name);
  // Kernels define types whose names must not be reused.
  if (is_kernel(part) || is_reserved(array.of)) part += "_value";
  const auto [at, added] = shared_.try_emplace(fmt::format("{}{}", before, after),
                                               fmt::format("{}_{}", prefix_, part));
  if (!added) return at->second;
  constants_ += fmt::format("static const {} {}{};\n\n", before, at->second, after);
  array.name = at->second;
  const size_t place = array.hashed.find('@');
  if (place != std::string::npos) array.hashed.replace(place, 1, array.name);
  arrays_.push_back(std::move(array));
  return at->second;
}

std::string CSource::kernel(std::string_view name, std::string_view variant,
                            const CParameters& parameters) {
  const std::string base =
      fmt::format("{}_{}{}{}", prefix_, name, variant.empty() ? "" : "_", variant);
  std::string self = base;
  for (int count = 2;; ++count) {
    std::string text = filled(text_of(name), prefix_, self, parameters);
    const auto [at, added] = texts_.try_emplace(self, text);
    if (added) kernels_ += text + "\n";
    if (added || at->second == text) return self;
    self = fmt::format("{}_{}", base, count);
  }
}

std::string CSource::text(std::string_view name, const CParameters& parameters) const {
  return filled(text_of(name), prefix_, {}, parameters);
}

template <class T>
CSource::Array CSource::array_of(std::string_view of, std::span<const T> values) {
  // C has no arrays without elements, so an empty array gets one element.
  const T none = 0;
  const std::span<const T> all = values.empty() ? std::span(&none, 1) : values;
  const auto size = static_cast<int64_t>(sizeof(T));
  return {.of = std::string(of),
          .bytes = static_cast<int64_t>(values.size_bytes()),
          .hashed = fmt::format("@, {}, {}", all.size(), size),
          .hash = c_hash(c_hash_start, std::as_bytes(all), size)};
}

template <class T>
std::string CSource::array(std::string_view of, std::string_view name,
                           std::span<const T> values) {
  return define(array_of(of, values), name, type_name<T>, elements_of(values));
}

template <class T>
std::string CSource::weights(std::string_view of, std::span<const T> values) {
  Array array = array_of(of, values);
  array.is_weights = true;
  return define(std::move(array), "weights", type_name<T>, elements_of(values));
}

#define QTAPE_C_ARRAY(T)                                              \
  template std::string c_array(std::string_view, std::span<const T>); \
  template std::string CSource::array(std::string_view, std::string_view, std::span<const T>);
QTAPE_C_ARRAY(float)
QTAPE_C_ARRAY(int8_t)
QTAPE_C_ARRAY(uint8_t)
QTAPE_C_ARRAY(int16_t)
QTAPE_C_ARRAY(uint16_t)
QTAPE_C_ARRAY(int32_t)
QTAPE_C_ARRAY(uint32_t)
QTAPE_C_ARRAY(int64_t)
#undef QTAPE_C_ARRAY
template std::string CSource::weights(std::string_view, std::span<const int8_t>);
template std::string CSource::weights(std::string_view, std::span<const uint8_t>);

namespace {

uint32_t hash_of(std::span<const CWord> words) {
  uint32_t hash = c_hash_start;
  for (const CWord& each : words) hash = c_hash(hash, each.bits);
  return hash;
}

}  // namespace

std::string CSource::constant(std::string_view of, std::string_view name,
                              const CConstant& value) {
  std::vector<std::string> members = value.pointers;
  for (const CWord& each : value.words) members.push_back(each.text);
  // 32-bit members have no gaps between them.
  return define({.of = std::string(of),
                 .bytes = 4 * std::ssize(members),
                 .hashed = fmt::format("(const char *)&@ + offsetof({}, {}), {}, 4", value.type,
                                       value.first, value.words.size()),
                 .hash = hash_of(value.words)},
                name, value.type, fmt::format(" = {{{}}}", fmt::join(members, ", ")));
}

std::string CSource::table(std::string_view of, std::string_view name, std::string_view type,
                           std::span<const CWord> words, size_t members) {
  std::string list;
  for (size_t i = 0; i < words.size(); ++i) {
    list += i % members == 0 ? (i == 0 ? "{" : "}, {") : ", ";
    list += words[i].text;
  }
  return define({.of = std::string(of),
                 .bytes = 4 * std::ssize(words),
                 .hashed = fmt::format("@, {}, 4", words.size()),
                 .hash = hash_of(words)},
                name, type, fmt::format("[] = {{{}}}}}", list));
}

std::string CSource::helium_array(std::string_view of, std::string_view name,
                                  std::span<const int32_t> values) {
  Array array = array_of(of, values);
  array.bytes = 0;  // not counted: other processors do not have it
  array.helium_only = true;
  array.name = fmt::format("{}_{}_{}", prefix_, of, name);
  array.hashed.replace(0, 1, array.name);
  constants_ += fmt::format(
      "#if defined(ARM_MATH_MVEI)\n{0}#else\nstatic const int32_t *const {1} = 0;\n#endif\n\n",
      c_array(array.name, values), array.name);
  arrays_.push_back(array);
  return array.name;
}

void CSource::check_rounding(std::string_view name, std::string_view function,
                             bool single_rounding) {
  if (!rounding_check_.empty()) return;
  rounding_check_ = kernel(
      name, "", {{"FUNCTION", std::string(function)}, {"CODE", single_rounding ? "0" : "1"}});
}

void CSource::lend(const CBuffer& buffer) {
  buffer_.plain = std::max(buffer_.plain, buffer.plain);
  buffer_.dsp = std::max(buffer_.dsp, buffer.dsp);
  buffer_.helium = std::max(buffer_.helium, buffer.helium);
}

const CodeGrid* CNode::grid() const { return next == nullptr ? nullptr : grid_of(*next); }

CStore CNode::store(std::string_view sum) {
  wide_sums = wide_sums || sum == "int64_t";
  if (next != nullptr) return c_store(*next, *this, out(), sum);
  return {source.kernel("keep", sum, {{"ACC", std::string(sum)}}),
          std::string(c_type(out().type.dtype)), "void", "0"};
}

void CNode::call_each(const CStore& store) {
  const std::string x(c_type(in(0).type.dtype));
  const int64_t n = out().type.elements();
  const int64_t channels = in(0).scales.size() == 1 ? n : std::ssize(in(0).scales);
  call(
      source.kernel("each", fmt::format("{}_{}", x, store.type),
                    {{"X", x}, {"Y", store.type}, {"TO", store.to}, {"STORE", store.function}}),
      operands[0], result, n / std::max<int64_t>(1, channels), channels, in(0).zero_point,
      store.argument);
}

std::string CNode::macro(std::string_view end) const {
  return fmt::format("{}_{}", c_macro(source.prefix()), end);
}

std::string CNode::scratch_of(DType dtype) const {
  return fmt::format("{}.{} + {}", values, to_string_view(dtype),
                     scratch.value_or(0) / size_of(dtype));
}

void CNode::call(std::string_view function, std::span<const std::string> arguments) {
  code += fmt::format("{}({});\n", function, fmt::join(arguments, ", "));
}

}  // namespace qtape
