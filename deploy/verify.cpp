#include "qtape/deploy/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "qtape/core/printable.h"
#include "qtape/engine/quantizers.h"
#include "qtape/integer/analysis.h"
#include "qtape/integer/exact.h"
#include "qtape/integer/session_hooks.h"

namespace qtape {
namespace {

std::vector<NodeId> inputs_of(const IntegerProgram& program) {
  std::vector<NodeId> found;
  for (int32_t i = 0; i < program.size(); ++i) {
    if (std::holds_alternative<integer::Input>(program[NodeId{i}].op)) {
      found.push_back(NodeId{i});
    }
  }
  require<ArgumentError>(!found.empty(), "the program has no input");
  return found;
}

/// Outputs in floats: they are compared as well.
ConvertOptions with_floats(ConvertOptions options) {
  options.integer_outputs = false;
  return options;
}

}  // namespace

std::string to_string(const Mismatch& m) {
  const std::string sum =
      m.accumulator ? fmt::format(", accumulator {}", *m.accumulator) : std::string();
  return fmt::format("{} sample {} index {}: {} has {}, {} has {}{}", printable(m.label),
                     m.sample, m.index, to_string_view(m.first), m.first_code,
                     to_string_view(m.second), m.second_code, sum);
}

Verifier::Verifier(const Graph& graph, Parameters& parameters, const VerifyOptions& options)
    : Verifier(graph, parameters, options, SessionHooks{}) {}

Verifier::Verifier(const Graph& graph, Parameters& parameters, const VerifyOptions& options,
                   const SessionHooks& hooks)
    : batch_(options.batch) {
  require<ArgumentError>(options.batch >= 1, "batch must be at least 1, got {}", options.batch);
  const Conversion conversion =
      convert_traced(graph.with_batch(batch_), parameters, with_floats(options.convert));
  const IntegerProgram& program = conversion.program;
  pairs_ = conversion.pairs;
  const Graph batched = graph.with_batch(batch_);
  outputs_ = options.convert.outputs;
  if (outputs_.empty()) outputs_ = {graph.outputs()[0]};
  std::vector<NodeId> outputs = outputs_;
  for (const auto& pair : pairs_) {
    if (is_quantizer(batched[pair.graph].op)) outputs.push_back(pair.graph);
    layers_.push_back(
        {batched.name(pair.graph), program[pair.program].value.is_accumulators()});
  }
  float_ = std::make_unique<Tape>(
      batched, parameters,
      TapeOptions{.outputs = outputs, .threads = options.threads, .constant_parameters = true});
  exact_ = std::make_unique<Tape>(
      batched, parameters,
      TapeOptions{.outputs = outputs_,
                  .threads = options.threads,
                  .constant_parameters = true,
                  .arithmetic = exact(program.requantization(), {.keep = true})});
  reference_ = std::make_unique<IntegerSession>(program, SessionOptions{.reference = true});
  backend_ = std::make_unique<IntegerSession>(
      program, SessionOptions{.threads = options.threads, .kept = KeptValues::Codes}, hooks);
  fed_ = inputs_of(program);
  for (const NodeId id : fed_) fed_values_.emplace_back(reference_->input(id).size());
}

std::span<float> Verifier::input(size_t which) {
  require<ArgumentError>(which < fed_.size(), "the program has {} inputs, not input {}",
                         fed_.size(), which);
  return fed_values_[which];
}

/// Hands the samples to all levels.
void Verifier::feed() {
  for (size_t i = 0; i < fed_.size(); ++i) {
    const std::string& label = program()[fed_[i]].label;
    std::ranges::copy(fed_values_[i], reference_->input(fed_[i]).begin());
    std::ranges::copy(fed_values_[i], backend_->input(fed_[i]).begin());
    std::ranges::copy(fed_values_[i], float_->input<float>(label).begin());
    std::ranges::copy(fed_values_[i], exact_->input<float>(label).begin());
  }
}

void Verifier::run(int64_t rows) {
  require<ArgumentError>(rows >= 0 && rows <= batch_, "rows must be in 0..{}, got {}", batch_,
                         rows);
  feed();
  reference_->run();
  backend_->run();
  float_->forward(mode::eval);
  exact_->forward(mode::eval);
  for (size_t i = 0; i < pairs_.size(); ++i) compare(i, rows);
  for (size_t k = 0; k < outputs_.size(); ++k) compare_output(k, rows);
  samples_ += rows;
}

/// How many codes L0 has that L1 has not, where a quantizer made them.
int64_t Verifier::float_differences(size_t i, const ExactValue& exact, int64_t elements) const {
  const NodeId id = pairs_[i].graph;
  const IntegerValue& value = program()[pairs_[i].program].value;
  if (value.is_accumulators() || !is_quantizer(float_->graph()[id].op)) return 0;
  const auto floats = float_->value<float>(id);
  const auto scale = static_cast<float>(value.scales[0]);
  const auto zero = int64_t{value.zero_point};
  return dispatch_codes(value.type.dtype, [&]<class Code>() {
    const auto* codes = reinterpret_cast<const Code*>(exact.data);
    int64_t different = 0;
    for (int64_t k = 0; k < elements; ++k) {
      const float y = static_cast<float>(codes[k] - zero) * scale;
      different += floats[static_cast<size_t>(k)] == y ? 0 : 1;
    }
    return different;
  });
}

void Verifier::note(Level first, Level second, size_t i, int64_t k, int64_t a, int64_t b) {
  if (first_) return;
  const NodeId id = pairs_[i].program;
  const TensorType& type = program()[id].value.type;
  const int64_t width = std::max<int64_t>(1, compared(type, 1));
  first_ = Mismatch{first, second, layers_[i].label, samples_ + k / width, k % width,
                    a,     b,      std::nullopt};
  const IntegerNode& node = program()[id];
  if (node.operands.empty()) return;
  const NodeId from = node.operands[0];
  if (node.operands.size() == 1 && program()[from].value.is_accumulators())
    first_->accumulator = reference_->integer(from, k);
}

/// Elements of `rows` samples, or all where they do not lie sample after sample.
int64_t Verifier::compared(const TensorType& type, int64_t rows) const {
  const bool by_sample = type.shape.rank() > 0 && type.shape[0] == batch_;
  return by_sample ? type.elements() / batch_ * rows : type.elements();
}

void Verifier::compare(size_t i, int64_t rows) {
  const NodeId id = pairs_[i].program;
  LayerComparison& layer = layers_[i];
  const int64_t elements = compared(program()[id].value.type, rows);
  const ExactValue* value = exact_->integers(pairs_[i].graph);
  if (value == nullptr || !value->exact) {
    fail<GraphError>("{}: has no integers in the exact forward",
                     exact_->graph().describe(pairs_[i].graph));
  }
  layer.compared += elements;
  layer.float_exact += float_differences(i, *value, elements);
  const bool backend = backend_->has_value(id);
  const DType dtype = program()[id].value.type.dtype;
  const auto bytes = static_cast<size_t>(elements * size_of(dtype));
  const auto wanted = reference_->bytes(id).first(bytes);
  const bool alike = value->value.type.dtype == dtype &&
                     std::ranges::equal(wanted, std::span(value->data, bytes)) &&
                     (!backend || std::ranges::equal(wanted, backend_->bytes(id).first(bytes)));
  if (alike) return;
  for (int64_t k = 0; k < elements; ++k) {
    const int64_t reference = reference_->integer(id, k);
    const int64_t exact = value->at(k);
    if (exact != reference) {
      ++layer.exact_reference;
      note(Level::Exact, Level::Reference, i, k, exact, reference);
    }
    if (backend && backend_->integer(id, k) != reference) {
      ++layer.reference_backend;
      note(Level::Reference, Level::Backend, i, k, reference, backend_->integer(id, k));
    }
  }
}

std::span<const float> Verifier::output(Level level) const { return output(level, 0); }

std::span<const float> Verifier::output(Level level, size_t which) const {
  const NodeId id = program().outputs()[which];
  switch (level) {
    case Level::Float:
      return float_->value<float>(outputs_[which]);
    case Level::Exact:
      return exact_->value<float>(outputs_[which]);
    case Level::Reference:
      return reference_->value<float>(id);
    case Level::Backend:
      break;
  }
  return backend_->value<float>(id);
}

void Verifier::compare_output(size_t which, int64_t rows) {
  const auto exact = output(Level::Exact, which);
  const auto floats = output(Level::Float, which);
  const auto reference = output(Level::Reference, which);
  const auto backend = output(Level::Backend, which);
  const auto same = [](float a, float b) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
  };
  const auto elements =
      static_cast<size_t>(compared(program()[program().outputs()[which]].value.type, rows));
  for (size_t k = 0; k < elements; ++k) {
    if (!same(exact[k], reference[k]) || !same(reference[k], backend[k])) ++output_mismatches_;
    if (!same(floats[k], exact[k])) ++float_output_mismatches_;
  }
}

int64_t Verifier::mismatches() const {
  int64_t all = output_mismatches_;
  for (const LayerComparison& layer : layers_) {
    all += layer.exact_reference + layer.reference_backend;
  }
  return all;
}

}  // namespace qtape
