#include "qtape/onnx/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "qtape/core/error.h"
#include "qtape/core/sha256.h"
#include "qtape/engine/files.h"
#include "qtape/onnx/onnx_writer.h"

namespace qtape {
namespace {

/// A value of the program in the ONNX graph. If `channels_first`, [n, h, w, c] is stored as [n,
/// c, h, w].
struct Written {
  std::string name;
  bool channels_first = false;
};

class Exporter {
 public:
  Exporter(const IntegerProgram& program, const OnnxExportOptions& options)
      : program_(program),
        opset_(options.opset),
        to_(options.opset),
        in_floats_(options.form == OnnxForm::Qdq) {}

  std::string run() {
    name_nodes();
    // Inputs and outputs are named like their nodes.
    for (NodeId id : inputs()) {
      names_[id.index] = to_.unique(program_.name(id));
      yielded_.insert(names_[id.index]);
    }
    for (NodeId id : program_.outputs()) {
      if (!names_.contains(id.index)) names_[id.index] = to_.unique(output_name(id));
    }
    for (const NodeId id : ids(program_)) {
      naming<GraphError>(program_.describe(id), [&] {
        check_codes(program_[id].value);
        at_ = id;
        values_.push_back(
            std::visit([&](const auto& op) { return write(op); }, program_[id].op));
      });
    }
    for (NodeId id : program_.outputs()) write_output(id);
    describe_program();
    return to_.bytes();
  }

 private:
  std::vector<NodeId> inputs() const {
    std::vector<NodeId> all;
    for (const NodeId id : ids(program_)) {
      if (std::holds_alternative<integer::Input>(program_[id].op)) all.push_back(id);
    }
    return all;
  }
  const IntegerNode& node() const { return program_[at_]; }
  const IntegerValue& out() const { return node().value; }
  const IntegerValue& in(size_t i) const { return program_[node().operands[i]].value; }
  const Written& written(size_t i) const {
    return values_[static_cast<size_t>(node().operands[i].index)];
  }
  /// Returns the label of an output, without the suffix that distinguishes floats from the
  /// integers of the same node.
  std::string output_name(NodeId id) const {
    const std::string& label = program_[id].label;
    const std::string& name = label.empty() ? bases_[static_cast<size_t>(id.index)] : label;
    const std::string_view suffix = ".value";
    if (!name.ends_with(suffix)) return name;
    const std::string layer = name.substr(0, name.size() - suffix.size());
    return program_.find(layer) ? layer : name;
  }
  void describe_program() {
    const std::string text = to_json(program_);
    to_.metadata("qtape.version", QTAPE_VERSION);
    to_.metadata("qtape.program_sha256", sha256_hex(std::as_bytes(std::span(text))));
    to_.metadata("qtape.requantization",
                 std::string(to_string_view(program_.requantization())));
    to_.metadata("qtape.form",
                 std::string(to_string_view(in_floats_ ? OnnxForm::Qdq : OnnxForm::Integer)));
  }

  /// Determines name prefixes: the label of a node, or the nearest label among its operands and
  /// its op.
  void name_nodes() {
    std::vector<std::string> nearest;
    for (int32_t i = 0; i < program_.size(); ++i) {
      const IntegerNode& node = program_[NodeId{i}];
      const bool reads = !node.operands.empty();
      const std::string above =
          reads ? nearest[static_cast<size_t>(node.operands[0].index)] : fmt::format("n{}", i);
      nearest.push_back(node.label.empty() ? above : node.label);
      const bool own =
          !node.label.empty() || !reads || std::holds_alternative<integer::Requantize>(node.op);
      std::string operation(name_of(node.op));
      for (char& c : operation) {
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      }
      bases_.push_back(own ? nearest.back() : fmt::format("{}.{}", above, operation));
    }
  }
  /// Returns `conv1.codes` for the node `conv1`.
  std::string named(std::string_view part) const {
    return fmt::format("{}.{}", bases_[static_cast<size_t>(at_.index)], part);
  }
  bool is_batched(const TensorType& type) const {
    return program_.batch() && type.shape.rank() > 0 && type.shape[0] == *program_.batch();
  }

