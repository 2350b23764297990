#include <fmt/format.h>

#include <algorithm>

#include "qtape/deploy/any_file.h"
#include "qtape/examples/data/evaluate.h"
#include "qtape/integer/integer_binding.h"
#include "qtape/integer/session.h"
#include "qtape/tools/qtape/commands.h"
#include "qtape/tools/qtape/data.h"

namespace qtape::tool {

using namespace kernels;
namespace {

constexpr int64_t batch = data::Evaluator::batch;

/// Calls `body` with the type of an output.
template <class Body>
void dispatch_output(DType dtype, const Body& body) {
  if (dtype == DType::F32) return body.template operator()<float>();
  dispatch_integers(dtype, body);
}

NodeId input_of(const IntegerProgram& program) {
  NodeId found;
  for (int32_t i = 0; i < program.size(); ++i) {
    const auto* op = std::get_if<integer::Input>(&program[NodeId{i}].op);
    if (op == nullptr) continue;
    check(found.index < 0 && op->batch && op->shape.rank() == 2,
          "{}: expected one batched input [batch, features]", program.describe(NodeId{i}));
    found = NodeId{i};
  }
  check(found.index >= 0, "the program has no input");
  return found;
}

NodeId output_of(const IntegerProgram& program) {
  check(!program.outputs().empty(), "the program names no outputs");
  const NodeId output = program.outputs()[0];
  const TensorType& type = program[output].value.type;
  check(type.shape.rank() == 2 && type.shape[0] == program.batch(),
        "{}: expected [batch, classes] as first output, got {}", program.describe(output),
        to_string(type));
  return output;
}

/// Adds what makes floats of an integer output: accumulators of different scales cannot be
/// compared.
NodeId add_scores(IntegerProgram& program, NodeId output) {
  if (program[output].value.type.dtype == DType::F32) return output;
  const NodeId scores = program.add(integer::Dequantize{}, {output});
  program.set_outputs({output, scores});
  return scores;
}

/// Runs a program over images.
class ProgramEvaluator {
 public:
  ProgramEvaluator(IntegerProgram program, int threads)
      : input_(input_of(program)),
        output_(output_of(program)),
        scores_(add_scores(program, output_)),
        session_(program.with_batch(batch), {.threads = threads}) {}

  data::Evaluation run(const data::Dataset& images) {
    const TensorType& type = session_.program()[output_].value.type;
    const auto features = static_cast<size_t>(images.features());
    const std::span<float> x = session_.input(input_);
    require<ArgumentError>(x.size() == features * static_cast<size_t>(batch),
                           "images have {} pixels, the program takes {}", features,
                           x.size() / static_cast<size_t>(batch));
    require<ArgumentError>(images.classes <= type.shape[1],
                           "the data has {} classes, the program {}", images.classes,
                           type.shape[1]);
    return data::evaluate(images, x, [&](int64_t count) -> data::Answers {
      session_.run();
      data::Answers answers{rows<float>(scores_, count), {}};
      dispatch_output(type.dtype, [&]<class T>() {
        answers.bytes = std::as_bytes(rows<T>(output_, count));
      });
      return answers;
    });
  }

 private:
  template <class T>
  std::span<const T> rows(NodeId id, int64_t count) const {
    const int64_t classes = session_.program()[id].value.type.shape[1];
    return session_.value<T>(id).first(static_cast<size_t>(count * classes));
  }

  NodeId input_;
  NodeId output_;
  NodeId scores_;
  IntegerSession session_;
};

data::Evaluation replay_model(Model& model, const data::Dataset& images,
                              const ReplayOptions& options) {
  data::Evaluator evaluator(model.graph, model.parameters, options.threads);
  return evaluator.run(images, options.quantize ? mode::eval : mode::float_eval);
}

}  // namespace

void replay(const ReplayOptions& options) {
  AnyFile file = load_any(options.model);
  const auto* program = std::get_if<IntegerProgram>(&file);
  require<ArgumentError>(program == nullptr || options.quantize,
                         "--float: {} is an integer program, which has no quantizers",
                         options.model);
  const int64_t features =
      program != nullptr ? features_of(*program) : features_of(std::get<Model>(file).graph);
  const data::Dataset images = load_data(options.data, features).test;
  const data::Evaluation result = naming<GraphError>(options.model, [&] {
    return program != nullptr ? ProgramEvaluator(*program, options.threads).run(images)
                              : replay_model(std::get<Model>(file), images, options);
  });
  fmt::print("{} images, accuracy {:.2f} %\noutputs sha256 {}\n", images.size(),
             result.accuracy, result.outputs_sha256);
}

}  // namespace qtape::tool
