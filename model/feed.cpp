#include "qtape/model/feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "qtape/core/printable.h"
#include "qtape/engine/plan.h"
#include "qtape/integer/program/integer_node.h"

namespace qtape {
namespace {

Shape without_ones(const Shape& shape) {
  std::vector<int64_t> kept;
  for (const int64_t extent : shape.extents()) {
    if (extent != 1) kept.push_back(extent);
  }
  return Shape(kept);
}

/// True for a shape [1, ...] and the same one with its 1 last.
bool moves_first_one(const Shape& first, const Shape& last) {
  if (first.rank() == 0 || first[0] != 1 || last[-1] != 1) return false;
  return std::ranges::equal(first.extents().subspan(1),
                            last.extents().first(static_cast<size_t>(last.rank() - 1)));
}

/// True for shapes that differ only in extents of 1. With equally many axes, two of them larger
/// than 1, only a single channel may be first in one and last in the other: [8, 8, 1] is no
/// [8, 1, 8].
bool same_axes(const Shape& a, const Shape& b) {
  const Shape large = without_ones(a);
  if (large != without_ones(b)) return false;
  return a.rank() != b.rank() || large.rank() < 2 || a == b || moves_first_one(a, b) ||
         moves_first_one(b, a);
}

std::string describe(const data::Dataset& dataset) {
  std::string text;
  for (const data::Column& each : dataset.columns()) {
    text += fmt::format("{}{}{} {}", text.empty() ? "" : ", ", each.target ? "target " : "",
                        printable(each.name), to_string(each.sample));
  }
  return text.empty() ? "no columns" : text;
}

/// By node: true if only losses depend on it. In a graph without answers, for none.
std::vector<bool> loss_nodes(const Graph& graph) {
  const std::vector<NodeId> answers = graph.answers();
  if (answers.empty()) return std::vector<bool>(static_cast<size_t>(graph.size()));
  std::vector<bool> found = needed_for(graph, answers);
  found.flip();
  return found;
}

std::string describe(const FedInput& input) {
  const DType dtype = input.integers.empty() ? DType::F32 : DType::S32;
  return fmt::format("input '{}' {}", printable(input.label),
                     to_string(TensorType{dtype, input.sample}));
}

/// Throws ArgumentError for an input whose samples have no elements: batches of them never end.
void require_elements(const Shape& shape, const std::string& input) {
  require<ArgumentError>(shape.without_first().elements() >= 1,
                         "{}: a sample has no elements, expected at least 1", input);
}

/// True unless the column is a target and the input is not of a loss.
bool may_fill(const data::Column& column, const FedInput& input) {
  return input.target || !column.target;
}

}  // namespace

int64_t FedInput::rows() const {
  const auto elements = static_cast<int64_t>(std::max(floats.size(), integers.size()));
  return elements / std::max<int64_t>(1, sample.elements());
}

std::vector<FedInput> inputs_of(Tape& tape) {
  std::vector<FedInput> found;
  const Graph& graph = tape.graph();
  const std::vector<bool> of_losses = loss_nodes(graph);
  for (const NodeId id : ids(graph)) {
    const auto* op = std::get_if<Input>(&graph[id].op);
    if (op == nullptr || !tape.memory().nodes[at(id)].needed) continue;
    const bool known = op->dtype == DType::F32 || op->dtype == DType::S32;
    require<ArgumentError>(op->batch && known, "{}: samples need a batched input of f32 or s32",
                           graph.describe(id));
    require_elements(op->shape, graph.describe(id));
    FedInput input{.label = graph[id].label,
                   .sample = op->shape.without_first(),
                   .target = of_losses[at(id)]};
    if (op->dtype == DType::F32) {
      input.floats = tape.input<float>(id);
    } else {
      input.integers = tape.input<int32_t>(id);
    }
    found.push_back(input);
  }
  return found;
}

std::vector<FedInput> inputs_of(IntegerSession& session) {
  std::vector<FedInput> found;
  const IntegerProgram& program = session.program();
  for (const ProgramNodeId id : input_ids(program)) {
    const auto* op = std::get_if<integer::Input>(&program[id].op);
    require<ArgumentError>(op->batch && op->shape.rank() >= 1,
                           "{}: samples need a batched input", program.describe(id));
    require_elements(op->shape, program.describe(id));
    FedInput input{.label = program[id].label, .sample = op->shape.without_first()};
    if (op->indices == 0) input.floats = session.input(id);
    if (op->indices != 0) input.integers = session.input<int32_t>(id);
    found.push_back(input);
  }
  return found;
}

std::vector<FedInput> inputs_of(Verifier& verifier) {
  std::vector<FedInput> found;
  const IntegerProgram& program = verifier.program();
  for (size_t i = 0; i < verifier.inputs().size(); ++i) {
    const ProgramNodeId id = verifier.inputs()[i];
    const auto& op = std::get<integer::Input>(program[id].op);
    require<ArgumentError>(op.batch && op.shape.rank() >= 1, "{}: samples need a batched input",
                           program.describe(id));
    require_elements(op.shape, program.describe(id));
    FedInput input{.label = program[id].label, .sample = op.shape.without_first()};
    if (op.indices == 0) input.floats = verifier.input(i);
    if (op.indices != 0) input.integers = verifier.input<int32_t>(i);
    found.push_back(input);
  }
  return found;
}

bool fits(const data::Column& column, const FedInput& input) {
  const Shape& shape = column.sample.shape;
  if (!input.integers.empty()) {
    return !is_float(column.sample.dtype) && same_axes(shape, input.sample);
  }
  if (column.classes > 0) return false;
  if (same_axes(shape, input.sample)) return true;
  const bool flat = shape.rank() == 1 || input.sample.rank() == 1;
  return flat && shape.elements() == input.sample.elements();
}

std::vector<size_t> columns_for(std::span<const FedInput> inputs,
                                const data::Dataset& dataset) {
  constexpr size_t none = SIZE_MAX;
  const auto columns = dataset.columns();
  std::vector<size_t> found(inputs.size(), none);
  std::vector<bool> taken(columns.size(), false);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto named = std::ranges::find_if(columns, [&](const data::Column& each) {
      return each.name == inputs[i].label && may_fill(each, inputs[i]);
    });
    if (named == columns.end()) continue;
    const bool floats = !inputs[i].integers.empty() && is_float(named->sample.dtype);
    require<ArgumentError>(fits(*named, inputs[i]), "{}: column {} has {} per sample{}",
                           describe(inputs[i]), printable(named->name),
                           to_string(named->sample), floats ? ", expected integers" : "");
    found[i] = static_cast<size_t>(named - columns.begin());
    taken[found[i]] = true;
  }
  const auto fill = [&](size_t i, bool targets) {
    for (size_t k = 0; k < columns.size() && found[i] == none; ++k) {
      if (taken[k] || columns[k].target != targets || !fits(columns[k], inputs[i])) continue;
      found[i] = k;
      taken[k] = true;
    }
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].target) fill(i, true);
    fill(i, false);
    require<ArgumentError>(
        found[i] != none, "{}: no column of the data fits it; the data have {}{}",
        describe(inputs[i]), describe(dataset),
        inputs[i].target ? "; the loss compares it with an output: add a target" : "");
  }
  return found;
}

