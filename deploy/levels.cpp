// Runners of the levels.
#include <algorithm>

#include "qtape/core/error.h"
#include "qtape/deploy/level.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/tape.h"
#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/session.h"
#include "qtape/integer/program/session_hooks.h"
#include "qtape/integer/training/exact.h"

namespace qtape {
namespace {

/// Returns the label of input `i` in graph and program.
const std::string& label_of(const LevelContext& c, size_t i) {
  return c.subject.conversion.program[c.subject.inputs[i]].label;
}

/// Copies elements to `input.template operator()<T>(i)` for each input, of its type T.
template <class Input>
void feed_each(std::span<const Tensor> inputs, const Input& input) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].type.dtype == DType::S32) {
      std::ranges::copy(inputs[i].values<int32_t>(), input.template operator()<int32_t>(i));
    } else {
      std::ranges::copy(inputs[i].values<float>(), input.template operator()<float>(i));
    }
  }
}

void feed(Tape& tape, const LevelContext& c, std::span<const Tensor> inputs) {
  feed_each(inputs, [&]<class T>(size_t i) { return tape.input<T>(label_of(c, i)).begin(); });
}

/// The outputs of a tape as floats; indices are converted.
class TapeOutputs {
 public:
  explicit TapeOutputs(const LevelSubject& subject)
      : subject_(subject), converted_(subject.outputs.size()) {}

  void read(const Tape& tape) {
    for (size_t i = 0; i < converted_.size(); ++i) {
      const NodeId id = subject_.outputs[i];
      if (subject_.graph[id].type.dtype != DType::S32) continue;
      const auto indices = tape.value<int32_t>(id);
      converted_[i].assign(indices.begin(), indices.end());
    }
  }
  std::span<const float> values(const Tape& tape, size_t which) const {
    const NodeId id = subject_.outputs[which];
    if (subject_.graph[id].type.dtype == DType::S32) return converted_[which];
    return tape.value<float>(id);
  }

 private:
  const LevelSubject& subject_;
  std::vector<std::vector<float>> converted_;  // by output: of indices
};

class FloatRunner : public LevelRunner {
 public:
  explicit FloatRunner(const LevelContext& c)
      : context_(c), tape_(tape_of(c)), outputs_(c.subject) {}

  void run(std::span<const Tensor> inputs, int64_t) override {
    feed(tape_, context_, inputs);
    tape_.forward(mode::eval);
    outputs_.read(tape_);
  }
  std::optional<IntegersView> integers(size_t) const override { return std::nullopt; }
  std::span<const float> output(size_t which) const override {
    return outputs_.values(tape_, which);
  }
  /// Returns the floats of a quantizer; empty for other nodes.
  std::span<const float> values(size_t i) const {
    const NodeId id = context_.subject.conversion.pairs[i].graph;
    if (!is_quantizer(context_.subject.graph[id].op)) return {};
    return tape_.value<float>(id);
  }
  const IntegerValue& value(size_t i) const {
    return context_.subject.conversion.program[context_.subject.conversion.pairs[i].program]
        .value;
  }

 private:
  static Tape tape_of(const LevelContext& c) {
    std::vector<NodeId> outputs = c.subject.outputs;
    for (const auto& pair : c.subject.conversion.pairs) {
      if (is_quantizer(c.subject.graph[pair.graph].op)) outputs.push_back(pair.graph);
    }
    return Tape(
        c.subject.graph, c.parameters,
        TapeOptions{.outputs = outputs, .threads = c.threads, .constant_parameters = true});
  }

  LevelContext context_;
  Tape tape_;
  TapeOutputs outputs_;
};

class ExactRunner : public LevelRunner {
 public:
  explicit ExactRunner(const LevelContext& c)
      : context_(c),
        tape_(c.subject.graph, c.parameters,
              TapeOptions{.outputs = c.subject.outputs,
                          .threads = c.threads,
                          .constant_parameters = true,
                          .arithmetic = exact(c.subject.conversion.program.requantization(),
                                              {.keep = true})}),
        outputs_(c.subject) {}

