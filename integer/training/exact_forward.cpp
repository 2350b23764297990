#include "qtape/integer/training/exact_forward.h"

#include <algorithm>
#include <limits>

#include "qtape/core/code_types.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/integer/training/exact_parts.h"
#include "qtape/integer/training/held_codes.h"
#include "qtape/kernels/quantize/quantize.h"
#include "qtape/kernels/quantize/rounding_trials.h"

namespace qtape {

using namespace kernels;
namespace {

void set_qparams(IntegerValue& value, const QParams<float>& q) {
  value.scales[0] = double{q.scale};
  value.zero_point = static_cast<int32_t>(q.zero_point);
}

}  // namespace

int64_t ExactValue::at(int64_t i) const {
  require<ArgumentError>(i >= 0 && i < value.type.elements(),
                         "expected an element within 0..{}, got {}", value.type.elements() - 1,
                         i);
  return dispatch_integers(value.type.dtype, [&]<class T>() {
    return static_cast<int64_t>(reinterpret_cast<const T*>(data)[i]);
  });
}

Arithmetic exact(std::optional<Requantization> requantization, ExactOptions options) {
  if (!requantization) return {};
  require_valid("requantization", *requantization);
  return {[requantization = *requantization, options](std::shared_ptr<const Graph> graph,
                                                      int threads) {
    const auto lowered = std::make_shared<const LoweredGraph>(std::move(graph));
    return [=](bool encodes) {
      return std::make_unique<ExactForward>(lowered, requantization, threads, options, encodes);
    };
  }};
}

ExactForward::ExactForward(std::shared_ptr<const LoweredGraph> lowered,
                           Requantization requantization, int threads, ExactOptions options,
                           bool encodes)
    : lowered_(std::move(lowered)),
      requantization_(requantization),
      threads_(threads),
      keep_(options.keep),
      kept_(static_cast<size_t>(graph().size())),
      folded_(kept_.size()),
      float_needed_(kept_.size()),
      values_(kept_.size()),
      encodes_(encodes && !options.keep),
      encoded_(kept_.size()),
      takes_codes_(kept_.size()) {}

ExactForward::~ExactForward() = default;

void ExactForward::bind(const Lookup& lookup) {
  lookup_ = lookup;
  kernels::require_exact_rounding();
  find_float_readers();
  find_computed_biases();
  for (const NodeId id : ids(graph())) {
    if (is_index(id)) bind_indices(id);
    if (!owns(id)) continue;
    ExactValue& own = value(id);
    own.data = memory(id);
    if (form(id).kind == IntegerKind::Accumulators) {
      own.value = accumulators(id);
    } else {
      own.value = codes_within(lowered(id).grid, node(id).type.shape);
      if (form(id).kind == IntegerKind::Weight) {
        own.value.scales.resize(static_cast<size_t>(channel_map(graph(), id).channels), 1.0);
      }
    }
    if (is_quantizer(node(id).op)) quantizers_.push_back(lookup_.status(id));
  }
}

/// Indices are read where the tape computes them.
void ExactForward::bind_indices(NodeId id) {
  const bool given = lowered(id).emitter == LoweredOp::Emitter::Input;
  const int64_t high = given ? lowered(id).indices - 1 : std::numeric_limits<int32_t>::max();
  value(id) = {true, {{DType::S32, node(id).type.shape}, {1.0}, 0, 0, high}, memory(id)};
}

IntegerValue ExactForward::accumulators(NodeId source) {
  const LoweredOp& op = lowered(source);
  if (op.weights) {
    const IntegerValue& x = value(form(op.operands[0]).source).value;
    const bool wide = size_of(x.type.dtype) > 1;
    return {.type = {DType::S32, node(source).type.shape},
            .scales = std::vector<double>(static_cast<size_t>(op.weights->layout.outputs), 1.0),
            .accumulator = wide ? Accumulator::S64 : Accumulator::S32};
  }
  std::vector<IntegerValue> inputs;
  for (const NodeId operand : op.operands) {
    IntegerValue x = value(form(operand).source).value;
    // The sums must fit for any zero point.
    x.type.shape = node(operand).type.shape;
    x.zero_point = 0;
    x.high -= x.low;
    x.low = -x.high;
    inputs.push_back(std::move(x));
  }
  return std::visit([&](const auto& each) { return each.infer(inputs); },
                    emit(graph(), op, op.numbers));
}

std::byte* ExactForward::codes(NodeId id) const {
  if (!owns(id) || !is_quantizer(node(id).op)) return nullptr;
  return memory(id);
}

const ExactValue* ExactForward::find(NodeId id) const {
  const NodeId source = form(id).source;
  return keep_ && source.index >= 0 && owns(source) ? &values_[at(source)] : nullptr;
}

ExactForward::Operand ExactForward::operand(NodeId id) {
  const NodeId source = form(id).source;
  Operand result{&value(source), {}};
  for (; id != source; id = node(id).operands[0]) {
    if (lookup_.status(id) != nullptr && is_view(node(id).op)) {
      result.views.push_back(lookup_.status(id));
    }
  }
  return result;
}

ExactForward::Factors ExactForward::factors_of(const LoweredOp& product) {
  const auto& [quantizer, bias, layout] = *product.weights;
  Factors made;
  made.weight = &value(quantizer);
  made.scales = lookup_.scales(quantizer);
  made.outputs = layout.outputs;
  if (bias.index >= 0) {
    made.bias = bias_values(bias);
    made.numbers.bias.resize(static_cast<size_t>(layout.outputs));
    made.loaded_bias.reserve(static_cast<size_t>(layout.outputs));
  }
  made.bound = bound_of_products(value(form(product.operands[0]).source).value, layout.terms);
  made.numbers.codes = reinterpret_cast<const int8_t*>(made.weight->data);
  made.numbers.rows = layout.rows;
  made.numbers.scales.reserve(static_cast<size_t>(made.scales.channels));
  return made;
}

ExactForward::NormLeaves ExactForward::leaves_of(const LoweredNorm& norm) const {
  NormLeaves found;
  for (NodeId id : norm.leaves) {
    const auto* values = reinterpret_cast<const float*>(lookup_.value(id));
    found.values.emplace_back(values, static_cast<size_t>(node(id).type.elements()));
  }
  return found;
}

ExactForward::Inputs ExactForward::inputs_of(const LoweredOp& op) {
  Inputs inputs;
  for (NodeId id : op.operands) inputs.operands.push_back(operand(id));
  if (op.weights) inputs.factors = factors_of(op);
  if (op.norm) inputs.norm = leaves_of(*op.norm);
  return inputs;
}

void ExactForward::begin(const Step& step) {
  const auto reads_data = [&](const Requantizer& each) {
    const Node& quantizer = node(each.id);
    return visit_quantizer(quantizer.op, [&](const auto& op) {
      return op.reads_data(node(quantizer.operands[0]).type, each.values, step.mode.observe);
    });
  };
  const auto enabled = [](const NodeStatus* status) { return status->enabled; };
  lean_ = !repeats_ && !lookup_.backward && !step.mode.train && !step.mode.observe &&
          !step.mode.batch_statistics && step.mode.quantize &&
          std::ranges::all_of(quantizers_, enabled) &&
          std::ranges::none_of(requantizers_, reads_data);
  repeats_ = false;
}

/// Wraps a float kernel so that lean steps skip it if no one reads its result.
Kernel ExactForward::floats(NodeId id, Kernel kernel) const {
  if (!kernel || lookup_.backward || float_needed_[at(id)]) return kernel;
  return [this, kernel = std::move(kernel)](const Step& step) {
    if (!lean_) kernel(step);
  };
}

const float* ExactForward::bias_values(NodeId bias) const {
  const auto computed = computed_biases_.find(bias);
  if (computed != computed_biases_.end()) return computed->second.data();
  return reinterpret_cast<const float*>(lookup_.value(bias));
}

Kernel ExactForward::around(NodeId id, Kernel kernel, const Binding& binding) {
  const auto computed = computed_biases_.find(id);
  if (computed == computed_biases_.end()) return replaced(id, std::move(kernel), binding);
  // Later nodes may overwrite the value, so it is copied.
  return [kernel = replaced(id, std::move(kernel), binding),
          from = reinterpret_cast<const float*>(binding.result),
          to = std::span(computed->second)](const Step& step) {
    if (kernel) kernel(step);
    std::copy_n(from, to.size(), to.begin());
  };
}

Kernel ExactForward::replaced(NodeId id, Kernel kernel, const Binding& binding) {
  if (folded_[at(id)]) return folded(id, std::move(kernel));
  if (!owns(id)) return floats(id, std::move(kernel));
  if (is_quantizer(node(id).op)) {
    return reads_values(id) ? quantizer(id, std::move(kernel), binding)
                            : requantizer(id, std::move(kernel), binding);
  }
  return encoded_[at(id)] ? computed_on_codes(id, std::move(kernel))
                          : computed(id, std::move(kernel), binding);
}

/// Kernel of a quantizer that reads floats and writes codes itself.
Kernel ExactForward::quantizer(NodeId id, Kernel kernel, const Binding& b) {
  const bool one_scale = value(id).value.scales.size() == 1;
  return [this, one_scale, &own = value(id), kernel = std::move(kernel),
          needed = float_needed_[at(id)], record = reinterpret_cast<const float*>(b.record),
          status = b.status](const Step& step) {
    status->nan = false;
    status->output = lean_ && !needed ? QuantizerOutput::Codes : QuantizerOutput::Values;
    if (kernel) kernel(step);
    own.exact = status->applied && !status->nan;
    if (lean_ && !own.exact) repeats_ = true;
    if (own.exact && one_scale) set_qparams(own.value, {record[0], record[1]});
  };
}

/// Kernel of a quantizer that reads integers: the scale is determined as usual, then the
/// integers are requantized.
Kernel ExactForward::requantizer(NodeId id, Kernel kernel, const Binding& b) {
  requantizers_.push_back({id, {}});
  for (size_t i = 1; i < node(id).operands.size(); ++i) {
    requantizers_.back().values.push_back(lookup_.value(node(id).operands[i]));
  }
  ExactValue& own = value(id);
  // The op runs in the shape of its own node, before any views.
  IntegerValue result = own.value;
  result.type.shape = node(lowered(id).node).type.shape;
  auto op = std::make_shared<Operation>(*this, lowered(id), std::move(result), memory(id));
  return
      [this, &own, op, decode = decoder(id, b.result), kernel = std::move(kernel),
       needed = float_needed_[at(id)], has_values = !encoded_[at(id)],
       record = reinterpret_cast<const float*>(b.record), status = b.status](const Step& step) {
        const bool integers = op->is_ready();
        if (lean_ && !integers) repeats_ = true;
        status->nan = false;
        status->output = lean_ ? QuantizerOutput::Nothing : QuantizerOutput::Values;
        if (kernel) kernel(step);
        own.exact = false;
        if (!status->applied) return;
        const QParams<float> q{record[0], record[1]};
        set_qparams(own.value, q);
        if (!integers) {
          own.exact = !lean_ && !status->nan;
          return;
        }
        status->fault = op->run(q);
        own.exact = status->fault.text == nullptr;
        if (own.exact && has_values && (!lean_ || needed)) decode->run();
      };
}

std::shared_ptr<ExactForward::BoundOp> ExactForward::decoder(NodeId source, std::byte* to) {
  IntegerValue& own = value(source).value;
  return std::make_shared<BoundOp>(integer::Dequantize{},
                                   IntegerValue{{DType::F32, own.type.shape}},
                                   IntegerBinding{.inputs = {&own},
                                                  .operands = {memory(source)},
                                                  .result = to,
                                                  .requantization = requantization_,
                                                  .threads = threads_},
                                   own.is_accumulators() ? &own : nullptr);
}

/// Kernel of an op that selects codes, sums them, or multiplies them and adds a bias.
Kernel ExactForward::computed(NodeId id, Kernel kernel, const Binding& b) {
  ExactValue& own = value(id);
  auto op = std::make_shared<Operation>(*this, lowered(id), own.value, memory(id));
  const bool codes = own.value.is_codes();
  const auto y = std::span(b.y<float>(), static_cast<size_t>(b.output.elements()));
  return [this, op, &own, decode = decoder(id, b.result), kernel = std::move(kernel), y,
          saves = codes || lowered(id).norm, decodes = !codes || rounds(node(id).op),
          needed = float_needed_[at(id)], encoded = multiplies_codes(form(id).product),
          status = b.status](const Step& step) {
    own.exact = op->is_ready();
    if (!own.exact) {
      if (lean_) repeats_ = true;
      if (encoded) return fill_without_codes(y);
      if (kernel && !lean_) kernel(step);
      return;
    }
    // Gradients read the values that the op itself saves.
    if (saves && kernel && !lean_) kernel(step);
    status->fault = op->run(op->input_qparams());
    own.exact = status->fault.text == nullptr;
    if (!own.exact) return;
    own.value.type.dtype = op->output().type.dtype;
    std::ranges::copy(op->output().scales, own.value.scales.begin());
    own.value.zero_point = op->output().zero_point;
    if (lean_ ? needed : decodes) decode->run();
  };
}

/// Kernel of an op whose own kernel reads and writes codes.
Kernel ExactForward::computed_on_codes(NodeId id, Kernel kernel) {
  ExactValue& own = value(id);
  return [this, x = operand(node(id).operands[0]), &own,
          kernel = std::move(kernel)](const Step& step) {
    if (kernel) kernel(step);
    own.exact = x.is_exact();
    if (lean_ && !own.exact) repeats_ = true;
    own.value.scales[0] = x.source->value.scales[0];
    own.value.zero_point = x.source->value.zero_point;
  };
}

/// Kernel of a product that only biases read. Its float value is needed only by biases that
/// have no integers in this step.
Kernel ExactForward::folded(NodeId id, Kernel kernel) {
  std::vector<Inputs> readers;
  for (const NodeId reader : ids(graph())) {
    const IntegerForm& sum = form(reader);
    if (sum.source != reader || sum.product != id || reader == id) continue;
    readers.push_back(inputs_of(lowered(reader)));
  }
  return [this, readers, kernel = std::move(kernel)](const Step& step) {
    if (std::ranges::all_of(readers, &Inputs::is_ready)) return;
    if (lean_) repeats_ = true;
    if (kernel && !lean_) kernel(step);
  };
}

}  // namespace qtape