  static bool is_wide(DType dtype) { return size_of(dtype) == 2; }

  void check_codes(const IntegerValue& value) const {
    if (!value.is_codes() || !is_wide(value.type.dtype)) return;
    check(in_floats_, "ONNX's integer products take codes of 8 bits, these have 16");
    require<GraphError>(opset_ >= first_onnx_opset_of_int4,
                        "codes of 16 bits need opset {}, asked for is {}",
                        first_onnx_opset_of_int4, opset_);
  }

  std::string transposed(const std::string& x, std::vector<int64_t> axes) {
    onnx::NodeProto& node = to_.node("Transpose", {x}, named("transposed"));
    set_attribute(node, "perm", axes);
    return node.output(0);
  }
  std::string channels_first(size_t i) {
    if (written(i).channels_first) return written(i).name;
    return in(i).type.shape.rank() == 3 ? transposed(written(i).name, {0, 2, 1})
                                        : transposed(written(i).name, {0, 3, 1, 2});
  }
  std::string channels_last(size_t i) { return channels_last(written(i), in(i).type.shape); }
  std::string channels_last(const Written& x, const Shape& shape) {
    if (!x.channels_first) return x.name;
    return shape.rank() == 3 ? transposed(x.name, {0, 2, 1}) : transposed(x.name, {0, 2, 3, 1});
  }

  /// Returns the shape of per-channel values that are broadcast to a value.
  Shape beside(int64_t n, bool channels_first, const Shape& value) const {
    if (!channels_first) return {n};
    return value.rank() == 3 ? Shape{1, n, 1} : Shape{1, n, 1, 1};
  }

  std::string cast(const std::string& x, DType dtype, std::string_view part) {
    onnx::NodeProto& node = to_.node("Cast", {x}, named(part));
    set_attribute(node, "to", int64_t{onnx_type(dtype)});
    return node.output(0);
  }

  /// Adds codes minus their zero point, as s32.
  std::string differences(const std::string& x, const IntegerValue& value) {
    const std::string wide = cast(x, DType::S32, "wide");
    if (value.zero_point == 0) return wide;
    return to_.apply("Sub", {wide, to_.scalar(named("zero"), DType::S32, value.zero_point)},
                     named("differences"));
  }

  /// Adds the floats that sums with the scales of `value` represent.
  std::string floats(const std::string& sums, const IntegerValue& value, bool channels_first) {
    const std::vector<float> scales(value.scales.begin(), value.scales.end());
    const Shape shape = scales.size() == 1
                            ? Shape{}
                            : beside(std::ssize(scales), channels_first, value.type.shape);
    return to_.apply("Mul",
                     {cast(sums, DType::F32, "f32"),
                      to_.constant<float>(named("scale"), DType::F32, shape, scales)},
                     named("value"));
  }

  /// Adds the floats that codes represent, in the form that runtimes recognize.
  std::string dequantized(const std::string& x, const IntegerValue& value) {
    const auto scale = static_cast<float>(value.scales[0]);
    return to_.apply("DequantizeLinear",
                     {x, to_.scalar(named("x_scale"), DType::F32, scale),
                      code(value.type.dtype, "x_zero", value.zero_point)},
                     named("x"));
  }

