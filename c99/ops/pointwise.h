// Pointwise integer ops in C99.
#pragma once

#include <fmt/format.h>

#include "qtape/c99/c_axes.h"
#include "qtape/c99/c_grid.h"
#include "qtape/c99/c_source.h"
#include "qtape/integer/ops/integer_ops.h"

namespace qtape {

namespace {

/// Makes each element of operand 0 what `store` makes of a sum.
template <class Op>
void store_each(const Op& op, CNode& node) {
  const std::string sum = node.in(0).type.dtype == DType::S64 ? "int64_t" : "int32_t";
  node.call_each(store(op, node, node.in(0), sum));
}

}  // namespace

inline void write(const integer::Quantize& op, CNode& node) {
  const bool before = op.zero_point == ZeroPoint::BeforeRounding;
  const bool exact = op.division == Division::Exact;
  const auto scale = static_cast<float>(op.grid.scale);
  const std::string quotient = exact ? "x[i] / scale" : "x[i] * scale";
  CSource& c = node.source;
  const std::string terms =
      !before ? quotient : fmt::format("{}({}) + before", c.kernel("rounded", ""), quotient);
  const std::string y(c_type(op.grid.dtype));
  std::string round = c.kernel("round_even", "");
  if (op.rounding != Rounding::HalfEven) round = c.kernel("round_up", "", {{"EVEN", round}});
  if (op.rounding == Rounding::HalfAway) round = c.kernel("round_away", "", {{"UP", round}});
  const int32_t after = before ? 0 : op.grid.zero_point;
  node.call_checked("NAN",
                    c.kernel("quantize", y, {{"Y", y}, {"TERMS", terms}, {"ROUND", round}}),
                    node.operands[0], node.result, node.out().type.elements(),
                    c_float(exact ? scale : 1.0f / scale), c_float(op.grid.zero_point), after,
                    c_float(op.grid.low - after), c_float(op.grid.high - after));
}

inline CStore store(const integer::Requantize& op, CNode& node, const IntegerValue& x,
                    std::string_view sum) {
  return store_codes(node, x, op.grid, sum);
}

inline void write(const integer::Requantize& op, CNode& node) { store_each(op, node); }

inline CStore store(const integer::Dequantize& op, CNode& node, const IntegerValue& x,
                    std::string_view sum) {
  const std::vector<float> scales(x.scales.begin(), x.scales.end());
  const std::string array = node.source.array<float>(node.name, "value", scales);
  const std::string index = scales.size() == 1 ? "0" : "c";
  const CParameters parameters = {{"ACC", std::string(sum)}, {"INDEX", index}};
  const std::string variant = fmt::format("{}_{}", sum, index);
  if (!op.low && !op.high) {
    return {node.source.kernel("value", variant, parameters), "float", "float", array};
  }
  const std::string type = node.source.prefix() + "_limits";
  node.source.kernel("limits", "");
  const std::string constant = node.source.constant(
      node.name, "limits",
      {.type = type,
       .pointers = {array},
       .first = "low",
       .words = {CWord::of_float(op.low.value_or(0)), CWord::of_float(op.high.value_or(0))}});
  std::string limited = "v";
  if (op.high) limited = fmt::format("v > to->high ? to->high : {}", limited);
  if (op.low) limited = fmt::format("v < to->low ? to->low : {}", limited);
  const CParameters with_limits = {
      {"ACC", std::string(sum)}, {"INDEX", index}, {"LIMITED", limited}};
  return {node.source.kernel("value_limited", variant, with_limits), "float", type,
          "&" + constant};
}

inline void write(const integer::Dequantize& op, CNode& node) { store_each(op, node); }

inline void write(const integer::Lookup& op, CNode& node) {
  const DType x = node.in(0).type.dtype;
  dispatch_codes(op.grid.dtype, [&]<class Code>() {
    const auto* codes = reinterpret_cast<const Code*>(op.table.data.data());
    const std::string array = node.source.array<Code>(
        node.name, "table", std::span(codes, static_cast<size_t>(op.table.type.elements())));
    const int64_t least =
        dispatch_codes(x, []<class X>() { return int64_t{std::numeric_limits<X>::lowest()}; });
    const std::string code(c_type(x));
    const std::string y(c_type(op.grid.dtype));
    if (op.table.type.shape.rank() == 2) {
      const CParameters types = {{"X", code},
                                 {"Y", y},
                                 {"LEAST", fmt::format("{}", least)},
                                 {"ENTRIES", fmt::format("{}", op.table.type.shape[1])}};
      return node.call(node.source.kernel("lookup_rows", fmt::format("{}_{}", code, y), types),
                       node.operands[0], node.result, node.out().type.elements(),
                       op.table.type.shape[0], array);
    }
    node.call(node.source.kernel("lookup", fmt::format("{}_{}", code, y),
                                 {{"X", code}, {"Y", y}, {"LEAST", fmt::format("{}", least)}}),
              node.operands[0], node.result, node.out().type.elements(), array);
  });
}

namespace {

std::string pair_variant(CNode& node) {
  return fmt::format("{}_{}_{}", c_type(node.in(0).type.dtype), c_type(node.in(1).type.dtype),
                     c_type(node.out().type.dtype));
}

bool is_repeated(CNode& node) {
  return node.in(0).type.shape != node.out().type.shape ||
         node.in(1).type.shape != node.out().type.shape;
}

/// An element of y, from elements `p` of a and `q` of b.
struct CPair {
  std::string_view operation;   ///< part of the name of the C function
  std::string_view what;        ///< text of the comment
  std::string value;            ///< expression of the element
  std::string parameters = {};  ///< of the C function, each after a comma
  std::vector<std::string> arguments = {};
};

/// Adds a call that computes y from two operands that may be repeated.
void call_pairs(CNode& node, const CPair& pair) {
  const std::string a(c_type(node.in(0).type.dtype));
  const std::string b(c_type(node.in(1).type.dtype));
  const std::string y(c_type(node.out().type.dtype));
  const std::vector<CPairAxis> axes =
      pair_axes(node.in(0).type.shape, node.in(1).type.shape, node.out().type.shape);
  const std::string walk = write_axes(node, axes);
  const std::string kernel =
      node.source.kernel("pairs", fmt::format("{}_{}", pair.operation, pair_variant(node)),
                         {{"A", a},
                          {"B", b},
                          {"Y", y},
                          {"WHAT", std::string(pair.what)},
                          {"ARGUMENTS", pair.parameters},
                          {"VALUE", pair.value}});
  std::vector<std::string> arguments = {
      node.operands[0],
      node.operands[1],
      node.result,
      std::to_string(node.out().type.elements() / std::max<int64_t>(1, axes[0].extent)),
      walk,
      std::to_string(axes.size())};
  arguments.insert(arguments.end(), pair.arguments.begin(), pair.arguments.end());
  node.call(kernel, std::span<const std::string>(arguments));
}

void write_sum(CNode& node, const CodeGrid& grid, std::string_view kernel) {
  const CCodeSum code = code_sum(node, node.in(0), node.in(1), grid);
  if (is_repeated(node)) {
    const bool added = kernel == "add";
    const std::string_view sign = added ? "" : "-";
    return call_pairs(
        node, {.operation = kernel,
               .what = added ? "codes of a + b" : "codes of a - b",
               .value = fmt::format("{}(p - t->a_zero_point, {}(q - t->b_zero_point), t)",
                                    code.function, sign),
               .parameters = fmt::format(", const {}_sum *t", node.source.prefix()),
               .arguments = {code.terms}});
  }
  const std::string add = node.source.kernel(kernel, pair_variant(node),
                                             {{"A", std::string(c_type(node.in(0).type.dtype))},
                                              {"B", std::string(c_type(node.in(1).type.dtype))},
                                              {"Y", std::string(c_type(grid.dtype))},
                                              {"CODE", code.function}});
  node.call(add, node.operands[0], node.operands[1], node.result, node.out().type.elements(),
            code.terms);
}

}  // namespace

inline void write(const integer::Add& op, CNode& node) {
  node.own_because = is_repeated(node) ? "CMSIS-NN adds operands of the same shape"
                                       : not_a_sum_by_cmsis_nn(node.in(0), node.in(1), op.grid);
  if (node.kernels != CKernels::CmsisNn || !node.own_because.empty()) {
    return write_sum(node, op.grid, "add");
  }
  const std::string terms = cmsis_sum(node, node.in(0), node.in(1), op.grid);
  node.call_library("arm_elementwise_add_s8", "cmsis_add", node.operands[0], node.operands[1],
                    node.result, node.out().type.elements(), terms);
  node.source.check_rounding("cmsis_check_add", node.source.kernel("cmsis_add", ""),
                             rounds_once(node.requantization));
}
inline void write(const integer::Sub& op, CNode& node) { write_sum(node, op.grid, "subtract"); }
inline void write(const integer::Mul& op, CNode& node) {
  const IntegerValue& a = node.in(0);
  const IntegerValue& b = node.in(1);
  const IntegerValue product{.type = node.out().type, .scales = {a.scales[0] * b.scales[0]}};
  const bool narrow = a.limit() <= Certificate::s32_limit / std::max<int64_t>(1, b.limit());
  const std::string sum = narrow ? "int32_t" : "int64_t";
  const CStore store = store_codes(node, product, op.grid, sum);
  if (is_repeated(node)) {
    return call_pairs(
        node, {.operation = sum == "int32_t" ? "product" : "wide_product",
               .what = "codes of a b",
               .value = fmt::format("{}(({})(p - a_zero_point) * (q - b_zero_point), to, 0)",
                                    store.function, sum),
               .parameters = fmt::format(
                   ", int32_t a_zero_point, int32_t b_zero_point, const {} *to", store.to),
               .arguments = {std::to_string(a.zero_point), std::to_string(b.zero_point),
                             store.argument}});
  }
  const std::string multiply = node.source.kernel("multiply", pair_variant(node),
                                                  {{"A", std::string(c_type(a.type.dtype))},
                                                   {"B", std::string(c_type(b.type.dtype))},
                                                   {"Y", store.type},
                                                   {"ACC", sum},
                                                   {"CODE", store.function}});
  node.call(multiply, node.operands[0], node.operands[1], node.result,
            node.out().type.elements(), a.zero_point, b.zero_point, store.argument);
}

inline void write(const integer::Maximum&, CNode& node) {
  call_pairs(
      node,
      {.operation = "larger", .what = "the larger of a and b", .value = "(p > q ? p : q)"});
}
inline void write(const integer::Minimum&, CNode& node) {
  call_pairs(
      node,
      {.operation = "smaller", .what = "the smaller of a and b", .value = "(p < q ? p : q)"});
}

inline void write(const integer::Constant& op, CNode& node) {
  dispatch_codes(op.grid.dtype, [&]<class Code>() {
    node.result = node.source.array<Code>(node.name, "codes", op.codes.values<Code>());
  });
}

}  // namespace qtape
