#include "qtape/integer/exact_forward.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "qtape/core/code_types.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/exact_linear.h"
#include "qtape/integer/exact_requantize.h"
#include "qtape/ops/families/reduction_kernels.h"

namespace qtape {
namespace {

constexpr int64_t elements_grain = 4096;

/// The largest |q - zp| of a grid.
int64_t code_limit(const Grid& grid) {
  const auto [low, high] = grid.limits;
  if (grid.scheme == Scheme::Affine) return high - low;
  return std::max(std::abs(low), std::abs(high));
}

/// Codes of `value` from its floats, multiples of its scale; false where there is none, of NaN
/// and infinities.
bool read_codes(const float* y, ExactValue& value, int64_t n, int threads) {
  const float inverse = 1.0f / static_cast<float>(value.scales[0]);
  const auto limit = static_cast<float>(value.limit);
  float* codes = value.code();
  std::atomic<bool> clean = true;
  parallel_for(threads, n, 1024, pointwise_grain, [&](int64_t begin, int64_t end) {
    bool fine = true;
    for (int64_t i = begin; i < end; ++i) {
      codes[i] = round_half_even(y[i] * inverse);
      fine &= std::fabs(codes[i]) <= limit;
    }
    if (!fine) clean = false;
  });
  return clean;
}

/// Calls `body` with the first element of each row of `width` elements.
template <class Body>
void for_each_row(size_t elements, size_t width, int threads, const Body& body) {
  const auto rows = static_cast<int64_t>(width == 0 ? 0 : elements / width);
  const int64_t grain = std::max<int64_t>(1, elements_grain / static_cast<int64_t>(width + 1));
  parallel_for(threads, rows, 1, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) body(static_cast<size_t>(row) * width);
  });
}

/// y = float(accumulators) times the scale of the last axis' index.
void write_accumulators(const ExactValue& value, float* y, int threads) {
  for_each_row(value.accumulators.size(), value.scales.size(), threads, [&](size_t row) {
    for (size_t c = 0; c < value.scales.size(); ++c) {
      y[row + c] =
          static_cast<float>(value.accumulators[row + c]) * static_cast<float>(value.scales[c]);
    }
  });
}

}  // namespace

Arithmetic exact(std::optional<Requantization> requantization) {
  if (!requantization) return {};
  return {[requantization = *requantization](const Graph& graph, int threads) {
    return std::make_unique<ExactForward>(graph, requantization, threads);
  }};
}

ExactForward::ExactForward(const Graph& graph, Requantization requantization, int threads)
    : graph_(graph),
      analysis_(analyze_integers(graph)),
      requantization_(requantization),
      threads_(threads),
      values_(static_cast<size_t>(graph.size())) {}

const ExactValue* ExactForward::find(NodeId id) const {
  const IntegerForm& form = analysis_[id];
  if (form.kind != IntegerKind::Codes && form.kind != IntegerKind::Accumulators) return nullptr;
  return values_[static_cast<size_t>(form.source.index)].get();
}

ExactValue& ExactForward::make(NodeId id) {
  const IntegerForm& form = analysis_[id];
  auto& value = values_[static_cast<size_t>(id.index)];
  value = std::make_unique<ExactValue>();
  const int64_t elements = graph_[id].type.elements();
  if (form.kind == IntegerKind::Codes) {
    value->codes = AlignedBuffer(elements * static_cast<int64_t>(sizeof(float)));
    const Grid grid = grid_of(graph_, form.quantizer);
    value->limit = code_limit(grid);
    value->wide = size_of(code_dtype(grid.limits)) > 1;
    value->scales.resize(1);
  } else {
    value->accumulators.resize(static_cast<size_t>(elements));
  }
  return *value;
}

bool ExactOperand::is_exact() const {
  const auto drops = [](const NodeStatus* status) { return status->applied; };
  return (value == nullptr || value->exact) && std::ranges::none_of(dropouts, drops);
}

ExactOperand ExactForward::operand(NodeId id, const Lookup& lookup) const {
  const NodeId source = analysis_[id].source;
  ExactOperand result{values_[static_cast<size_t>(source.index)].get()};
  for (; id != source; id = graph_[id].operands[0]) {
    if (std::holds_alternative<Dropout>(graph_[id].op)) {
      result.dropouts.push_back(lookup.status(id));
    }
  }
  return result;
}

