#include "qtape/c99/levels.h"

#include <algorithm>
#include <cstring>

#include "qtape/c99/c_grid.h"
#include "qtape/c99/c_library.h"
#include "qtape/c99/cmsis_nn.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/signed_codes.h"

namespace qtape {
namespace {

CCompiler compiler_for(const IntegerProgram& program, CKernels kernels) {
  CCompiler compiler = CCompiler::of_environment();
  if (kernels == CKernels::CmsisNn) add_cmsis_nn(compiler, program.requantization());
  return compiler;
}

/// L4 and L6, a sample at a time, as devices run it.
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

  void run(std::span<const Tensor> inputs, int64_t rows) override {
    const int64_t runs = batch_ ? rows : 1;
    for (int64_t row = 0; row < runs; ++row) {
      for (size_t i = 0; i < inputs.size(); ++i) {
        const auto to = session_.input<std::byte>(i);
        const bool batched = std::get<integer::Input>(program_[input(i)].op).batch;
        const int64_t begin = batched ? row * std::ssize(to) : 0;
        std::copy_n(inputs[i].data.begin() + begin, to.size(), to.begin());
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
    const ProgramNodeId id = context_.subject.conversion.pairs[i].program;
    const DType wanted = context_.subject.conversion.program[id].value.type.dtype;
    const DType dtype = program_[node(i)].value.type.dtype;
    return IntegersView{dtype, integers_[i].data(),
                        dtype == wanted ? 0 : signed_offset(wanted)};
  }
  std::span<const float> output(size_t which) const override { return outputs_[which]; }

 private:
  ProgramNodeId node(size_t i) const {
    const ProgramNodeId id = context_.subject.conversion.pairs[i].program;
    return made_.nodes[id];
  }
  ProgramNodeId input(size_t i) const { return unit_.written.inputs[i].node; }
  /// Of the whole batch.
  size_t bytes_of(ProgramNodeId id) const {
    return static_cast<size_t>(program_[id].value.type.bytes() * batch_.value_or(1));
  }
  static void put(std::span<const std::byte> sample, int64_t row, std::byte* to) {
    if (sample.empty()) return;
    std::memcpy(to + row * std::ssize(sample), sample.data(), sample.size());
  }

  LevelContext context_;
  std::optional<int64_t> batch_;
  RewrittenProgram made_;          // of one sample
  const IntegerProgram& program_;  // that
  CUnit unit_;
  CLibrary library_;
  CSession session_;
  std::vector<std::vector<std::byte>> integers_;  // by pair
  std::vector<std::vector<float>> outputs_;
};

RunnerFactory factory(CKernels kernels, bool (*computes)(Requantization) = nullptr) {
  return {[kernels](const LevelContext& c) { return std::make_unique<CRunner>(c, kernels); },
          computes};
}

}  // namespace

RunnerFactories c_levels() {
  return {{c_level, factory(CKernels::Portable)},
          {cmsis_nn_level, factory(CKernels::CmsisNn, [](Requantization each) {
             return cmsis_single_rounding(each).has_value();
           })}};
}

}  // namespace qtape
