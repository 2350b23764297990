#include "qtape/onnx/export/onnx_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "qtape/core/error.h"
#include "qtape/onnx/export/quant_node.h"

namespace qtape {
namespace {

/// Returns the values of codes; those of one scale are side by side.
template <class Code>
std::vector<float> times_scales(std::span<const Code> codes, std::span<const float> scales) {
  std::vector<float> values;
  const size_t of_one = codes.size() / scales.size();
  for (size_t i = 0; i < codes.size(); ++i) {
    values.push_back(static_cast<float>(codes[i]) * scales[i / of_one]);
  }
  return values;
}

}  // namespace

const Written& OnnxProgram::written(size_t i) const {
  return values[static_cast<size_t>(node().operands[i].index)];
}

std::string OnnxProgram::named(std::string_view part) const {
  return fmt::format("{}.{}", bases[at(current)], part);
}

void OnnxProgram::find_batch_axes() {
  batch_axes.assign(static_cast<size_t>(program.size()), -1);
  // Compilers to FPGAs need extents that are known.
  if (codes_in_floats() || !program.batch()) return;
  IntegerProgram larger;
  try {
    larger = program.with_batch(*program.batch() + 1);
  } catch (const GraphError&) {
    return;  // its extents are fixed
  }
  for (const ProgramNodeId id : ids(program)) {
    const Shape& shape = program[id].value.type.shape;
    const Shape& other = larger[id].value.type.shape;
    for (int axis = shape.rank(); axis-- > 0;) {
      if (shape[axis] != other[axis]) batch_axes[at(id)] = axis;
    }
  }
}

std::vector<int64_t> OnnxProgram::extents() const {
  const auto known = out().type.shape.extents();
  std::vector<int64_t> shape(known.begin(), known.end());
  const int axis = batch_axes[at(current)];
  if (axis >= 0) shape[static_cast<size_t>(axis)] = -1;
  return shape;
}

BatchExtent OnnxProgram::batch_extent(ProgramNodeId id) const {
  const int axis = batch_axes[at(id)];
  // A program of no samples is refused node by node.
  if (axis < 0 || *program.batch() == 0) return {};
  const int64_t times = program[id].value.type.shape[axis] / *program.batch();
  return {axis, times == 1 ? "batch" : fmt::format("{} batch", times)};
}

bool OnnxProgram::is_index(ProgramNodeId id) const {
  const IntegerOp& source = program[source_of_indices(program, id)].op;
  return program[id].value.type.dtype == DType::S32 &&
         (std::holds_alternative<integer::ArgMax>(source) ||
          std::holds_alternative<integer::Input>(source));
}

void OnnxProgram::check_codes(const IntegerValue& value) const {
  if (codes_in_floats() || !value.is_codes() || !is_wide(value.type.dtype)) return;
  check(in_floats(),
        "ONNX's integer products take 8-bit codes, got 16 bits: use the form qdq with opset 21 "
        "or later");
  require<GraphError>(opset >= first_onnx_opset_of_int4,
                      "codes of 16 bits need opset {}, got {}", first_onnx_opset_of_int4,
                      opset);
}

std::string OnnxProgram::transposed(const std::string& x, std::vector<int64_t> axes) {
  onnx::NodeProto& node = to.node("Transpose", {x}, named("transposed"));
  set_attribute(node, "perm", axes);
  return node.output(0);
}

std::string OnnxProgram::channels_first(size_t i) {
  if (written(i).channels_first) return written(i).name;
  return in(i).type.shape.rank() == 3 ? transposed(written(i).name, {0, 2, 1})
                                      : transposed(written(i).name, {0, 3, 1, 2});
}

std::string OnnxProgram::channels_last(const Written& x, const Shape& shape) {
  if (!x.channels_first) return x.name;
  return shape.rank() == 3 ? transposed(x.name, {0, 2, 1}) : transposed(x.name, {0, 2, 3, 1});
}

int OnnxProgram::written_axis(size_t i, int axis) const {
  if (!written(i).channels_first || axis == 0) return axis;
  return axis == in(i).type.shape.rank() - 1 ? 1 : axis + 1;
}

Shape OnnxProgram::beside(int64_t n, bool channels_first, const Shape& value) const {
  if (!channels_first) return {n};
  return value.rank() == 3 ? Shape{1, n, 1} : Shape{1, n, 1, 1};
}

std::string OnnxProgram::cast(const std::string& x, DType dtype, std::string_view part) {
  onnx::NodeProto& node = to.node("Cast", {x}, named(part));
  set_attribute(node, "to", int64_t{onnx_type(dtype)});
  return node.output(0);
}

std::string OnnxProgram::differences(const std::string& x, const IntegerValue& value) {
  const std::string wide = cast(x, DType::S32, "wide");
  if (value.zero_point == 0) return wide;
  return to.apply("Sub", {wide, to.scalar(named("zero"), DType::S32, value.zero_point)},
                  named("differences"));
}

std::string OnnxProgram::floats(const std::string& sums, const IntegerValue& value,
                                bool channels_first) {
  const std::vector<float> scales(value.scales.begin(), value.scales.end());
  if (scales == std::vector{1.0f}) return cast(sums, DType::F32, "f32");
  const Shape shape = scales.size() == 1
                          ? Shape{}
                          : beside(std::ssize(scales), channels_first, value.type.shape);
  return to.apply("Mul",
                  {cast(sums, DType::F32, "f32"),
                   to.constant<float>(named("scale"), DType::F32, shape, scales)},
                  named("value"));
}

std::string OnnxProgram::dequantized(const std::string& x, const IntegerValue& value) {
  if (codes_in_floats()) return x;
  const auto scale = static_cast<float>(value.scales[0]);
  return to.apply("DequantizeLinear",
                  {x, to.scalar(named("x_scale"), DType::F32, scale),
                   code(value.type.dtype, "x_zero", value.zero_point)},
                  named("x"));
}

std::string OnnxProgram::dequantized(std::string_view part, const std::string& codes,
                                     const std::string& zeros,
                                     const std::vector<float>& scales) {
  onnx::NodeProto& made =
      to.node("DequantizeLinear",
              {codes,
               to.constant<float>(named(fmt::format("{}_scale", part)), DType::F32,
                                  of_axis(scales.size()), scales),
               zeros},
              named(fmt::format("{}_value", part)));
  if (scales.size() > 1) set_attribute(made, "axis", int64_t{0});
  return made.output(0);
}

Shape OnnxProgram::of_axis(size_t scales) {
  return scales == 1 ? Shape{} : Shape{static_cast<int64_t>(scales)};
}

std::string OnnxProgram::weight_value(const QuantizedWeights& weights, const Shape& shape,
                                      std::span<const int8_t> codes) {
  const std::vector<float> scales = scales_of(weights);
  if (codes_in_floats()) {
    int8_t low = 0, high = 0;
    for (const int8_t each : codes) {
      low = std::min(low, each);
      high = std::max(high, each);
    }
    const std::string floats_of_codes = to.constant<float>(named("weight"), DType::F32, shape,
                                                           times_scales<int8_t>(codes, scales));
    return add_quant(to, floats_of_codes, smallest_signed_range(low, high), scales,
                     shape.rank(), named("weight_value"));
  }
  const std::vector<int8_t> zeros(scales.size());
  const auto constant = [&](std::string_view part, const Shape& of,
                            std::span<const int8_t> elements) {
    return weights.storage_bits <= 4 && opset >= first_onnx_opset_of_int4
               ? to.constant_of_4_bits(named(part), of, elements)
               : to.constant<int8_t>(named(part), DType::S8, of, elements);
  };
  const std::string name = constant("weight", shape, codes);
  return dequantized("weight", name, constant("weight_zero", of_axis(zeros.size()), zeros),
                     scales);
}

std::vector<float> OnnxProgram::scales_of(const QuantizedWeights& weights) {
  std::vector<float> scales(static_cast<size_t>(weights.scales.type.elements()));
  std::memcpy(scales.data(), weights.scales.data.data(), weights.scales.data.size());
  return scales;
}

std::string OnnxProgram::bias_value(const QuantizedWeights& weights) {
  const std::vector<float> scales(out().scales.begin(), out().scales.end());
  const std::vector<int32_t> codes = weights.all_biases();
  if (codes_in_floats()) {
    return to.constant<float>(named("bias"), DType::F32, {weights.outputs()},
                              times_scales<int32_t>(codes, scales));
  }
  const std::vector<int32_t> zeros(scales.size());
  const std::string name =
      to.constant<int32_t>(named("bias"), DType::S32, {weights.outputs()}, codes);
  return dequantized(
      "bias", name,
      to.constant<int32_t>(named("bias_zero"), DType::S32, of_axis(zeros.size()), zeros),
      scales);
}

std::string OnnxProgram::values_of(size_t i, const std::string& x, bool channels_first) {
  if (in_floats() && !is_index(node().operands[i])) {
    return in(i).is_codes() ? dequantized(x, in(i)) : x;
  }
  const std::string sums = in(i).is_codes() ? differences(x, in(i)) : x;
  return floats(sums, in(i), channels_first);
}

std::string OnnxProgram::quantized(const std::string& x, DType dtype, double step,
                                   int32_t zero_point) {
  return to.apply("QuantizeLinear",
                  {x, to.scalar(named("step"), DType::F32, static_cast<float>(step)),
                   code(dtype, "zero_point", zero_point)},
                  named("codes"));
}

std::string OnnxProgram::codes(const std::string& x, const CodeGrid& grid) {
  if (codes_in_floats()) return on_grid(x, grid);
  const auto quantized_grid = [&](const std::string& from) {
    return quantized(from, grid.dtype, grid.scale, grid.zero_point);
  };
  const bool whole = dispatch_codes(grid.dtype, [&]<class Code>() {
    using Limits = std::numeric_limits<Code>;
    return grid.low <= Limits::lowest() && grid.high >= Limits::max();
  });
  if (whole) return quantized_grid(x);
  if (is_wide(grid.dtype)) {
    // Runtimes cannot clamp 16-bit integers, so floats are clamped instead. The codes are the
    // same, because rounding is monotonic and the float limits have the limit codes.
    return quantized_grid(to.apply("Clip",
                                   {x, float_of("low", grid.low, grid.zero_point, grid.scale),
                                    float_of("high", grid.high, grid.zero_point, grid.scale)},
                                   named("limited")));
  }
  return to.apply("Clip",
                  {quantized_grid(x), code(grid.dtype, "low", grid.low),
                   code(grid.dtype, "high", grid.high)},
                  named("limited"));
}

std::string OnnxProgram::float_of(std::string_view part, int32_t code, int32_t zero_point,
                                  double scale) {
  return to.scalar(named(part), DType::F32,
                   static_cast<float>(int64_t{code} - zero_point) * static_cast<float>(scale));
}

std::string OnnxProgram::code(DType dtype, std::string_view part, int32_t value) {
  return dispatch_codes(dtype, [&]<class Code>() {
    return to.scalar<Code>(named(part), dtype, static_cast<Code>(value));
  });
}

std::string OnnxProgram::code_or_float(std::string_view part, int32_t code,
                                       const IntegerValue& value) {
  return codes_in_floats() || is_wide(value.type.dtype)
             ? float_of(part, code, value.zero_point, value.scales[0])
             : this->code(value.type.dtype, part, code);
}

TensorType OnnxProgram::type_in_model(ProgramNodeId id) const {
  const IntegerValue& value = program[id].value;
  return {codes_in_floats() && value.is_codes() ? DType::F32 : value.type.dtype,
          value.type.shape};
}

std::string OnnxProgram::on_grid(const std::string& x, const CodeGrid& grid) {
  const int64_t low = int64_t{grid.low} - grid.zero_point;
  const int64_t high = int64_t{grid.high} - grid.zero_point;
  const auto range = quant_range(low, high);
  const bool all = quant_range(0, high - low).has_value();
  check(range.has_value(),
        "codes minus the zero point must be -2^(b-1)..2^(b-1) - 1 or 0..2^b - 1, or narrow: "
        "without the lowest of signed or the highest of unsigned codes; got {}..{}{}",
        low, high, all ? ": qtape calibrate --signed-activations gives codes around 0" : "");
  // FINN reads unsigned codes only after a Relu, which changes nothing here.
  const std::string from = range->is_signed ? x : to.apply("Relu", {x}, named("positive"));
  const auto scale = static_cast<float>(grid.scale);
  return add_quant(to, from, *range, {scale}, 0, named("codes"));
}

std::string OnnxProgram::constant_codes(const CodeGrid& grid, const Tensor& codes) {
  if (!codes_in_floats()) {
    return to.constant<std::byte>(named("codes"), grid.dtype, codes.type.shape, codes.data);
  }
  std::vector<float> elements;
  dispatch_codes(grid.dtype, [&]<class Code>() {
    for (const Code each : codes.values<Code>()) {
      elements.push_back(static_cast<float>(each - grid.zero_point) *
                         static_cast<float>(grid.scale));
    }
  });
  return on_grid(to.constant<float>(named("values"), DType::F32, codes.type.shape, elements),
                 grid);
}

std::pair<std::string, std::string> OnnxProgram::unsigned_codes(const std::string& x,
                                                                const IntegerValue& value) {
  const int32_t offset = value.type.dtype == DType::S8 ? 128 : 0;
  const std::string zero =
      to.scalar(named("x_zero"), DType::U8, static_cast<uint8_t>(value.zero_point + offset));
  if (offset == 0) return {x, zero};
  const std::string wide = cast(x, DType::S32, "wide");
  const std::string shifted =
      to.apply("Add", {wide, to.scalar(named("shift"), DType::S32, offset)}, named("shifted"));
  return {cast(shifted, DType::U8, "unsigned"), zero};
}

std::pair<std::string, std::string> OnnxProgram::unsigned_weights(
    const Shape& shape, std::span<const int8_t> codes) {
  std::vector<uint8_t> shifted;
  for (int8_t each : codes) shifted.push_back(static_cast<uint8_t>(each + 128));
  return {to.constant<uint8_t>(named("weight"), DType::U8, shape, shifted),
          to.scalar<uint8_t>(named("weight_zero"), DType::U8, 128)};
}

std::string OnnxProgram::with_bias(const std::string& products, const QuantizedWeights& weights,
                                   bool channels_first) {
  const std::vector<int32_t> bias = weights.biases();
  if (bias.empty()) return products;
  const Shape shape = beside(weights.outputs(), channels_first, out().type.shape);
  return to.apply("Add",
                  {products, to.constant<int32_t>(named("bias"), DType::S32, shape, bias)},
                  named("sum"));
}

}  // namespace qtape
