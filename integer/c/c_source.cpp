#include "qtape/integer/c/c_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "qtape/core/error.h"
#include "qtape/integer/c/kernel_texts.h"
#include "qtape/integer/integer_ops.h"

namespace qtape {
namespace {

bool is_letter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string_view stem_of(std::string_view file) { return file.substr(0, file.find('.')); }

bool is_kernel(std::string_view name) {
  return std::ranges::any_of(c_kernel_texts(),
                             [&](const auto& each) { return stem_of(each.first) == name; });
}

std::string_view text_of(std::string_view kernel) {
  for (const auto& [name, text] : c_kernel_texts()) {
    if (stem_of(name) == kernel) return text;
  }
  fail<GraphError>("there is no kernel {} in C", kernel);
}

/// `text` with its placeholders `@name` filled in; `@_name` has the prefix.
std::string filled(std::string_view text, const std::string& prefix, const std::string& self,
                   const CParameters& parameters) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '@') {
      result += text[at++];
      continue;
    }
    size_t end = ++at;
    while (end < text.size() && is_letter(text[end])) ++end;
    const std::string_view name = text.substr(at, end - at);
    at = end;
    if (name.starts_with('_')) {
      result += prefix + std::string(name);
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

/// Numbers in lines of at most 99 columns.
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

/// What stands behind the name of an array.
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

std::string c_float(double v) {
  const auto narrow = static_cast<float>(v);
  if (std::isinf(narrow)) return narrow < 0 ? "-(1.0f / 0.0f)" : "(1.0f / 0.0f)";
  return fmt::format("{:a}f", narrow);
}

template <class T>
std::string c_array(std::string_view name, std::span<const T> values) {
  return fmt::format("static const {} {}{};\n", type_name<T>, name, elements_of(values));
}

std::string CSource::define(std::string_view of, std::string_view name, std::string_view before,
                            std::string_view after, int64_t bytes) {
  std::string part = fmt::format("{}_{}", of, name);
  // Kernels define types of their name.
  if (is_kernel(part)) part += "_value";
  const auto [at, added] = shared_.try_emplace(fmt::format("{}{}", before, after),
                                               fmt::format("{}_{}", prefix_, part));
  if (added) {
    constants_ += fmt::format("static const {} {}{};\n\n", before, at->second, after);
    arrays_.push_back({std::string(of), bytes});
  }
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
std::string CSource::array(std::string_view of, std::string_view name,
                           std::span<const T> values) {
  return define(of, name, type_name<T>, elements_of(values),
                static_cast<int64_t>(values.size_bytes()));
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

std::string CSource::constant(std::string_view of, std::string_view name, std::string_view type,
                              std::string_view initializer, int64_t bytes) {
  return define(of, name, type, fmt::format(" = {{{}}}", initializer), bytes);
}

std::string CSource::helium_array(std::string_view of, std::string_view name,
                                  std::span<const int32_t> values) {
  const std::string whole = fmt::format("{}_{}_{}", prefix_, of, name);
  constants_ += fmt::format("#if defined(ARM_MATH_MVEI)\n{}#else\n#define {} 0\n#endif\n\n",
                            c_array(whole, values), whole);
  return whole;
}

void CSource::lend(const CBuffer& buffer) {
  buffer_.plain = std::max(buffer_.plain, buffer.plain);
  buffer_.dsp = std::max(buffer_.dsp, buffer.dsp);
  buffer_.helium = std::max(buffer_.helium, buffer.helium);
}

std::string CSource::table(std::string_view of, std::string_view name, std::string_view type,
                           std::string_view initializer, int64_t bytes) {
  return define(of, name, type, fmt::format("[] = {{{}}}", initializer), bytes);
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

void CNode::call(std::string_view function, std::span<const std::string> arguments) {
  code += fmt::format("{}({});\n", function, fmt::join(arguments, ", "));
}

}  // namespace qtape
