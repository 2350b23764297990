#include "qtape/integer/training/exact_forward.h"

#include <algorithm>

#include "qtape/core/code_types.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/integer/training/exact_parts.h"
#include "qtape/integer/training/held_codes.h"
#include "qtape/kernels/quantize/quantize.h"

namespace qtape {

using namespace kernels;
namespace {

void set_qparams(IntegerValue& value, const QParams<float>& q) {
  value.scales[0] = double{q.scale};
  value.zero_point = static_cast<int32_t>(q.zero_point);
}

}  // namespace

int64_t ExactValue::at(int64_t i) const {
  return dispatch_integers(value.type.dtype, [&]<class T>() {
    return static_cast<int64_t>(reinterpret_cast<const T*>(data)[i]);
  });
}

Arithmetic exact(std::optional<Requantization> requantization, ExactOptions options) {
  if (!requantization) return {};
  return {[requantization = *requantization, options](const Graph& graph, int threads,
                                                      bool encodes) {
    return std::make_unique<ExactForward>(graph, requantization, threads, options, encodes);
  }};
}

/// Requantizes the integers of x to codes of a grid, with the ops that conversion would add.
class ExactForward::Pending {
 public:
  Pending(ExactForward& owner, NodeId x, const IntegerForm& form, const Grid& grid,
          std::byte* to)
      : grid_(grid), low_(form.low), high_(form.high) {
    // A pending op runs in its own shape, before any views.
    const bool pending = form.kind == IntegerKind::Pending;
    const Shape& shape = owner.node(pending ? form.source : x).type.shape;
    const Op& op = owner.node(form.source).op;
    Numbers numbers{.grid = {.dtype = code_dtype(grid.limits)}};
    std::vector<Operand> operands;
    IntegerOp made = integer::Requantize{.grid = numbers.grid};
    if (pending) {
      made = emit(op, numbers);
      for (NodeId each : owner.node(form.source).operands) {
        if (joins(op)) {
          add_piece(owner, each, form);
        } else {
          operands.push_back(owner.operand(each));
        }
      }
    } else {
      operands.push_back(owner.operand(x));
    }
    add_variants(owner, made, operands, codes_within(grid, shape), to);
  }

  bool is_exact() const {
    return std::ranges::all_of(operands_, &Operand::is_exact) &&
           std::ranges::all_of(pieces_, [](const auto& piece) { return piece->is_exact(); });
  }

  Fault run(const QParams<float>& q) {
    for (const auto& piece : pieces_) {
      const Fault fault = piece->run(q);
      if (fault.text != nullptr) return fault;
    }
    const CodeLimits limits = clamped_limits(low_, high_, q, grid_);
    const CodeGrid grid{code_dtype(grid_.limits), double{q.scale},
                        static_cast<int32_t>(q.zero_point), limits.q_min, limits.q_max};
    Operation& operation = chosen();
    operation.set_grid(grid);
    return operation.run();
  }

 private:
  void add_piece(ExactForward& owner, NodeId id, const IntegerForm& whole) {
    const IntegerForm piece = owner.form(id).limited(whole.low, whole.high);
    const IntegerValue codes = codes_within(grid_, owner.node(id).type.shape);
    buffers_.emplace_back(codes.type.bytes());
    pieces_.push_back(
        std::make_unique<Pending>(owner, id, piece, grid_, buffers_.back().data()));
  }

  /// The accumulators of a product may be s32 in one step and s64 in another.
  void add_variants(ExactForward& owner, const IntegerOp& op, std::vector<Operand>& operands,
                    const IntegerValue& result, std::byte* to) {
    operands_ = std::move(operands);
    std::vector<const IntegerValue*> inputs;
    std::vector<std::byte*> memory;
    for (const Operand& each : operands_) {
      inputs.push_back(each.value);
      memory.push_back(each.memory);
    }
    for (size_t i = 0; i < pieces_.size(); ++i) {
      inputs.push_back(&pieces_[i]->chosen().output());
      memory.push_back(buffers_[i].data());
    }
    const bool varies = operands_.size() == 1 && operands_[0].value->is_accumulators();
    const DType now = varies ? operands_[0].value->type.dtype : DType::F32;
    for (DType dtype : varies ? std::vector{DType::S32, DType::S64} : std::vector{now}) {
      if (varies) operands_[0].value->type.dtype = dtype;
      variants_.push_back(std::make_unique<Operation>(op, inputs, result, memory, to,
                                                      owner.requantization_, owner.threads_));
    }
    if (varies) operands_[0].value->type.dtype = now;
  }

