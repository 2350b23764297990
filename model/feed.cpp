#include "qtape/model/feed.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "qtape/core/printable.h"
#include "qtape/engine/labels.h"
#include "qtape/engine/plan.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/model/targets.h"

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

/// Returns an input without memory. Matching only tests which of the two spans is not empty.
FedInput unbound_input(const std::string& label, DType dtype, const Shape& shape) {
  static float a_float = 0;
  static int32_t an_integer = 0;
  FedInput input{.label = label, .sample = shape.without_first()};
  if (dtype == DType::S32) {
    input.integers = std::span(&an_integer, 1);
  } else {
    input.floats = std::span(&a_float, 1);
  }
  return input;
}

/// Returns the name of the answer with which a loss compares each input that is a target.
std::map<NodeId, std::string> compared_answers(const Graph& graph) {
  std::map<NodeId, std::string> names;
  for (const NodeId answer : graph.answers()) {
    if (const auto loss = comparison(graph, answer)) {
      names.emplace(loss->input, answer_name(graph, answer));
    }
  }
  return names;
}

/// Losses and answers that depend on each input of a graph.
class Roles {
 public:
  explicit Roles(const Graph& graph)
      : has_answers_(!graph.answers().empty()),
        answers_(needed_for(graph, graph.answers())),
        losses_(needed_for(graph, graph.losses())),
        compared_(compared_answers(graph)) {}

  /// True if anything depends on the input.
  bool is_used(NodeId id) const { return losses_[at(id)] || answers_[at(id)]; }
  void set(NodeId id, FedInput& input) const {
    input.target = has_answers_ && losses_[at(id)] && !answers_[at(id)];
    const auto answer = compared_.find(id);
    if (answer != compared_.end()) input.answer = answer->second;
  }