  /// Adds the values of constant `codes`; scales and zero points are one for all, or one for
  /// each index of axis 0.
  std::string dequantized(std::string_view part, const std::string& codes,
                          const std::string& zeros, const std::vector<float>& scales) {
    onnx::NodeProto& made =
        to_.node("DequantizeLinear",
                 {codes,
                  to_.constant<float>(named(fmt::format("{}_scale", part)), DType::F32,
                                      of_axis(scales.size()), scales),
                  zeros},
                 named(fmt::format("{}_value", part)));
    if (scales.size() > 1) set_attribute(made, "axis", int64_t{0});
    return made.output(0);
  }
  /// Returns the shape of scales: a scalar, or one per index.
  static Shape of_axis(size_t scales) {
    return scales == 1 ? Shape{} : Shape{static_cast<int64_t>(scales)};
  }
  /// Adds weights `codes` of `shape`. ONNX Runtime fuses only weights with explicit zero
  /// points.
  std::string weight_value(const QuantizedWeights& weights, const Shape& shape,
                           std::span<const int8_t> codes) {
    const std::vector<float> scales = scales_of(weights);
    const std::vector<int8_t> zeros(scales.size());
    const auto constant = [&](std::string_view part, const Shape& of,
                              std::span<const int8_t> values) {
      return weights.storage_bits <= 4 && opset_ >= first_onnx_opset_of_int4
                 ? to_.constant_of_4_bits(named(part), of, values)
                 : to_.constant<int8_t>(named(part), DType::S8, of, values);
    };
    const std::string name = constant("weight", shape, codes);
    return dequantized("weight", name, constant("weight_zero", of_axis(zeros.size()), zeros),
                       scales);
  }
  static std::vector<float> scales_of(const QuantizedWeights& weights) {
    std::vector<float> scales(static_cast<size_t>(weights.scales.type.elements()));
    std::memcpy(scales.data(), weights.scales.data.data(), weights.scales.data.size());
    return scales;
  }
  /// Adds the bias in floats, on the grid of the sums.
  std::string bias_value(const QuantizedWeights& weights) {
    const std::vector<float> scales(out().scales.begin(), out().scales.end());
    const std::vector<int32_t> zeros(scales.size());
    const std::string name = to_.constant<int32_t>(named("bias"), DType::S32,
                                                   {weights.outputs()}, weights.all_biases());
    return dequantized(
        "bias", name,
        to_.constant<int32_t>(named("bias_zero"), DType::S32, of_axis(zeros.size()), zeros),
        scales);
  }

  /// Adds the value of operand `i` in floats.
  std::string values_of(size_t i, const std::string& x, bool channels_first) {
    if (in_floats_) return in(i).is_codes() ? dequantized(x, in(i)) : x;
    const std::string sums = in(i).is_codes() ? differences(x, in(i)) : x;
    return floats(sums, in(i), channels_first);
  }

  std::string quantized(const std::string& x, DType dtype, double step, int32_t zero_point) {
    return to_.apply("QuantizeLinear",
                     {x, to_.scalar(named("step"), DType::F32, static_cast<float>(step)),
                      code(dtype, "zero_point", zero_point)},
                     named("codes"));
  }

  /// Adds the codes of floats.
  std::string codes(const std::string& x, const CodeGrid& grid) {
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
      return quantized_grid(
          to_.apply("Clip",
                    {x, float_of("low", grid.low, grid.zero_point, grid.scale),
                     float_of("high", grid.high, grid.zero_point, grid.scale)},
                    named("limited")));
    }
    return to_.apply("Clip",
                     {quantized_grid(x), code(grid.dtype, "low", grid.low),
                      code(grid.dtype, "high", grid.high)},
                     named("limited"));
  }
  /// Adds the float value of a code as a constant.
  std::string float_of(std::string_view part, int32_t code, int32_t zero_point, double scale) {
    return to_.scalar(
        named(part), DType::F32,
        static_cast<float>(int64_t{code} - zero_point) * static_cast<float>(scale));
  }

  /// Applies `moved`, which selects elements, to codes `x` of operand 0. ONNX or its runtimes
  /// support this only for 8 bits; 16-bit codes are converted to floats and back, which is
  /// exact.
  template <class Moved>
  std::string chosen(const std::string& x, const Moved& moved) {
    const IntegerValue& value = in(0);
    if (!is_wide(value.type.dtype)) return moved(x);
    return quantized(moved(dequantized(x, value)), value.type.dtype, value.scales[0],
                     value.zero_point);
  }
  std::string code(DType dtype, std::string_view part, int32_t value) {
    return dispatch_codes(dtype, [&]<class Code>() {
      return to_.scalar<Code>(named(part), dtype, static_cast<Code>(value));
    });
  }