  Operation& chosen() const {
    const bool second = variants_.size() > 1 && operands_[0].value->type.dtype == DType::S64;
    return *variants_[second ? 1 : 0];
  }

  Grid grid_;
  double low_;
  double high_;
  std::vector<Operand> operands_;
  std::vector<AlignedBuffer> buffers_;  // of the pieces
  std::vector<std::unique_ptr<Pending>> pieces_;
  std::vector<std::unique_ptr<Operation>> variants_;
};

ExactForward::ExactForward(const Graph& graph, Requantization requantization, int threads,
                           ExactOptions options, bool encodes)
    : graph_(graph),
      analysis_(analyze_integers(graph)),
      requantization_(requantization),
      threads_(threads),
      keep_(options.keep),
      kept_(static_cast<size_t>(graph.size())),
      folded_(kept_.size()),
      float_needed_(kept_.size()),
      values_(kept_.size()),
      encodes_(encodes && !options.keep),
      encoded_(kept_.size()),
      takes_codes_(kept_.size()) {}

ExactForward::~ExactForward() = default;

void ExactForward::bind(const Lookup& lookup) {
  lookup_ = lookup;
  find_float_readers();
  find_computed_biases();
  for (const NodeId id : ids(graph_)) {
    if (!owns(id)) continue;
    ExactValue& own = value(id);
    own.data = memory(id);
    const Shape& shape = node(id).type.shape;
    if (form(id).kind == IntegerKind::Accumulators) {
      const bool product = form(id).product.index >= 0;
      own.value.type = {DType::S32, shape};
      own.value.scales.resize(product ? static_cast<size_t>(shape[-1]) : 1, 1.0);
    } else {
      own.value = codes_within(grid_of(graph_, form(id).quantizer), shape);
      if (form(id).kind == IntegerKind::Weight) {
        own.value.scales.resize(static_cast<size_t>(channel_map(graph_, id).channels), 1.0);
      }
    }
    if (is_quantizer(node(id).op)) quantizers_.push_back(lookup_.status(id));
  }
}

std::byte* ExactForward::codes(NodeId id) const {
  if (!owns(id) || !is_quantizer(node(id).op)) return nullptr;
  return memory(id);
}

const ExactValue* ExactForward::find(NodeId id) const {
  const NodeId source = form(id).source;
  return source.index >= 0 && owns(source) ? &values_[at(source)] : nullptr;
}

ExactForward::Operand ExactForward::operand(NodeId id) const {
  const NodeId source = form(id).source;
  auto* own = const_cast<ExactValue*>(&values_[at(source)]);
  Operand result{own, &own->value, memory(source), {}};
  for (; id != source; id = node(id).operands[0]) {
    if (lookup_.status(id) != nullptr && is_view(node(id).op)) {
      result.views.push_back(lookup_.status(id));
    }
  }
  return result;
}

void ExactForward::begin(const Step& step) {
  const auto reads_data = [&](const Requantizer& each) {
    return std::visit(
        [&]<class X>(const X& op) {
          if constexpr (Quantizer<X>) {
            const TensorType& x = node(node(each.id).operands[0]).type;
            return op.reads_data(x, each.values, step.mode.observe);
          }
          return true;
        },
        node(each.id).op);
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
  const IntegerForm& own = form(id);
  if (is_quantizer(node(id).op) && owns(id)) {
    const bool of_integers =
        own.kind == IntegerKind::Codes && is_requantized(node(id).operands[0]);
    return of_integers ? requantizer(id, std::move(kernel), binding)
                       : quantizer(id, std::move(kernel), binding);
  }
  if (own.source == id && own.product.index >= 0) {
    return folded_[at(id)] ? folded(id, std::move(kernel))
                           : product(id, std::move(kernel), binding);
  }
  if (owns(id)) return operation(id, std::move(kernel), binding);
  return floats(id, std::move(kernel));
}

/// Kernel of a quantizer that reads floats and writes codes itself.
Kernel ExactForward::quantizer(NodeId id, Kernel kernel, const Binding& b) {
  const bool codes = form(id).kind == IntegerKind::Codes;
  return [this, codes, &own = value(id), kernel = std::move(kernel),
          needed = float_needed_[at(id)], record = reinterpret_cast<const float*>(b.record),
          status = b.status](const Step& step) {
    status->nan = false;
    status->output = lean_ && !needed ? QuantizerOutput::Codes : QuantizerOutput::Values;
    if (kernel) kernel(step);
    own.exact = status->applied && !status->nan;
    if (lean_ && !own.exact) repeats_ = true;
    if (own.exact && codes) set_qparams(own.value, {record[0], record[1]});
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
  const NodeId x = node(id).operands[0];
  auto pending = std::make_shared<Pending>(*this, x, form(x), grid_of(graph_, id), memory(id));
  auto decode = std::make_shared<Operation>(
      integer::Dequantize{}, std::vector<const IntegerValue*>{&own.value},
      IntegerValue{{DType::F32, own.value.type.shape}}, std::vector{memory(id)}, b.result,
      requantization_, threads_);
  return
      [this, &own, pending, decode, kernel = std::move(kernel), needed = float_needed_[at(id)],
       has_values = !encoded_[at(id)], record = reinterpret_cast<const float*>(b.record),
       status = b.status](const Step& step) {
        const bool integers = pending->is_exact();
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
        status->fault = pending->run(q);
        own.exact = status->fault.text == nullptr;
        if (own.exact && has_values && (!lean_ || needed)) decode->run();
      };
}

/// Kernel of an op that computes codes, or sums of the codes of one operand.
Kernel ExactForward::operation(NodeId id, Kernel kernel, const Binding& b) {
  ExactValue& own = value(id);
  const Operand x = operand(node(id).operands[0]);
  if (encoded_[at(id)]) return operation_on_codes(x, own, std::move(kernel));
  auto shaped = std::make_shared<IntegerValue>(*x.value);
  shaped->type.shape = node(node(id).operands[0]).type.shape;
  Numbers numbers{.x = shaped->type.shape};
  if (own.value.is_codes()) numbers.grid.dtype = own.value.type.dtype;
  const IntegerOp op = emit(node(id).op, numbers);
  IntegerValue result = own.value;
  if (own.value.is_accumulators()) {
    // The zero point is not known yet: the sums must fit for any zero point.
    IntegerValue widest = *shaped;
    widest.zero_point = 0;
    widest.high = shaped->high - shaped->low;
    widest.low = -widest.high;
    const IntegerValue inputs[] = {widest};
    result = std::visit([&](const auto& each) { return each.infer(inputs); }, op);
    own.value = result;
  }
  auto run =
      std::make_shared<Operation>(op, std::vector<const IntegerValue*>{shaped.get()}, result,
                                  std::vector{memory(form(node(id).operands[0]).source)},
                                  memory(id), requantization_, threads_);
  auto decode = std::make_shared<Operation>(
      integer::Dequantize{}, std::vector<const IntegerValue*>{&own.value},
      IntegerValue{{DType::F32, own.value.type.shape}}, std::vector{memory(id)}, b.result,
      requantization_, threads_);
  const bool codes = own.value.is_codes();
  const CodeLimits limits = codes ? grid_of(graph_, form(id).quantizer).limits : CodeLimits{};
  const bool decodes = !codes || rounds(node(id).op);
  return [this, x, shaped, run, decode, &own, codes, decodes, limits, op = &node(id).op,
          kernel = std::move(kernel), needed = float_needed_[at(id)],
          status = b.status](const Step& step) {
    own.exact = x.is_exact();
    if (!own.exact) {
      if (lean_) repeats_ = true;
      if (kernel && !lean_) kernel(step);
      return;
    }
    // Gradients read the values that the op itself saves.
    if (codes && kernel && !lean_) kernel(step);
    shaped->scales[0] = x.value->scales[0];
    shaped->zero_point = x.value->zero_point;
    if (codes) {
      run->refresh(*op, {.grid = {own.value.type.dtype, x.value->scales[0], x.value->zero_point,
                                  limits.q_min, limits.q_max},
                         .x = shaped->type.shape});
    }
    status->fault = run->run();
    own.exact = status->fault.text == nullptr;
    own.value.scales[0] = run->output().scales[0];
    own.value.zero_point = run->output().zero_point;
    if (own.exact && (lean_ ? needed : decodes)) decode->run();
  };
}

/// Kernel of an op whose own kernel reads and writes codes.
Kernel ExactForward::operation_on_codes(const Operand& x, ExactValue& own, Kernel kernel) {
  return [this, x, &own, kernel = std::move(kernel)](const Step& step) {
    if (kernel) kernel(step);
    own.exact = x.is_exact();
    if (lean_ && !own.exact) repeats_ = true;
    own.value.scales[0] = x.value->scales[0];
    own.value.zero_point = x.value->zero_point;
  };
}

std::shared_ptr<ExactForward::Product> ExactForward::make_product(NodeId source) {
  const NodeId product = form(source).product;
  const Node& multiplies = node(product);
  const size_t weights = *weights_operand(multiplies.op);
  const NodeId quantizer = form(multiplies.operands[weights]).source;
  const WeightLayout layout =
      weight_layout(multiplies.op, node(multiplies.operands[weights]).type.shape);
  auto made = std::make_shared<Product>();
  made->x = operand(multiplies.operands[0]);
  made->weight = &value(quantizer);
  made->scales = lookup_.scales(quantizer);
  made->outputs = layout.outputs;
  const NodeId bias = form(source).bias;
  if (bias.index >= 0) {
    made->bias = bias_values(bias);
    made->numbers.bias.resize(static_cast<size_t>(layout.outputs));
    made->loaded_bias.reserve(static_cast<size_t>(layout.outputs));
  }
  const IntegerValue& x = *made->x.value;
  made->bound = bound_of_products(x, layout.terms);
  made->numbers.codes = reinterpret_cast<const int8_t*>(made->weight->data);
  made->numbers.rows = layout.rows;
  made->numbers.scales.reserve(static_cast<size_t>(made->scales.channels));
  ExactValue& own = value(source);
  own.value.accumulator = size_of(x.type.dtype) > 1 ? Accumulator::S64 : Accumulator::S32;
  Numbers numbers;
  numbers.weights.shape = {layout.outputs, layout.terms};
  numbers.weights_shape = node(multiplies.operands[weights]).type.shape;
  made->shaped = x;
  made->shaped.type.shape = node(multiplies.operands[0]).type.shape;
  made->operation = std::make_unique<Operation>(
      emit(multiplies.op, numbers), std::vector<const IntegerValue*>{&made->shaped}, own.value,
      std::vector{memory(form(multiplies.operands[0]).source)}, memory(source), requantization_,
      threads_, &made->numbers);
  return made;
}

/// Kernel of a product that only biases read. Its float value is needed only by biases that
/// have no integers in this step.
Kernel ExactForward::folded(NodeId id, Kernel kernel) {
  std::vector<std::shared_ptr<Product>> readers;
  for (const NodeId reader : ids(graph_)) {
    if (form(reader).source == reader && form(reader).product == id && reader != id) {
      readers.push_back(make_product(reader));
    }
  }
  return [this, readers, kernel = std::move(kernel)](const Step& step) {
    const auto ready = [](const auto& product) { return product->is_ready(); };
    if (std::ranges::all_of(readers, ready)) return;
    if (lean_) repeats_ = true;
    if (kernel && !lean_) kernel(step);
  };
}

/// Kernel of a product, including the bias added to its accumulators if there is one.
Kernel ExactForward::product(NodeId id, Kernel kernel, const Binding& b) {
  std::shared_ptr<Product> product = make_product(id);
  const bool needed = float_needed_[at(id)];
  ExactValue& own = value(id);
  std::vector<std::shared_ptr<Operation>> decode;
  for (DType dtype : {DType::S32, DType::S64}) {
    own.value.type.dtype = dtype;
    decode.push_back(std::make_shared<Operation>(
        integer::Dequantize{}, std::vector<const IntegerValue*>{&own.value},
        IntegerValue{{DType::F32, own.value.type.shape}}, std::vector{memory(id)}, b.result,
        requantization_, threads_));
  }
  own.value.type.dtype = DType::S32;
  const auto y = std::span(b.y<float>(), static_cast<size_t>(b.output.elements()));
  return [this, product, &own, decode, needed, kernel = std::move(kernel), y,
          encoded = multiplies_codes(form(id).product), status = b.status](const Step& step) {
    own.exact = product->is_ready();
    if (!own.exact) {
      if (lean_) repeats_ = true;
      if (encoded) {
        fill_without_codes(y);
      } else if (kernel && !lean_) {
        kernel(step);
      }
      return;
    }
    status->fault = product->load();
    if (status->fault.text == nullptr) status->fault = product->operation->run();
    own.exact = status->fault.text == nullptr;
    if (!own.exact) return;
    const IntegerValue& result = product->operation->output();
    own.value.type.dtype = result.type.dtype;
    std::ranges::copy(result.scales, own.value.scales.begin());
    if (!lean_ || needed) decode[result.type.dtype == DType::S32 ? 0 : 1]->run();
  };
}

}  // namespace qtape
