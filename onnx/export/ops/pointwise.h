// Pointwise integer ops in ONNX.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "qtape/core/error.h"
#include "qtape/integer/ops/integer_ops.h"
#include "qtape/onnx/export/onnx_program.h"

namespace qtape {
namespace {

/// Returns both operands in the same axis order, in which they broadcast.
std::pair<bool, std::pair<std::string, std::string>> pair(OnnxProgram& p) {
  const bool first = p.written(0).channels_first && p.written(1).channels_first &&
                     p.in(0).type.shape.rank() == p.in(1).type.shape.rank();
  if (first) return {true, {p.written(0).name, p.written(1).name}};
  return {false, {p.channels_last(0), p.channels_last(1)}};
}

Written sum(OnnxProgram& p, std::string_view operation, const CodeGrid& grid) {
  const auto [first, names] = pair(p);
  const std::string a = p.values_of(0, names.first, first);
  const std::string b = p.values_of(1, names.second, first);
  return {p.codes(p.to.apply(operation, {a, b}, p.named("sum")), grid), first};
}

/// Adds the larger or smaller of two codes: runtimes compare integers of 32 bits, and floats.
Written choice(OnnxProgram& p, std::string_view operation) {
  const auto [first, names] = pair(p);
  const IntegerValue& x = p.in(0);
  if (p.in_floats()) {
    const std::string y = p.to.apply(
        operation, {p.dequantized(names.first, x), p.dequantized(names.second, p.in(1))},
        p.named("chosen"));
    if (p.codes_in_floats()) return {y, first};
    return {p.quantized(y, x.type.dtype, x.scales[0], x.zero_point), first};
  }
  const std::string y = p.to.apply(
      operation, {p.cast(names.first, DType::S32, "a"), p.cast(names.second, DType::S32, "b")},
      p.named("chosen"));
  return {p.cast(y, x.type.dtype, "codes"), first};
}

}  // namespace

inline Written write(const integer::Quantize& op, OnnxProgram& p) {
  check(op.rounding == Rounding::HalfEven && op.division == Division::Exact &&
            op.zero_point == ZeroPoint::AfterRounding,
        "the quantizer has rounding {}, division {} and zero point {}, but {} HalfEven, Exact "
        "and AfterRounding: give the model's input such a quantizer",
        to_string_view(op.rounding), to_string_view(op.division), to_string_view(op.zero_point),
        p.codes_in_floats() ? "QONNX's Quant" : "ONNX's QuantizeLinear");
  return {p.codes(p.written(0).name, op.grid), p.written(0).channels_first};
}

inline Written write(const integer::Requantize& op, OnnxProgram& p) {
  const bool first = p.written(0).channels_first;
  return {p.codes(p.values_of(0, p.written(0).name, first), op.grid), first};
}

inline Written write(const integer::Dequantize& op, OnnxProgram& p) {
  const bool first = p.written(0).channels_first;
  std::string x = p.values_of(0, p.written(0).name, first);
  if (op.low || op.high) {
    const auto limit = [&](std::string_view part, const std::optional<double>& v) {
      return v ? p.to.scalar(p.named(part), DType::F32, static_cast<float>(*v)) : std::string();
    };
    x = p.to.apply("Clip", {x, limit("low", op.low), limit("high", op.high)},
                   p.named("limited"));
  }
  return {x, first};
}

/// Writes the table of all rows as one, in which each row begins at a place of its own.
inline Written looked_up_by_row(const integer::Lookup& op, OnnxProgram& p,
                                const std::string& wide, int32_t least) {
  const bool first = p.written(0).channels_first;
  const int64_t rows = op.table.type.shape[0], entries = op.table.type.shape[1];
  std::vector<int32_t> starts;
  for (int64_t row = 0; row < rows; ++row) {
    starts.push_back(static_cast<int32_t>(row * entries - least));
  }
  const std::string offsets = p.to.constant<int32_t>(
      p.named("rows"), DType::S32, p.beside(rows, first, p.out().type.shape), starts);
  const std::string index = p.to.apply("Add", {wide, offsets}, p.named("place"));
  const std::string table = p.to.constant<std::byte>(p.named("table"), op.grid.dtype,
                                                     Shape{rows * entries}, op.table.data);
  return {p.to.apply("Gather", {table, index}, p.named("codes")), first};
}

inline Written write(const integer::Lookup& op, OnnxProgram& p) {
  check(!p.codes_in_floats(), "QONNX has no tables of codes");
  const std::string wide = p.cast(p.written(0).name, DType::S32, "index");
  const auto least = dispatch_codes(p.in(0).type.dtype, []<class Code>() {
    return int32_t{std::numeric_limits<Code>::lowest()};
  });
  if (op.table.type.shape.rank() == 2) return looked_up_by_row(op, p, wide, least);
  const std::string index =
      least == 0 ? wide
                 : p.to.apply("Sub", {wide, p.to.scalar(p.named("least"), DType::S32, least)},
                              p.named("place"));
  const std::string table = p.to.constant<std::byte>(p.named("table"), op.grid.dtype,
                                                     op.table.type.shape, op.table.data);
  return {p.to.apply("Gather", {table, index}, p.named("codes")), p.written(0).channels_first};
}

inline Written write(const integer::Add& op, OnnxProgram& p) { return sum(p, "Add", op.grid); }

inline Written write(const integer::Sub& op, OnnxProgram& p) { return sum(p, "Sub", op.grid); }

inline Written write(const integer::Mul& op, OnnxProgram& p) {
  if (p.in_floats()) return sum(p, "Mul", op.grid);
  const auto [first, names] = pair(p);
  const std::string product = p.to.apply(
      "Mul", {p.differences(names.first, p.in(0)), p.differences(names.second, p.in(1))},
      p.named("product"));
  const IntegerValue value{p.out().type, {p.in(0).scales[0] * p.in(1).scales[0]}};
  return {p.codes(p.floats(product, value, first), op.grid), first};
}

inline Written write(const integer::Maximum&, OnnxProgram& p) { return choice(p, "Max"); }

inline Written write(const integer::Minimum&, OnnxProgram& p) { return choice(p, "Min"); }

inline Written write(const integer::Constant& op, OnnxProgram& p) {
  return {p.constant_codes(op.grid, op.codes)};
}

}  // namespace qtape