namespace {

/// Returns an input without memory. Matching only tests which of the two spans is not empty.
FedInput unbound_input(const std::string& label, DType dtype, const Shape& shape, bool target) {
  static float a_float = 0;
  static int32_t an_integer = 0;
  FedInput input{.label = label, .sample = shape.without_first(), .target = target};
  if (dtype == DType::S32) {
    input.integers = std::span(&an_integer, 1);
  } else {
    input.floats = std::span(&a_float, 1);
  }
  return input;
}

}  // namespace

std::vector<FedInput> inputs_for(const Graph& graph, std::span<const NodeId> outputs) {
  const std::vector<bool> used = needed_for(graph, outputs);
  const std::vector<bool> of_losses = loss_nodes(graph);
  std::vector<FedInput> inputs;
  for (const NodeId id : ids(graph)) {
    const Node& node = graph[id];
    const auto* op = std::get_if<Input>(&node.op);
    if (op == nullptr || !op->batch || !used[at(id)]) continue;
    inputs.push_back(unbound_input(node.label, op->dtype, op->shape, of_losses[at(id)]));
  }
  return inputs;
}

std::vector<FedInput> inputs_for(const IntegerProgram& program) {
  std::vector<FedInput> inputs;
  for (const IntegerNode& node : program.nodes()) {
    const auto* op = std::get_if<integer::Input>(&node.op);
    if (op == nullptr || !op->batch || op->shape.rank() == 0) continue;
    inputs.push_back(unbound_input(node.label, node.value.type.dtype, op->shape, false));
  }
  return inputs;
}

