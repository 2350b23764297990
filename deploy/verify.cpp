#include "qtape/deploy/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "qtape/core/error.h"
#include "qtape/core/move_to.h"
#include "qtape/core/printable.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/session_hooks.h"

namespace qtape {
namespace {

std::vector<ProgramNodeId> inputs_of(const IntegerProgram& program) {
  std::vector<ProgramNodeId> found = input_ids(program);
  require<ArgumentError>(!found.empty(), "the program has no input");
  return found;
}

/// Returns the options with float outputs, which are compared as well.
ConvertOptions with_floats(ConvertOptions options) {
  options.integer_outputs = false;
  return options;
}

/// Returns the program with floats in place of outputs that are integers.
IntegerProgram with_float_outputs(IntegerProgram program) {
  std::vector<ProgramNodeId> outputs(program.outputs().begin(), program.outputs().end());
  require<ArgumentError>(!outputs.empty(), "the program has no outputs");
  for (ProgramNodeId& id : outputs) {
    if (program[id].value.type.dtype != DType::F32) {
      id = program.add(integer::Dequantize{}, {id});
    }
  }
  program.set_outputs(std::move(outputs));
  return program;
}

}  // namespace

std::string to_string(const Mismatch& m) {
  const std::string sum =
      m.accumulator ? fmt::format(", accumulator {}", *m.accumulator) : std::string();
  return fmt::format("{} sample {} index {}: {} has {}, {} has {}{}", printable(m.label),
                     m.sample, m.index, to_string_view(m.first), m.first_code,
                     to_string_view(m.second), m.second_code, sum);
}

Verifier::Verifier(Verifier&&) noexcept = default;
Verifier& Verifier::operator=(Verifier&& other) noexcept {
  return move_to(*this, std::move(other));
}
Verifier::~Verifier() = default;

Verifier::Verifier(const Graph& graph, const Parameters& parameters,
                   const VerifyOptions& options)
    : Verifier(graph, parameters, options, SessionHooks{}) {}

Verifier::Verifier(const Graph& graph, const Parameters& parameters,
                   const VerifyOptions& options, const SessionHooks& hooks)
    : batch_(options.batch) {
  require<ArgumentError>(options.batch >= 1, "batch must be at least 1, got {}", options.batch);
  Graph batched = graph.with_batch(batch_);
  Conversion conversion = convert_traced(batched, parameters, with_floats(options.convert));
  std::vector<ProgramNodeId> inputs = inputs_of(conversion.program);
  std::vector<NodeId> outputs = options.convert.outputs;
  if (outputs.empty()) outputs = graph.answers();
  hold({std::move(batched), std::move(conversion), std::move(inputs), std::move(outputs)});
  for (const auto& pair : subject_->conversion.pairs) {
    layers_.push_back(
        {subject_->graph.name(pair.graph), program()[pair.program].value.is_accumulators()});
  }
  prepare(parameters, options, hooks);
}

Verifier::Verifier(const IntegerProgram& program, const VerifyOptions& asked)
    : batch_(asked.batch) {
  VerifyOptions options = asked;
  if (std::ranges::equal(options.levels, default_levels)) {
    std::erase_if(options.levels, [](Level each) { return each < Level::Reference; });
  }
  require<ArgumentError>(options.batch >= 1, "batch must be at least 1, got {}", options.batch);
  for (const Level level : options.levels) {
    require<ArgumentError>(level != Level::Float && level != Level::Exact,
                           "{} needs a model, not a program", to_string_view(level));
  }
  Conversion conversion{
      with_float_outputs(program.batch() ? program.with_batch(batch_) : program), {}};
  std::vector<ProgramNodeId> inputs = inputs_of(conversion.program);
  for (const ProgramNodeId id : ids(conversion.program)) {
    const IntegerValue& value = conversion.program[id].value;
    const bool computed = !conversion.program[id].operands.empty();
    if (!computed || !(value.is_codes() || value.is_accumulators())) continue;
    conversion.pairs.push_back({{}, id});
    layers_.push_back({conversion.program.name(id), value.is_accumulators()});
  }
  hold({{}, std::move(conversion), std::move(inputs), {}});
  static const Parameters none(Graph(), 0);
  prepare(none, options, {});
}

void Verifier::hold(LevelSubject subject) {
  subject_ = Held<LevelSubject>("verifier", std::make_unique<LevelSubject>(std::move(subject)));
}

void Verifier::prepare(const Parameters& parameters, const VerifyOptions& options,
                       const SessionHooks& hooks) {
  for (ProgramNodeId id : subject_->inputs) {
    const TensorType& type = program()[id].value.type;
    fed_values_.push_back({type, std::vector<std::byte>(static_cast<size_t>(type.bytes()))});
  }
  std::set<Level> levels(options.levels.begin(), options.levels.end());
  levels.insert(Level::Reference);
  if (*levels.rbegin() > Level::Backend) require_rows(*levels.rbegin());
  for (Level level : levels) {
    runners_[level] =
        make_runner(level, {*subject_, parameters, options.threads, &hooks}, options.runners);
  }
}

void Verifier::require_rows(Level level) const {
  if (!program().batch() || batch_ == 1) return;
  const IntegerProgram one = program().with_batch(1);
  for (const ProgramNodeId id : program().outputs()) {
    const Shape& all = program()[id].value.type.shape;
    const Shape& row = one[id].value.type.shape;
    require<ArgumentError>(
        all == row || (all[0] == batch_ && row[0] == 1),
        "{} runs the samples one by one, and output {} of {} samples is {}, not "
        "a row for each",
        to_string_view(level), program().describe(id), batch_, to_string(all));
  }
}

std::span<std::byte> Verifier::input_bytes(size_t which, DType dtype) {
  require<ArgumentError>(which < fed_values_.size(), "the program has {} inputs, not input {}",
                         fed_values_.size(), which);
  Tensor& values = fed_values_[which];
  require<ArgumentError>(values.type.dtype == dtype, "input {} is {}, accessed as {}", which,
                         to_string(values.type), to_string_view(dtype));
  return values.data;
}

void Verifier::run(int64_t rows) {
  require<ArgumentError>(rows >= 0 && rows <= batch_, "rows must be in 0..{}, got {}", batch_,
                         rows);
  for (const auto& [level, runner] : runners_) runner->run(fed_values_, rows);
  for (size_t i = 0; i < layers_.size(); ++i) compare(i, rows);
  for (size_t k = 0; k < program().outputs().size(); ++k) compare_output(k, rows);
  samples_ += rows;
}

const LevelRunner* Verifier::runner(Level level) const {
  const auto found = runners_.find(level);
  return found == runners_.end() ? nullptr : found->second.get();
}

std::vector<Level> Verifier::levels() const {
  std::vector<Level> all;
  for (const auto& [level, runner] : runners_) all.push_back(level);
  return all;
}

std::string Verifier::report(Level level) const {
  const LevelRunner* found = runner(level);
  return found == nullptr ? std::string() : found->report();
}

void Verifier::note(Level other, size_t i, int64_t k, int64_t reference, int64_t came) {
  if (first_) return;
  const ProgramNodeId id = subject_->conversion.pairs[i].program;
  const TensorType& type = program()[id].value.type;
  const int64_t width = std::max<int64_t>(1, compared(type, 1));
  first_ = Mismatch{Level::Reference, other, layers_[i].label, samples_ + k / width, k % width,
                    reference,        came,  std::nullopt};
  if (other < Level::Reference) {
    std::swap(first_->first, first_->second);
    std::swap(first_->first_code, first_->second_code);
  }
  const IntegerNode& node = program()[id];
  if (node.operands.size() != 1) return;
  for (size_t from = 0; from < layers_.size(); ++from) {
    if (subject_->conversion.pairs[from].program != node.operands[0]) continue;
    if (!program()[node.operands[0]].value.is_accumulators()) continue;
    first_->accumulator = runner(Level::Reference)->integers(from).value().at(k);
  }
}

/// Returns the number of elements of `rows` samples, or of the whole value if samples are not
/// consecutive.
int64_t Verifier::compared(const TensorType& type, int64_t rows) const {
  // Rows of a sample may be joined with the batch.
  const bool by_sample = type.shape.rank() > 0 && type.shape[0] % batch_ == 0;
  return by_sample ? type.elements() / batch_ * rows : type.elements();
}

void Verifier::compare(size_t i, int64_t rows) {
  const IntegerValue& value = program()[subject_->conversion.pairs[i].program].value;
  const int64_t elements = compared(value.type, rows);
  layers_[i].compared += elements;
  const LevelRunner* floats = runner(Level::Float);
  const LevelRunner* exact = runner(Level::Exact);
  if (floats != nullptr && exact != nullptr && !value.is_accumulators()) {
    layers_[i].differences[Level::Float] += float_differences(*floats, *exact, i, elements);
  }
  for (const auto& [level, runner] : runners_) {
    if (level != Level::Float && level != Level::Reference) compare(level, i, elements);
  }
}

void Verifier::compare(Level level, size_t i, int64_t elements) {
  const auto came = runner(level)->integers(i);
  if (!came) return;
  int64_t& different = layers_[i].differences[level];
  const IntegersView wanted = runner(Level::Reference)->integers(i).value();
  const auto bytes = static_cast<size_t>(elements * size_of(wanted.dtype));
  if (came->dtype == wanted.dtype &&
      std::ranges::equal(std::span(wanted.data, bytes), std::span(came->data, bytes))) {
    return;
  }
  for (int64_t k = 0; k < elements; ++k) {
    if (came->at(k) == wanted.at(k)) continue;
    ++different;
    int64_t& largest = layers_[i].largest[level];
    largest = std::max(largest, std::abs(came->at(k) - wanted.at(k)));
    note(level, i, k, wanted.at(k), came->at(k));
  }
}

std::span<const float> Verifier::output(Level level) const {
  const LevelRunner* of = runner(level);
  require<ArgumentError>(of != nullptr, "{} does not run here", to_string_view(level));
  return of->output(0);
}

void Verifier::compare_output(size_t which, int64_t rows) {
  const auto same = [](float a, float b) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
  };
  const ProgramNodeId id = program().outputs()[which];
  const auto elements = static_cast<size_t>(compared(program()[id].value.type, rows));
  const auto wanted = runner(Level::Reference)->output(which);
  const LevelRunner* exact = runner(Level::Exact);
  for (const auto& [level, runner] : runners_) {
    const auto came = runner->output(which);
    if (level == Level::Float && exact == nullptr) continue;
    const auto of = level == Level::Float ? exact->output(which) : wanted;
    int64_t& count = level == Level::Float ? float_output_mismatches_ : output_mismatches_;
    for (size_t k = 0; k < elements; ++k) count += same(came[k], of[k]) ? 0 : 1;
  }
}

int64_t LayerComparison::mismatches() const {
  int64_t all = 0;
  for (const auto& [level, count] : differences) all += level == Level::Float ? 0 : count;
  return all;
}

int64_t Verifier::mismatches() const {
  int64_t all = output_mismatches_;
  for (const LayerComparison& layer : layers_) all += layer.mismatches();
  return all;
}

}  // namespace qtape