  /// Adds codes as u8, with their zero point.
  std::pair<std::string, std::string> unsigned_codes(const std::string& x,
                                                     const IntegerValue& value) {
    const int32_t offset = value.type.dtype == DType::S8 ? 128 : 0;
    const std::string zero =
        to_.scalar(named("x_zero"), DType::U8, static_cast<uint8_t>(value.zero_point + offset));
    if (offset == 0) return {x, zero};
    const std::string wide = cast(x, DType::S32, "wide");
    const std::string shifted = to_.apply(
        "Add", {wide, to_.scalar(named("shift"), DType::S32, offset)}, named("shifted"));
    return {cast(shifted, DType::U8, "unsigned"), zero};
  }

  /// Adds `codes` as u8 weights with zero point 128.
  std::pair<std::string, std::string> unsigned_weights(const Shape& shape,
                                                       std::span<const int8_t> codes) {
    std::vector<uint8_t> shifted;
    for (int8_t each : codes) shifted.push_back(static_cast<uint8_t>(each + 128));
    return {to_.constant<uint8_t>(named("weight"), DType::U8, shape, shifted),
            to_.scalar<uint8_t>(named("weight_zero"), DType::U8, 128)};
  }

  std::string with_bias(const std::string& products, const QuantizedWeights& weights,
                        bool channels_first) {
    const std::vector<int32_t> bias = weights.biases();
    if (bias.empty()) return products;
    const Shape shape = beside(weights.outputs(), channels_first, out().type.shape);
    return to_.apply("Add",
                     {products, to_.constant<int32_t>(named("bias"), DType::S32, shape, bias)},
                     named("sum"));
  }

  Written write(const integer::Input&) {
    const std::string& name = names_[at_.index];
    to_.input(name, out().type, is_batched(out().type));
    return {name};
  }

  Written write(const integer::Quantize& op) {
    check(op.rounding == Rounding::HalfEven && op.division == Division::Exact &&
              op.zero_point == ZeroPoint::AfterRounding,
          "ONNX's QuantizeLinear rounds x / s half to even and adds the zero point after");
    return {codes(written(0).name, op.grid), written(0).channels_first};
  }

  /// Adds x [..., k] times weights [n, k], in floats.
  Written linear_in_floats(const integer::Linear& op) {
    const auto [n, k] = std::pair(op.weights.outputs(), op.weights.terms());
    const std::string x = dequantized(channels_last(0), in(0));
    const std::string w = weight_value(op.weights, {n, k}, op.weights.unpacked());
    if (out().type.shape.rank() == 2) {
      onnx::NodeProto& made = to_.node("Gemm", {x, w, bias_value(op.weights)}, named("sum"));
      set_attribute(made, "transB", int64_t{1});
      return {made.output(0)};
    }
    const std::string products =
        to_.apply("MatMul", {x, transposed(w, {1, 0})}, named("products"));
    return {to_.apply("Add", {products, bias_value(op.weights)}, named("sum"))};
  }

  Written write(const integer::Linear& op) {
    if (in_floats_) return linear_in_floats(op);
    const auto [n, k] = std::pair(op.weights.outputs(), op.weights.terms());
    check(op.weights.certificate.fits_s32(), "ONNX adds products in 32 bits");
    const std::vector<int8_t> rows = op.weights.unpacked();
    std::vector<int8_t> columns(rows.size());
    for (int64_t c = 0; c < n; ++c) {
      for (int64_t i = 0; i < k; ++i) {
        columns[static_cast<size_t>(i * n + c)] = rows[static_cast<size_t>(c * k + i)];
      }
    }
    const auto [x, x_zero] = unsigned_codes(channels_last(0), in(0));
    const auto [w, w_zero] = unsigned_weights({k, n}, columns);
    return {with_bias(to_.apply("MatMulInteger", {x, w, x_zero, w_zero}, named("products")),
                      op.weights, false)};
  }

  std::string conv(const std::string& x, const std::string& x_zero, const std::string& w,
                   const std::string& w_zero, const Window& window, bool one, int64_t groups) {
    onnx::NodeProto& node = to_.node("ConvInteger", {x, w, x_zero, w_zero}, named("products"));
    set_window(node, window, one, true);
    set_attribute(node, "group", groups);
    return node.output(0);
  }