void require_fit(const Graph& graph, std::span<const NodeId> outputs,
                 const data::Dataset& dataset) {
  (void)columns_for(inputs_for(graph, outputs), dataset);
}

void require_fit(const IntegerProgram& program, const data::Dataset& dataset) {
  (void)columns_for(inputs_for(program), dataset);
}

Feed::Feed(std::vector<FedInput> inputs, data::Dataset dataset)
    : inputs_(std::move(inputs)), dataset_(std::move(dataset)) {
  require<ArgumentError>(!inputs_.empty(), "the output depends on no input");
  columns_ = columns_for(inputs_, dataset_);
}

void Feed::fill_rows(std::span<const int64_t> samples, const ReadFloats& read,
                     const data::Draw& draw) {
  require<ArgumentError>(std::ssize(samples) <= rows(), "expected at most {} samples, got {}",
                         rows(), samples.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const FedInput& input = inputs_[i];
    const auto width = static_cast<size_t>(input.sample.elements());
    for (size_t row = 0; row < samples.size(); ++row) {
      if (input.integers.empty()) {
        read(columns_[i], row, input.floats.subspan(row * width, width));
      } else {
        dataset_.read(columns_[i], samples[row], input.integers.subspan(row * width, width),
                      draw);
      }
    }
    const size_t filled = samples.size() * width;
    if (input.integers.empty()) {
      std::ranges::fill(input.floats.subspan(filled), 0.0f);
    } else {
      std::ranges::fill(input.integers.subspan(filled), 0);
    }
  }
}

void Feed::fill(std::span<const int64_t> samples) {
  const auto read = [&](size_t column, size_t row, std::span<float> to) {
    dataset_.read(column, samples[row], to);
  };
  fill_rows(samples, read, {});
}

int64_t Feed::fill_from(int64_t first) {
  const int64_t count = std::clamp<int64_t>(dataset_.size() - first, 0, rows());
  order_.resize(static_cast<size_t>(count));
  std::iota(order_.begin(), order_.end(), first);
  fill(order_);
  return count;
}

void Feed::fill(std::span<const int64_t> samples, int64_t step, data::Augmenter& augmenter) {
  const auto read = [&](size_t column, size_t row, std::span<float> to) {
    augmenter.read(dataset_, column, samples[row], step, row, to);
  };
  fill_rows(samples, read, augmenter.draw_at(step));
}

BatchSource batches_of(const data::Dataset& dataset, int64_t samples) {
  return [set = dataset.first(samples)](Tape& tape, int64_t index) {
    Feed feed(inputs_of(tape), set);
    const int64_t first = index * feed.rows();
    if (first + feed.rows() > set.size()) return false;
    (void)feed.fill_from(first);
    return true;
  };
}

}  // namespace qtape