  void run(std::span<const Tensor> inputs, int64_t) override {
    feed(tape_, context_, inputs);
    tape_.forward(mode::eval);
    outputs_.read(tape_);
  }
  std::optional<IntegersView> integers(size_t i) const override {
    const NodeId id = context_.subject.conversion.pairs[i].graph;
    const ExactValue* value = tape_.integers(id);
    if (value == nullptr || !value->exact) {
      fail<GraphError>("{}: has no integers in the exact forward",
                       context_.subject.graph.describe(id));
    }
    return IntegersView{value->value.type.dtype, value->data};
  }
  std::span<const float> output(size_t which) const override {
    return outputs_.values(tape_, which);
  }

 private:
  LevelContext context_;
  Tape tape_;
  TapeOutputs outputs_;
};

/// Runner of L2 and L3.
class SessionRunner : public LevelRunner {
 public:
  SessionRunner(const LevelContext& c, const SessionOptions& options, const SessionHooks& hooks)
      : context_(c), session_(c.subject.conversion.program, options, hooks) {}

  void run(std::span<const Tensor> inputs, int64_t) override {
    feed_each(inputs, [&]<class T>(size_t i) {
      return session_.input<T>(context_.subject.inputs[i]).begin();
    });
    session_.run();
  }
  std::optional<IntegersView> integers(size_t i) const override {
    const ProgramNodeId id = context_.subject.conversion.pairs[i].program;
    if (!session_.has_value(id)) return std::nullopt;
    return IntegersView{session_.program()[id].value.type.dtype, session_.bytes(id).data()};
  }
  std::span<const float> output(size_t which) const override {
    return session_.value<float>(session_.program().outputs()[which]);
  }
  std::string report() const override { return session_.report(); }

 private:
  LevelContext context_;
  IntegerSession session_;
};

template <class Runner>
std::unique_ptr<LevelRunner> make(const LevelContext& c) {
  return std::make_unique<Runner>(c);
}

const RunnerFactories& own_runners() {
  static const RunnerFactories all = {
      {Level::Float, {make<FloatRunner>}},
      {Level::Exact, {make<ExactRunner>}},
      {Level::Reference, {[](const LevelContext& c) {
         return std::make_unique<SessionRunner>(c, SessionOptions{.reference = true},
                                                SessionHooks{});
       }}},
      {Level::Backend, {[](const LevelContext& c) {
         return std::make_unique<SessionRunner>(
             c, SessionOptions{.threads = c.threads, .kept = KeptValues::Codes},
             c.hooks == nullptr ? SessionHooks{} : *c.hooks);
       }}}};
  return all;
}

const RunnerFactory& factory_of(Level level, const RunnerFactories& others) {
  // The library's own first: float_differences knows the runner of L0.
  for (const RunnerFactories* all : {&own_runners(), &others}) {
    if (const auto found = all->find(level); found != all->end()) return found->second;
  }
  fail<ArgumentError>("{} needs a runner of another library", to_string_view(level));
}

}  // namespace

bool computes(Level level, Requantization requantization, const RunnerFactories& others) {
  const RunnerFactory& factory = factory_of(level, others);
  return factory.computes == nullptr || factory.computes(requantization);
}

int64_t IntegersView::at(int64_t i) const {
  return dispatch_integers(dtype, [&]<class T>() {
    return static_cast<int64_t>(reinterpret_cast<const T*>(data)[i]) + offset;
  });
}

std::unique_ptr<LevelRunner> make_runner(Level level, const LevelContext& context,
                                         const RunnerFactories& others) {
  return factory_of(level, others).make(context);
}

int64_t float_differences(const LevelRunner& floats, const LevelRunner& exact, size_t i,
                          int64_t elements) {
  const auto& of = dynamic_cast<const FloatRunner&>(floats);
  const auto values = of.values(i);
  const IntegerValue& value = of.value(i);
  if (values.empty() || value.is_accumulators()) return 0;
  const auto scale = static_cast<float>(value.scales[0]);
  const auto zero = int64_t{value.zero_point};
  const IntegersView integers = exact.integers(i).value();
  return dispatch_codes(value.type.dtype, [&]<class Code>() {
    const auto* codes = reinterpret_cast<const Code*>(integers.data);
    int64_t different = 0;
    for (int64_t k = 0; k < elements; ++k) {
      const float y = static_cast<float>(codes[k] - zero) * scale;
      different += values[static_cast<size_t>(k)] == y ? 0 : 1;
    }
    return different;
  });
}

}  // namespace qtape
