// Runners of the levels.
#include <algorithm>
#include <cstring>

#include "qtape/core/error.h"
#include "qtape/deploy/c_library.h"
#include "qtape/deploy/cmsis_nn.h"
#include "qtape/deploy/level.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/tape.h"
#include "qtape/integer/analysis.h"
#include "qtape/integer/c/c_grid.h"
#include "qtape/integer/exact.h"
#include "qtape/integer/integer_binding.h"
#include "qtape/integer/session.h"
#include "qtape/integer/session_hooks.h"
#include "qtape/integer/signed_codes.h"

namespace qtape {
namespace {

/// Returns the label of input `i` in graph and program.
const std::string& label_of(const LevelContext& c, size_t i) {
  return c.subject.conversion.program[c.subject.inputs[i]].label;
}

void feed(Tape& tape, const LevelContext& c, std::span<const std::vector<float>> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::ranges::copy(inputs[i], tape.input<float>(label_of(c, i)).begin());
  }
}

class FloatRunner : public LevelRunner {
 public:
  explicit FloatRunner(const LevelContext& c) : context_(c), tape_(tape_of(c)) {}

  void run(std::span<const std::vector<float>> inputs, int64_t) override {
    feed(tape_, context_, inputs);
    tape_.forward(mode::eval);
  }
  std::optional<IntegersView> integers(size_t) const override { return std::nullopt; }
  std::span<const float> output(size_t which) const override {
    return tape_.value<float>(context_.subject.outputs[which]);
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
                                              {.keep = true})}) {}

  void run(std::span<const std::vector<float>> inputs, int64_t) override {
    feed(tape_, context_, inputs);
    tape_.forward(mode::eval);
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
    return tape_.value<float>(context_.subject.outputs[which]);
  }

 private:
  LevelContext context_;
  Tape tape_;
};

/// Runner of L2 and L3.
class SessionRunner : public LevelRunner {
 public:
  SessionRunner(const LevelContext& c, const SessionOptions& options, const SessionHooks& hooks)
      : context_(c), session_(c.subject.conversion.program, options, hooks) {}

  void run(std::span<const std::vector<float>> inputs, int64_t) override {
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::ranges::copy(inputs[i], session_.input(context_.subject.inputs[i]).begin());
    }
    session_.run();
  }
  std::optional<IntegersView> integers(size_t i) const override {
    const NodeId id = context_.subject.conversion.pairs[i].program;
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

CCompiler compiler_for(const IntegerProgram& program, CKernels kernels) {
  CCompiler compiler = CCompiler::of_environment();
  if (kernels == CKernels::CmsisNn) add_cmsis_nn(compiler, program.requantization());
  return compiler;
}

/// Runner of L4 and L6: one sample at a time, as on a device.
class CRunner : public LevelRunner {
 public:
  CRunner(const LevelContext& c, CKernels kernels)
      : context_(c),
        batch_(c.subject.conversion.program.batch()),
        made_(program_for_c(
            batch_ ? c.subject.conversion.program.with_batch(1) : c.subject.conversion.program,
            kernels)),
        program_(made_.program),
        unit_{"network", write_c_program(program_, "network", kernels)},
        library_(std::span(&unit_, 1), compiler_for(program_, kernels)),
        session_(program_, unit_, library_),
        integers_(c.subject.conversion.pairs.size()),
        outputs_(unit_.written.outputs.size()) {
    for (size_t i = 0; i < integers_.size(); ++i) integers_[i].resize(bytes_of(node(i)));
    for (size_t i = 0; i < outputs_.size(); ++i) {
      outputs_[i].resize(bytes_of(unit_.written.outputs[i].node) / sizeof(float));
    }
  }

  void run(std::span<const std::vector<float>> inputs, int64_t rows) override {
    const int64_t runs = batch_ ? rows : 1;
    for (int64_t row = 0; row < runs; ++row) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        const auto to = session_.input(i);
        std::copy_n(inputs[i].begin() + row * std::ssize(to), to.size(), to.begin());
      }
      session_.run();
      for (size_t i = 0; i < integers_.size(); ++i)
        put(session_.value(node(i)), row, integers_[i].data());
      for (size_t i = 0; i < outputs_.size(); ++i) {
        put(session_.output(i), row, reinterpret_cast<std::byte*>(outputs_[i].data()));
      }
    }
  }
  std::optional<IntegersView> integers(size_t i) const override {
    if (session_.value(node(i)).empty()) return std::nullopt;
    const NodeId id = context_.subject.conversion.pairs[i].program;
    const DType wanted = context_.subject.conversion.program[id].value.type.dtype;
    const DType dtype = program_[node(i)].value.type.dtype;
    return IntegersView{dtype, integers_[i].data(),
                        dtype == wanted ? 0 : signed_offset(wanted)};
  }
  std::span<const float> output(size_t which) const override { return outputs_[which]; }

 private:
  NodeId node(size_t i) const {
    const NodeId id = context_.subject.conversion.pairs[i].program;
    return made_.nodes[static_cast<size_t>(id.index)];
  }
  /// Returns the size for the whole batch.
  size_t bytes_of(NodeId id) const {
    return static_cast<size_t>(program_[id].value.type.bytes() * batch_.value_or(1));
  }
  static void put(std::span<const std::byte> sample, int64_t row, std::byte* to) {
    if (sample.empty()) return;
    std::memcpy(to + row * std::ssize(sample), sample.data(), sample.size());
  }

  LevelContext context_;
  std::optional<int64_t> batch_;
  RewrittenProgram made_;          // for one sample
  const IntegerProgram& program_;  // refers to made_.program
  CUnit unit_;
  CLibrary library_;
  CSession session_;
  std::vector<std::vector<std::byte>> integers_;  // by pair
  std::vector<std::vector<float>> outputs_;
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
       }}},
      {Level::C, {[](const LevelContext& c) {
         return std::make_unique<CRunner>(c, CKernels::Portable);
       }}},
      {Level::CmsisNn,
       {[](const LevelContext& c) { return std::make_unique<CRunner>(c, CKernels::CmsisNn); },
        [](Requantization each) { return cmsis_single_rounding(each).has_value(); }}}};
  return all;
}

const RunnerFactory& factory_of(Level level, const RunnerFactories& others) {
  for (const RunnerFactories* all : {&others, &own_runners()}) {
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