  static void set_window(onnx::NodeProto& node, const Window& window, bool one,
                         bool dilations) {
    const auto& [h, w] = window;
    const auto both = [&](int64_t a, int64_t b) {
      return one ? std::vector{b} : std::vector{a, b};
    };
    set_attribute(node, "kernel_shape", both(h.kernel, w.kernel));
    set_attribute(node, "strides", both(h.stride, w.stride));
    if (dilations) set_attribute(node, "dilations", both(h.dilation, w.dilation));
    std::vector<int64_t> pads = both(h.begin, w.begin);
    for (int64_t each : both(end_padding(h), end_padding(w))) pads.push_back(each);
    set_attribute(node, "pads", pads);
  }
  /// Returns the end padding that windows use; elements after the last window do not count.
  static int64_t end_padding(const WindowAxis& a) {
    return std::max<int64_t>(0, (a.out - 1) * a.stride + a.span() - a.in - a.begin);
  }

  Written write(const integer::Conv& op) {
    check(in_floats_ || op.weights.certificate.fits_s32(), "ONNX adds products in 32 bits");
    const bool one = op.taps.rank() == 1;
    const Convolution c = op.extents(in(0).type.shape);
    const int64_t taps = c.window.kernel();
    const std::vector<int8_t> last = op.weights.unpacked();  // [o, taps, channels]
    std::vector<int8_t> first(last.size());
    for (int64_t o = 0; o < c.out_channels; ++o) {
      for (int64_t t = 0; t < taps; ++t) {
        for (int64_t k = 0; k < c.inputs(); ++k) {
          first[static_cast<size_t>((o * c.inputs() + k) * taps + t)] =
              last[static_cast<size_t>((o * taps + t) * c.inputs() + k)];
        }
      }
    }
    const Shape shape =
        one ? Shape{c.out_channels, c.inputs(), c.window.w.kernel}
            : Shape{c.out_channels, c.inputs(), c.window.h.kernel, c.window.w.kernel};
    if (in_floats_) {
      const std::string x = dequantized(channels_first(0), in(0));
      const std::string w = weight_value(op.weights, shape, first);
      onnx::NodeProto& made = to_.node("Conv", {x, w, bias_value(op.weights)}, named("sum"));
      set_window(made, c.window, one, true);
      set_attribute(made, "group", c.groups);
      return {made.output(0), true};
    }
    const auto [x, x_zero] = unsigned_codes(channels_first(0), in(0));
    const auto [w, w_zero] = unsigned_weights(shape, first);
    return {with_bias(conv(x, x_zero, w, w_zero, c.window, one, c.groups), op.weights, true),
            true};
  }

  Written write(const integer::Requantize& op) {
    const bool first = written(0).channels_first;
    return {codes(values_of(0, written(0).name, first), op.grid), first};
  }

  Written write(const integer::Dequantize& op) {
    const bool first = written(0).channels_first;
    std::string x = values_of(0, written(0).name, first);
    if (op.low || op.high) {
      const auto limit = [&](std::string_view part, const std::optional<double>& v) {
        return v ? to_.scalar(named(part), DType::F32, static_cast<float>(*v)) : std::string();
      };
      x = to_.apply("Clip", {x, limit("low", op.low), limit("high", op.high)},
                    named("limited"));
    }
    return {x, first};
  }

  Written write(const integer::Lookup& op) {
    const std::string wide = cast(written(0).name, DType::S32, "index");
    const auto least = dispatch_codes(in(0).type.dtype, []<class Code>() {
      return int32_t{std::numeric_limits<Code>::lowest()};
    });
    const std::string index =
        least == 0 ? wide
                   : to_.apply("Sub", {wide, to_.scalar(named("least"), DType::S32, least)},
                               named("place"));
    const std::string table = to_.constant<std::byte>(named("table"), op.grid.dtype,
                                                      op.table.type.shape, op.table.data);
    return {to_.apply("Gather", {table, index}, named("codes")), written(0).channels_first};
  }