 private:
  bool has_answers_;
  std::vector<bool> answers_;
  std::vector<bool> losses_;
  std::map<NodeId, std::string> compared_;
};

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
  const Roles roles(graph);
  for (const NodeId id : ids(graph)) {
    const auto* op = std::get_if<Input>(&graph[id].op);
    if (op == nullptr) continue;
    const bool needed = tape.memory().nodes[at(id)].needed;
    const bool known = op->batch && (op->dtype == DType::F32 || op->dtype == DType::S32);
    require<ArgumentError>(!needed || known, "{}: samples need a batched input of f32 or s32",
                           graph.describe(id));
    if (!known || !(needed || roles.is_used(id))) continue;
    FedInput input = unbound_input(graph[id].label, op->dtype, op->shape);
    input.needed = needed;
    roles.set(id, input);
    if (needed) {
      require_elements(op->shape, graph.describe(id));
      if (op->dtype == DType::F32) input.floats = tape.input<float>(id);
      if (op->dtype == DType::S32) input.integers = tape.input<int32_t>(id);
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
  for (FedInput& input : inputs_for(verifier.graph(), {})) {
    if (std::ranges::count(found, input.label, &FedInput::label) == 0) found.push_back(input);
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

namespace {

/// Columns of a data set, which inputs take one after another.
class Matching {
 public:
  Matching(std::span<const FedInput> inputs, const data::Dataset& dataset)
      : inputs_(inputs),
        dataset_(dataset),
        columns_(dataset.columns()),
        found_(inputs.size(), no_column),
        taken_(columns_.size(), false) {}

  std::vector<size_t> run() {
    for (size_t i = 0; i < inputs_.size(); ++i) take_name(i);
    for (size_t i = 0; i < inputs_.size(); ++i) take_answer(i);
    std::vector<size_t> guessed;
    // Inputs of losses come last: not every pass needs them.
    for (const bool target : {false, true}) {
      for (size_t i = 0; i < inputs_.size(); ++i) {
        if (inputs_[i].target != target || found_[i] != no_column) continue;
        if (target) take_first(i, true);
        take_first(i, false);
        require_found(i);
        if (!target && inputs_[i].needed) guessed.push_back(i);
      }
    }
    for (const size_t i : guessed) require_only(i);
    return std::move(found_);
  }

 private:
  void take(size_t i, size_t column) {
    found_[i] = column;
    taken_[column] = true;
  }

  void take_name(size_t i) {
    const FedInput& input = inputs_[i];
    const auto named = std::ranges::find_if(columns_, [&](const data::Column& each) {
      return each.name == input.label && may_fill(each, input);
    });
    if (named == columns_.end()) return;
    const bool fit = fits(*named, input);
    const bool floats = !input.integers.empty() && is_float(named->sample.dtype);
    require<ArgumentError>(fit || !input.needed, "{}: column {} has {} per sample{}",
                           describe(input), printable(named->name), to_string(named->sample),
                           floats ? ", expected integers" : "");
    if (fit) take(i, static_cast<size_t>(named - columns_.begin()));
  }

  void take_answer(size_t i) {
    const FedInput& input = inputs_[i];
    if (input.answer.empty() || found_[i] != no_column) return;
    for (size_t k = 0; k < columns_.size(); ++k) {
      if (columns_[k].target && columns_[k].name == input.answer && is_free(k, input)) {
        return take(i, k);
      }
    }
  }

  bool is_free(size_t column, const FedInput& input) const {
    return !taken_[column] && fits(columns_[column], input);
  }

  void take_first(size_t i, bool targets) {
    for (size_t k = 0; k < columns_.size() && found_[i] == no_column; ++k) {
      if (columns_[k].target == targets && is_free(k, inputs_[i])) take(i, k);
    }
  }

  void require_found(size_t i) const {
    const FedInput& input = inputs_[i];
    if (found_[i] != no_column || !input.needed) return;
    const auto labels = std::ranges::find_if(columns_, [&](const data::Column& each) {
      return each.classes > 0 && each.sample.elements() == input.sample.elements();
    });
    std::string remedy;
    if (input.target && input.integers.empty() && labels != columns_.end()) {
      remedy = fmt::format("; {} holds labels: give floats if they are values",
                           printable(labels->name));
    } else if (input.target) {
      remedy = "; the loss compares it with an output: add a target";
    }
    fail<ArgumentError>("{}: no column of the data fits it; the data have {}{}",
                        describe(input), describe(dataset_), remedy);
  }

  /// Throws if a column is left that fits the input as well as the one it took.
  void require_only(size_t i) const {
    for (size_t k = 0; k < columns_.size(); ++k) {
      require<ArgumentError>(
          columns_[k].target || !is_free(k, inputs_[i]),
          "{}: columns {} and {} fit it, and neither has its name: rename the one to read",
          describe(inputs_[i]), printable(columns_[found_[i]].name),
          printable(columns_[k].name));
    }
  }

  std::span<const FedInput> inputs_;
  const data::Dataset& dataset_;
  std::span<const data::Column> columns_;
  std::vector<size_t> found_;
  std::vector<bool> taken_;
};

}  // namespace

std::vector<size_t> columns_for(std::span<const FedInput> inputs,
                                const data::Dataset& dataset) {
  return Matching(inputs, dataset).run();
}

std::vector<FedInput> inputs_for(const Graph& graph, std::span<const NodeId> outputs) {
  const std::vector<bool> used = needed_for(graph, outputs);
  const Roles roles(graph);
  std::vector<FedInput> inputs;
  for (const NodeId id : ids(graph)) {
    const Node& node = graph[id];
    const auto* op = std::get_if<Input>(&node.op);
    if (op == nullptr || !op->batch || !(used[at(id)] || roles.is_used(id))) continue;
    FedInput& input = inputs.emplace_back(unbound_input(node.label, op->dtype, op->shape));
    input.needed = used[at(id)];
    roles.set(id, input);
  }
  return inputs;
}

std::vector<FedInput> inputs_for(const IntegerProgram& program) {
  std::vector<FedInput> inputs;
  for (const IntegerNode& node : program.nodes()) {
    const auto* op = std::get_if<integer::Input>(&node.op);
    if (op == nullptr || !op->batch || op->shape.rank() == 0) continue;
    inputs.push_back(unbound_input(node.label, node.value.type.dtype, op->shape));
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
  const std::vector<size_t> columns = columns_for(inputs_, dataset_);
  for (size_t i = 0; i < columns.size(); ++i) {
    if (inputs_[i].needed) columns_.push_back(columns[i]);
  }
  std::erase_if(inputs_, [](const FedInput& each) { return !each.needed; });
  require<ArgumentError>(!inputs_.empty(), "the output depends on no input");
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
