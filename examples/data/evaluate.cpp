#include "qtape/examples/data/evaluate.h"

#include <algorithm>

#include "qtape/core/sha256.h"
#include "qtape/examples/data/batches.h"

namespace qtape::data {
namespace {

NodeId output_of(const Graph& graph) {
  check(!graph.outputs().empty(), "the graph names no outputs");
  const NodeId output = graph.outputs()[0];
  const TensorType& type = graph[output].type;
  check(type.dtype == DType::F32 && type.shape.rank() == 2,
        "{}: expected f32 [batch, classes] as first output, got {}", graph.describe(output),
        to_string(type));
  return output;
}

NodeId input_of(const Tape& tape, const Graph& graph) {
  NodeId input;
  for (int32_t i = 0; i < graph.size(); ++i) {
    const auto* op = std::get_if<Input>(&graph[NodeId{i}].op);
    if (op == nullptr || !tape.memory().nodes[static_cast<size_t>(i)].needed) continue;
    check(input.index < 0 && op->batch && op->dtype == DType::F32 && op->shape.rank() == 2,
          "{}: expected one batched f32 input [batch, features]", graph.describe(NodeId{i}));
    input = NodeId{i};
  }
  check(input.index >= 0, "the output depends on no input");
  return input;
}

}  // namespace

int64_t predicted(std::span<const float> scores) {
  return std::ranges::max_element(scores) - scores.begin();
}

Evaluation evaluate(const Dataset& dataset, std::span<float> x,
                    const std::function<Answers(int64_t count)>& run) {
  Sha256 hash;
  int64_t right = 0;
  int64_t count = 0;
  for (int64_t first = 0; first < dataset.size(); first += count) {
    count = fill_images(dataset, first, x);
    const Answers answers = run(count);
    hash.update(answers.bytes);
    const size_t classes = answers.scores.size() / static_cast<size_t>(count);
    for (int64_t row = 0; row < count; ++row) {
      const auto scores = answers.scores.subspan(static_cast<size_t>(row) * classes, classes);
      const auto label = dataset.labels[static_cast<size_t>(first + row)];
      right += predicted(scores) == label ? 1 : 0;
    }
  }
  const auto images = static_cast<double>(std::max<int64_t>(1, dataset.size()));
  return {100.0 * static_cast<double>(right) / images, hex(hash.digest())};
}

Evaluator::Evaluator(const Graph& graph, Parameters& parameters, int threads,
                     Arithmetic arithmetic)
    : tape_(graph.with_batch(batch), parameters,
            {.outputs = {output_of(graph)},
             .threads = threads,
             .constant_parameters = true,
             .arithmetic = arithmetic}),
      input_(input_of(tape_, tape_.graph())),
      output_(output_of(graph)) {
  const TensorType& type = tape_.graph()[output_].type;
  check(type.shape[0] == batch,
        "{}: expected one row of outputs per image, got {} for {} images",
        tape_.graph().describe(output_), to_string(type), batch);
}

Evaluation Evaluator::run(const Dataset& dataset, Mode mode) {
  const int64_t features = tape_.graph()[input_].type.shape[1];
  const int64_t classes = tape_.graph()[output_].type.shape[1];
  require<ArgumentError>(dataset.features() == features,
                         "images have {} pixels, the model takes {}", dataset.features(),
                         features);
  require<ArgumentError>(dataset.classes <= classes, "the data has {} classes, the model {}",
                         dataset.classes, classes);
  tape_.parameters_changed();
  return evaluate(dataset, tape_.input<float>(input_), [&](int64_t count) -> Answers {
    tape_.forward(mode);
    const auto y = tape_.value<float>(output_).first(static_cast<size_t>(count * classes));
    return {y, std::as_bytes(y)};
  });
}

BatchSource batch_source(const Dataset& dataset, int64_t images) {
  return [&dataset, images](Tape& tape, int64_t index) {
    const Graph& graph = tape.graph();
    bool filled = false;
    for (int32_t i = 0; i < graph.size(); ++i) {
      const auto* op = std::get_if<Input>(&graph[NodeId{i}].op);
      if (op == nullptr || !tape.memory().nodes[static_cast<size_t>(i)].needed) continue;
      const int64_t count = op->shape.rank() > 0 ? op->shape[0] : 0;
      const int64_t first = index * count;
      if (first + count > std::min(images, dataset.size())) return false;
      filled = true;
      if (op->batch && op->dtype == DType::S32 && op->shape.rank() == 1) {
        std::ranges::copy_n(dataset.labels.begin() + first, count,
                            tape.input<int32_t>(NodeId{i}).begin());
        continue;
      }
      require<ArgumentError>(op->batch && op->dtype == DType::F32 && op->shape.rank() == 2 &&
                                 op->shape[1] == dataset.features(),
                             "{}: expected images f32 [batch, {}] or labels s32 [batch]",
                             graph.describe(NodeId{i}), dataset.features());
      (void)fill_images(dataset, first, tape.input<float>(NodeId{i}));
    }
    return filled;
  };
}

}  // namespace qtape::data
