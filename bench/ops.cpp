// Each op alone, forward and backward, with the operands of the table of ops in
// tests/support/op_case.h.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "qtape/core/thread_count.h"
#include "qtape/engine/print.h"
#include "qtape/tests/support/op_case.h"

namespace {

using namespace qtape;

enum class Pass : uint8_t { Forward, Backward };

void run_op(benchmark::State& state, const test::OpUse& use, Pass pass) {
  const auto operands = test::make_operands(use, DType::F32);
  test::OpRun run = test::make_run(use, operands, {.threads = default_threads()});
  const Kernel forward = run.bind_forward();
  if (forward) forward(run.step());
  const Kernel backward = run.bind_backward(test::random_values(run.upstream().elements(), 99));
  const Kernel& kernel = pass == Pass::Forward ? forward : backward;
  for (auto _ : state) {
    if (kernel) kernel(run.step());
    benchmark::ClobberMemory();
  }
  int64_t bytes = run.output().bytes();
  std::string label = to_string(use.op);
  for (const test::Array& each : operands) {
    bytes += each.type.bytes();
    label += fmt::format(" {}", to_string(each.type));
  }
  state.SetBytesProcessed(state.iterations() * bytes);
  state.SetLabel(label);
}

bool has_gradient(const test::OpUse& use) {
  const auto operands = test::make_operands(use, DType::F32);
  const test::OpRun run = test::make_run(use, operands);
  for (size_t i = 0; i < operands.size(); ++i) {
    if (run.has_gradient(i)) return true;
  }
  return false;
}

}  // namespace

int main(int count, char** arguments) {
  benchmark::Initialize(&count, arguments);
  if (benchmark::ReportUnrecognizedArguments(count, arguments)) return 1;
  for (const test::OpCase& op_case : test::op_cases()) {
    const std::string_view name = op_case.name();
    for (const test::OpUse& use : op_case.bench) {
      benchmark::RegisterBenchmark(fmt::format("{}/forward", name).c_str(), run_op, use,
                                   Pass::Forward)
          ->UseRealTime();
      if (!has_gradient(use)) continue;
      benchmark::RegisterBenchmark(fmt::format("{}/backward", name).c_str(), run_op, use,
                                   Pass::Backward)
          ->UseRealTime();
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