Kernel ExactForward::around(NodeId id, Kernel kernel, const Binding& binding,
                            const Lookup& lookup) {
  const IntegerForm& form = analysis_[id];
  const bool owns = form.source == id &&
                    (form.kind == IntegerKind::Codes || form.kind == IntegerKind::Accumulators);
  if (!owns) return kernel;
  const Op& op = graph_[id].op;
  if (is_quantizer(op)) return quantizer(id, std::move(kernel), binding, lookup);
  if (const auto* matmul = std::get_if<MatMul>(&op)) {
    return linear(id, *matmul, std::move(kernel), binding, lookup);
  }
  if (std::holds_alternative<AddBias>(op)) return bias(id, std::move(kernel), binding, lookup);
  if (const auto* sum = std::get_if<Sum>(&op)) {
    return total(id, sum->axes, false, std::move(kernel), binding, lookup);
  }
  if (const auto* mean = std::get_if<Mean>(&op)) {
    return total(id, mean->axes, true, std::move(kernel), binding, lookup);
  }
  return codes_from_floats(id, std::move(kernel), binding, lookup);
}

/// Relu, Slice and Max give codes of their operand's grid: its multiples, read back.
Kernel ExactForward::codes_from_floats(NodeId id, Kernel kernel, const Binding& b,
                                       const Lookup& lookup) {
  ExactValue& value = make(id);
  return
      [x = operand(graph_[id].operands[0], lookup), &value, kernel = std::move(kernel),
       y = b.y<const float>(), n = b.output.elements(), threads = threads_](const Step& step) {
        if (kernel) kernel(step);
        value.exact = false;
        if (!x.is_exact()) return;
        value.scales[0] = x.value->scales[0];
        value.exact = read_codes(y, value, n, threads);
      };
}

Kernel ExactForward::quantizer(NodeId id, Kernel kernel, const Binding& b,
                               const Lookup& lookup) {
  ExactValue& value = make(id);
  const NodeId x = graph_[id].operands[0];
  std::shared_ptr<ExactRequantization> requantization;
  if (analysis_[x].is_integer()) {
    requantization = std::make_shared<ExactRequantization>(
        graph_, analysis_, x, grid_of(graph_, id), requantization_, threads_,
        [&](NodeId each) { return operand(each, lookup); });
  }
  return [&value, requantization, kernel = std::move(kernel), y = b.y<float>(),
          scales = reinterpret_cast<const float*>(b.record), status = b.status,
          n = b.output.elements(), threads = threads_](const Step& step) {
    if (kernel) kernel(step);
    value.exact = false;
    if (!status->applied) return;
    value.scales[0] = double{scales[0]};
    if (requantization && requantization->is_exact()) {
      value.exact = requantization->run({scales[0], scales[1]}, value.code(), y, *status);
    } else {
      value.exact = read_codes(y, value, n, threads);
    }
  };
}

Kernel ExactForward::linear(NodeId id, const MatMul& op, Kernel kernel, const Binding& b,
                            const Lookup& lookup) {
  const NodeId weight = analysis_[graph_[id].operands[1]].source;
  const ExactOperand x = operand(graph_[id].operands[0], lookup);
  ExactValue& value = make(id);
  const Shape& stored = b.inputs[1].shape;
  const ScaleSource scales = lookup.scales(weight);
  const int64_t n = op.transpose_b ? stored[0] : stored[1];
  const int64_t k = op.transpose_b ? stored[1] : stored[0];
  value.scales.resize(static_cast<size_t>(n));
  value.wide = x.value->wide;
  auto product = std::make_shared<ExactProduct>(
      ExactProduct::Extents{n == 0 ? 0 : b.output.elements() / n, n, k, op.transpose_b},
      x.value->code(), x.value->limit, scales, b.operand<const float>(1), threads_);
  return [x, w = operand(graph_[id].operands[1], lookup), &value, product, scales, n,
          kernel = std::move(kernel), y = b.y<float>(), status = b.status,
          threads = threads_](const Step& step) {
    value.exact =
        x.is_exact() && w.is_exact() && scales.status->applied && product->load_weights();
    if (!value.exact) {
      if (kernel) kernel(step);
      return;
    }
    for (int64_t c = 0; c < n; ++c) {
      const float s_w = scales.scales<float>()[scales.channels == 1 ? 0 : c];
      const double scale = x.value->scales[0] * double{s_w};
      value.scales[static_cast<size_t>(c)] = scale;
      if (!are_scales(scale, 1)) {
        status->fault = {
            "accumulators need scales that are normal f32; that of channel {index} is "
            "{value}",
            c, scale};
      }
    }
    product->run(value.accumulators);
    write_accumulators(value, y, threads);
  };
}

