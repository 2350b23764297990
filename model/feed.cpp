#include "qtape/model/feed.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "qtape/engine/labels.h"
#include "qtape/engine/plan.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/model/targets.h"

namespace qtape {
namespace {

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
  for (const auto& [answer, loss] : comparisons(graph)) {
    names.emplace(loss.input, answer_name(graph, answer));
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
    if (input.target && answer != compared_.end()) input.answer = answer->second;
  }

 private:
  bool has_answers_;
  std::vector<bool> answers_;
  std::vector<bool> losses_;
  std::map<NodeId, std::string> compared_;
};

/// Throws ArgumentError for an input whose samples have no elements: batches of them never end.
void require_elements(const Shape& shape, const std::string& input) {
  require<ArgumentError>(shape.without_first().elements() >= 1,
                         "{}: a sample has no elements, expected at least 1", input);
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