  /// Returns both operands in the same axis order.
  std::pair<bool, std::pair<std::string, std::string>> pair() {
    const bool first = written(0).channels_first && written(1).channels_first;
    if (first) return {true, {written(0).name, written(1).name}};
    return {false, {channels_last(0), channels_last(1)}};
  }

  Written sum(std::string_view operation, const CodeGrid& grid) {
    const auto [first, names] = pair();
    const std::string a = values_of(0, names.first, first);
    const std::string b = values_of(1, names.second, first);
    return {codes(to_.apply(operation, {a, b}, named("sum")), grid), first};
  }
  Written write(const integer::Add& op) { return sum("Add", op.grid); }
  Written write(const integer::Sub& op) { return sum("Sub", op.grid); }
  Written write(const integer::Mul& op) {
    if (in_floats_) return sum("Mul", op.grid);
    const auto [first, names] = pair();
    const std::string product =
        to_.apply("Mul", {differences(names.first, in(0)), differences(names.second, in(1))},
                  named("product"));
    const IntegerValue value{out().type, {in(0).scales[0] * in(1).scales[0]}};
    return {codes(floats(product, value, first), op.grid), first};
  }

  Written write(const integer::Concat& op) {
    std::vector<std::string> inputs;
    for (size_t i = 0; i < node().operands.size(); ++i) inputs.push_back(channels_last(i));
    onnx::NodeProto& made = to_.node("Concat", inputs, named("joined"));
    set_attribute(made, "axis", int64_t{resolve_axis(op.axis, out().type.shape)});
    return {made.output(0)};
  }

  Written write(const integer::Slice& op) {
    const Shape& x = in(0).type.shape;
    const int axis = resolve_axis(op.axis, x);
    const int64_t begin = op.begin < 0 ? op.begin + x[axis] : op.begin;
    return {to_.apply("Slice",
                      {channels_last(0), to_.numbers(named("begin"), {begin}),
                       to_.numbers(named("end"), {begin + out().type.shape[axis]}),
                       to_.numbers(named("axis"), {axis})},
                      named("slice"))};
  }

  Written write(const integer::Reshape&) {
    const auto extents = out().type.shape.extents();
    std::vector<int64_t> shape(extents.begin(), extents.end());
    if (is_batched(in(0).type) && is_batched(out().type)) shape[0] = -1;
    return {to_.apply("Reshape", {channels_last(0), to_.numbers(named("shape"), shape)},
                      named("reshaped"))};
  }

  /// Runtimes reject padding as wide as the kernel, which is possible with dilation: in that
  /// case x is padded with the lowest codes first.
  Written write(const integer::Structure<MaxPool>& op) {
    const Shape& x = in(0).type.shape;
    const bool one = x.rank() == 3;
    Window window = op.pool(x).window;
    const auto wide = [](const WindowAxis& a) {
      return std::max(a.begin, end_padding(a)) >= a.kernel;
    };
    const bool padded = wide(window.h) || wide(window.w);
    return {chosen(channels_first(0),
                   [&](const std::string& from) {
                     const std::string around = padded ? bordered(from, window, one) : from;
                     if (padded) window = without_padding(window);
                     onnx::NodeProto& made = to_.node("MaxPool", {around}, named("largest"));
                     set_window(made, window, one, true);
                     return made.output(0);
                   }),
            true};
  }
  /// Returns [n, c, ...] with the padding of `window` filled with the lowest codes, or with
  /// their values.
  std::string bordered(const std::string& x, const Window& window, bool one) {
    const IntegerValue& value = in(0);
    const auto [lowest, highest] = dispatch_codes(value.type.dtype, []<class Code>() {
      using Limits = std::numeric_limits<Code>;
      return std::pair<int32_t, int32_t>(Limits::lowest(), Limits::max());
    });
    const auto end = [&](std::string_view part, int32_t at) {
      return is_wide(value.type.dtype) ? float_of(part, at, value.zero_point, value.scales[0])
                                       : code(value.type.dtype, part, at);
    };
    const std::string border = end("border", lowest);
    std::vector<int64_t> pads = {0, 0};
    if (!one) pads.push_back(window.h.begin);
    pads.insert(pads.end(), {window.w.begin, 0, 0});
    if (!one) pads.push_back(end_padding(window.h));
    pads.push_back(end_padding(window.w));
    const std::string padded =
        to_.apply("Pad", {x, to_.numbers(named("pads"), pads), border}, named("padded"));
    // A Clip without effect: ONNX Runtime 1.21 merges a Pad that directly precedes a MaxPool
    // into it, and then rejects the padding.
    return to_.apply("Clip", {padded, border, end("highest", highest)}, named("kept"));
  }
  static Window without_padding(Window window) {
    for (WindowAxis* a : {&window.h, &window.w}) {
      a->in += a->begin + end_padding(*a);
      a->begin = 0;
    }
    return window;
  }