Kernel ExactForward::bias(NodeId id, Kernel kernel, const Binding& b, const Lookup& lookup) {
  const NodeId product = analysis_[graph_[id].operands[0]].source;
  const ExactOperand x = operand(graph_[id].operands[0], lookup);
  ExactValue& value = make(id);
  const ScaleSource weight = lookup.scales(analysis_[graph_[product].operands[1]].source);
  const ExactValue& input = *operand(graph_[product].operands[0], lookup).value;
  const int64_t n = b.output.shape[-1];
  value.scales.resize(static_cast<size_t>(n));
  value.wide = x.value->wide;
  const auto* bias = reinterpret_cast<const float*>(lookup.value(bias_leaf(graph_, id)));
  auto codes = std::make_shared<std::vector<int64_t>>(static_cast<size_t>(n));
  return [x, &value, &input, weight, bias, codes, n, kernel = std::move(kernel),
          y = b.y<float>(), threads = threads_](const Step& step) {
    value.exact = x.is_exact() && std::none_of(bias, bias + n, [](float v) { return v != v; });
    if (!value.exact) {
      if (kernel) kernel(step);
      return;
    }
    std::ranges::copy(x.value->scales, value.scales.begin());
    const auto s_x = static_cast<float>(input.scales[0]);
    for (int64_t c = 0; c < n; ++c) {
      const float s_w = weight.scales<float>()[weight.channels == 1 ? 0 : c];
      (*codes)[static_cast<size_t>(c)] = static_cast<int64_t>(bias_code(bias[c], s_x, s_w));
    }
    for_each_row(value.accumulators.size(), codes->size(), threads, [&](size_t row) {
      for (size_t c = 0; c < codes->size(); ++c) {
        value.accumulators[row + c] = x.value->accumulators[row + c] + (*codes)[c];
      }
    });
    write_accumulators(value, y, threads);
  };
}

/// Sum and Mean over axes. Accumulators of codes are exact in double.
Kernel ExactForward::total(NodeId id, std::span<const int> axes, bool mean, Kernel kernel,
                           const Binding& b, const Lookup& lookup) {
  const ExactOperand x = operand(graph_[id].operands[0], lookup);
  ExactValue& value = make(id);
  value.scales.resize(1);
  const Shape& shape = b.inputs[0].shape;
  auto from = std::make_shared<std::vector<double>>(static_cast<size_t>(shape.elements()));
  auto to = std::make_shared<std::vector<double>>(value.accumulators.size());
  const auto first = [](double v, double, double) { return v; };
  const auto terms = static_cast<double>(reduced_terms(shape, axes));
  Kernel sum = bind_sum(first, SumWalk(shape, reduced_shape(shape, axes), shape),
                        Tensors<double>{from->data(), from->data(), from->data()}, to->data(),
                        false, threads_, 1.0);
  return [x, &value, from, to, sum = std::move(sum), divisor = mean ? terms : 1.0,
          kernel = std::move(kernel), y = b.y<float>(), threads = threads_](const Step& step) {
    value.exact = x.is_exact();
    if (!value.exact) {
      if (kernel) kernel(step);
      return;
    }
    value.scales[0] = x.value->scales[0] / divisor;
    std::copy_n(x.value->code(), from->size(), from->begin());
    if (sum) sum(step);
    std::ranges::transform(*to, value.accumulators.begin(),
                           [](double v) { return static_cast<int64_t>(v); });
    write_accumulators(value, y, threads);
  };
}

}  // namespace qtape
