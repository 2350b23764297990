#include "qtape/onnx/levels.h"

#include <algorithm>

#include "qtape/core/error.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/onnx/interpreter/interpreter.h"
#include "qtape/onnx/onnx_runtime.h"

namespace qtape {
namespace {

/// A program whose outputs are all compared nodes, followed by its own outputs.
struct YieldingAll {
  IntegerProgram program;
  std::vector<std::optional<size_t>> pairs;  ///< index of the output of each pair
  std::vector<size_t> outputs;               ///< index of the output of each of the program's
                                             ///< own outputs
};

/// Returns the program with all compared nodes as outputs; without accumulators if the form has
/// none.
YieldingAll yielding_all(const LevelSubject& subject, OnnxForm form) {
  YieldingAll all{subject.conversion.program, {}, {}};
  std::vector<ProgramNodeId> ids;
  const auto place = [&](ProgramNodeId id) {
    const auto found = std::ranges::find(ids, id);
    const auto at = static_cast<size_t>(found - ids.begin());
    if (found == ids.end()) ids.push_back(id);
    return at;
  };
  for (const auto& pair : subject.conversion.pairs) {
    const bool sums = all.program[pair.program].value.is_accumulators();
    all.pairs.emplace_back();
    if (!sums || form == OnnxForm::Integer) all.pairs.back() = place(pair.program);
  }
  for (ProgramNodeId id : subject.conversion.program.outputs())
    all.outputs.push_back(place(id));
  all.program.set_outputs(std::move(ids));
  return all;
}

/// A model, and the outputs of its last run.
class OnnxRunner : public LevelRunner {
 public:
  OnnxRunner(const LevelContext& c, const OnnxExportOptions& options)
      : all_(yielding_all(c.subject, options.form)), bytes_(to_onnx(all_.program, options)) {
    require<ArgumentError>(options.form != OnnxForm::Qonnx,
                           "the form qonnx has no codes to compare, but floats");
  }

  void run(std::span<const Tensor> inputs, int64_t) override {
    values_ = compute(inputs);
    for (size_t k = 0; k < values_.size(); ++k) {
      const TensorType& wanted = all_.program[all_.program.outputs()[k]].value.type;
      require<Error>(values_[k].type == wanted, "{}: ONNX gives {}, expected {}",
                     all_.program.describe(all_.program.outputs()[k]), values_[k].type, wanted);
    }
  }
  std::optional<IntegersView> integers(size_t i) const override {
    if (!all_.pairs[i]) return std::nullopt;
    const Tensor& value = values_[*all_.pairs[i]];
    return IntegersView{value.type.dtype, value.data.data()};
  }
  std::span<const float> output(size_t which) const override {
    const Tensor& value = values_[all_.outputs[which]];
    return {reinterpret_cast<const float*>(value.data.data()),
            static_cast<size_t>(value.type.elements())};
  }

 protected:
  /// Returns all outputs of the model.
  virtual std::vector<Tensor> compute(std::span<const Tensor> inputs) = 0;
  const std::string& bytes() const { return bytes_; }

 private:
  YieldingAll all_;
  std::string bytes_;
  std::vector<Tensor> values_;
};

class InterpreterRunner : public OnnxRunner {
 public:
  InterpreterRunner(const LevelContext& c, const OnnxExportOptions& options)
      : OnnxRunner(c, options), model_(bytes()) {}

 private:
  template <class T>
  static OnnxArray array_of(const Tensor& tensor) {
    const auto extents = tensor.type.shape.extents();
    const auto values = tensor.values<T>();
    return {{extents.begin(), extents.end()}, std::vector<T>(values.begin(), values.end())};
  }
  std::vector<Tensor> compute(std::span<const Tensor> inputs) override {
    const std::vector<std::string> names = model_.inputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].type.dtype == DType::S32) {
        model_.set(names[i], array_of<int32_t>(inputs[i]));
      } else {
        model_.set(names[i], array_of<float>(inputs[i]));
      }
    }
    model_.run();
    std::vector<Tensor> outputs;
    for (const std::string& name : model_.outputs()) {
      const OnnxArray& y = model_.value(name);
      outputs.push_back(std::visit(
          [&]<class T>(const std::vector<T>& values) {
            return Tensor::of<T>(Shape(y.shape), values);
          },
          y.data));
    }
    return outputs;
  }

  OnnxInterpreter model_;
};

class RuntimeRunner : public OnnxRunner {
 public:
  RuntimeRunner(const LevelContext& c, const OnnxExportOptions& options)
      : OnnxRunner(c, options), runtime_(onnx_runtime(bytes(), c.threads)) {}

  std::string report() const override { return runtime_->report(); }

 private:
  std::vector<Tensor> compute(std::span<const Tensor> inputs) override {
    return runtime_->run(inputs);
  }

  std::unique_ptr<OnnxRuntime> runtime_;
};

template <class Runner>
RunnerFactory factory(const OnnxExportOptions& options) {
  return {[options](const LevelContext& c) { return std::make_unique<Runner>(c, options); },
          [](Requantization each) { return each == Requantization::OnnxQdq; }};
}

}  // namespace

RunnerFactories onnx_levels(const OnnxExportOptions& options) {
  return {{onnx_level, factory<InterpreterRunner>(options)},
          {onnx_runtime_level, factory<RuntimeRunner>(options)}};
}

}  // namespace qtape