  Written write(const integer::Structure<Upsample>&) {
    const Shape& x = in(0).type.shape;
    // Repeats the elements of each spatial axis: along a new axis after it, which is then
    // joined.
    std::string name = channels_last(0);
    for (int axis = 1; axis + 1 < x.rank(); ++axis) {
      const int64_t factor = x[axis] == 0 ? 1 : out().type.shape[axis] / x[axis];
      std::vector<int64_t> places;
      for (int64_t i = 0; i < x[axis] * factor; ++i) places.push_back(i / factor);
      onnx::NodeProto& made =
          to_.node("Gather", {name, to_.numbers(named("places"), places)}, named("repeated"));
      set_attribute(made, "axis", int64_t{axis});
      name = made.output(0);
    }
    return {name};
  }

  Written write(const integer::Pad& op) {
    std::vector<int64_t> pads(op.begin.extents().begin(), op.begin.extents().end());
    pads.insert(pads.end(), op.end.extents().begin(), op.end.extents().end());
    const IntegerValue& value = in(0);
    return {chosen(channels_last(0), [&](const std::string& x) {
      const std::string border =
          is_wide(value.type.dtype)
              ? float_of("border", op.code, value.zero_point, value.scales[0])
              : code(value.type.dtype, "border", op.code);
      return to_.apply("Pad", {x, to_.numbers(named("pads"), pads), border}, named("padded"));
    })};
  }

  /// Returns the axes of a reduction of operand 0, counted from the front.
  std::vector<int64_t> axes_of(const std::vector<int>& axes) const {
    const Shape& x = in(0).type.shape;
    std::vector<int64_t> all;
    for (int axis : axes) all.push_back(resolve_axis(axis, x));
    for (int axis = 0; axes.empty() && axis < x.rank(); ++axis) all.push_back(axis);
    return all;
  }

  /// Adds a reduction. Its axes are an input since opset `since`, an attribute before.
  std::string reduced(std::string_view op, const std::string& x,
                      const std::vector<int64_t>& axes, bool keep_dims, int64_t since) {
    std::vector<std::string> inputs = {x};
    if (opset_ >= since) inputs.push_back(to_.numbers(named("axes"), axes));
    onnx::NodeProto& made = to_.node(op, inputs, named("reduced"));
    if (opset_ < since) set_attribute(made, "axes", axes);
    set_attribute(made, "keepdims", int64_t{keep_dims});
    return made.output(0);
  }

  Written write(const integer::Max& op) {
    return {chosen(channels_last(0), [&](const std::string& x) {
      return reduced("ReduceMax", x, axes_of(op.axes), op.keep_dims, 18);
    })};
  }

  Written write(const integer::Sum& op) {
    if (in_floats_) return sum_in_floats(op);
    check(out().type.dtype == DType::S32, "ONNX's sums have 32 bits");
    return {reduced("ReduceSum", differences(channels_last(0), in(0)), axes_of(op.axes),
                    op.keep_dims, 13)};
  }

  Written sum_in_floats(const integer::Sum& op) {
    const std::string x = dequantized(channels_last(0), in(0));
    const std::string sum = reduced("ReduceSum", x, axes_of(op.axes), op.keep_dims, 13);
    if (!op.mean) return {sum};
    // Multiplied by the program's own factor: a ReduceMean would divide, which changes ties.
    const double share = out().scales[0] / in(0).scales[0];
    return {to_.apply("Mul",
                      {sum, to_.scalar(named("share"), DType::F32, static_cast<float>(share))},
                      named("mean"))};
  }

  Written average_in_floats(const integer::AvgPool& op) {
    const Shape& shape = in(0).type.shape;
    onnx::NodeProto& made =
        to_.node("AveragePool", {dequantized(channels_first(0), in(0))}, named("mean"));
    set_window(made, op.pool(shape).window, shape.rank() == 3, false);
    set_attribute(made, "count_include_pad", int64_t{op.count_include_pad});
    return {made.output(0), true};
  }

  /// Adds sums by windows of ones, weighted by their divisors.
  Written write(const integer::AvgPool& op) {
    if (in_floats_) return average_in_floats(op);
    check(out().type.dtype == DType::S32, "ONNX's sums have 32 bits");
    const Shape& shape = in(0).type.shape;
    const bool one = shape.rank() == 3;
    const Pool pool = op.pool(shape);
    const auto [x, x_zero] = unsigned_codes(channels_first(0), in(0));
    const auto& [h, w] = pool.window;
    const Shape filter =
        one ? Shape{pool.channels, 1, w.kernel} : Shape{pool.channels, 1, h.kernel, w.kernel};
    const std::vector<int8_t> ones(static_cast<size_t>(filter.elements()), 1);
    const auto [by, by_zero] = unsigned_weights(filter, ones);
    const std::string sums = conv(x, x_zero, by, by_zero, pool.window, one, pool.channels);
    const auto common = op.common_divisor(pool, int64_t{1} << 23).value();
    std::vector<int32_t> times;
    for (int64_t i = 0; i < h.out; ++i) {
      for (int64_t j = 0; j < w.out; ++j) {
        times.push_back(static_cast<int32_t>(common / op.divisor(pool, i, j)));
      }
    }
    const Shape places = one ? Shape{1, 1, w.out} : Shape{1, 1, h.out, w.out};
    return {to_.apply("Mul",
                      {sums, to_.constant<int32_t>(named("times"), DType::S32, places, times)},
                      named("sum")),
            true};
  }

  void write_output(NodeId id) {
    at_ = id;
    naming<GraphError>(program_.describe(id), [&] {
      check(!in_floats_ || !program_[id].value.is_accumulators(),
            "has no accumulators where products are in floats: yield floats or codes");
    });
    const Written& x = values_[static_cast<size_t>(id.index)];
    const std::string last = channels_last(x, program_[id].value.type.shape);
    onnx::NodeProto& made = to_.node("Identity", {last}, named("output"));
    std::string& name = names_[id.index];
    // A value that is an output twice, or also an input, needs another name.
    if (!yielded_.insert(name).second) name = to_.unique(name);
    made.set_output(0, name);
    to_.output(name, program_[id].value.type, is_batched(program_[id].value.type));
  }

  const IntegerProgram& program_;
  int64_t opset_;
  OnnxWriter to_;
  bool in_floats_;  // true if the program's accumulators are written as floats
  NodeId at_;
  std::vector<std::string> bases_;        // prefixes of names, by node
  std::vector<Written> values_;           // by node
  std::map<int32_t, std::string> names_;  // of inputs and outputs, by node
  std::set<std::string> yielded_;
};

}  // namespace

std::string to_onnx(const IntegerProgram& program, const OnnxExportOptions& options) {
  require<ArgumentError>(options.opset >= first_onnx_opset && options.opset <= last_onnx_opset,
                         "opset must be in {}..{}, got {}", first_onnx_opset, last_onnx_opset,
                         options.opset);
  require<GraphError>(program.requantization() == Requantization::OnnxQdq,
                      "ONNX computes OnnxQdq, the program is of {}: convert to that one",
                      to_string_view(program.requantization()));
  return Exporter(program, options).run();
}

int64_t write_onnx(const std::string& path, const IntegerProgram& program,
                   const OnnxExportOptions& options) {
  const std::string bytes = to_onnx(program, options);
  write_file(path, bytes);
  return std::ssize(bytes);
}

}  // namespace qtape
