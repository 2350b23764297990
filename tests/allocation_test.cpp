// Counts allocations in a training step and in a run of a program: there must be none of the
// library. A separate program, because it replaces operator new.
#define DOCTEST_CONFIG_IMPLEMENT
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include "qtape/deploy/lint.h"
#include "qtape/engine/quantizers.h"
#include "qtape/engine/serialize.h"
#include "qtape/integer/program/session.h"
#include "qtape/integer/program/session_hooks.h"
#include "qtape/integer/training/exact.h"
#include "qtape/kernels/onednn/gemm.h"
#include "qtape/optim/optimizer.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/models.h"
#include "qtape/tests/support/sanitized.h"
#include "qtape/tests/support/skip.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<int> ours{0};
std::atomic<int> theirs{0};
std::atomic<int64_t> bytes{0};  // of both

}  // namespace

#ifndef __clang_analyzer__  // the analyzer reports a mismatch of malloc and `delete` here
namespace {

/// oneDNN allocates within `execute`; those blocks are counted separately.
void count(size_t size, const void* caller) {
  if (!counting) return;
  bytes += static_cast<int64_t>(size);
  Dl_info info{};
  const bool found = ::dladdr(caller, &info) != 0 && info.dli_fname != nullptr;
  const bool foreign = found && (std::strstr(info.dli_fname, "libdnnl") != nullptr ||
                                 std::strstr(info.dli_fname, "libgomp") != nullptr);
  ++(foreign ? theirs : ours);
}

void* allocate(size_t size, size_t alignment, const void* caller) {
  count(size, caller);
  void* data =
      alignment <= alignof(std::max_align_t)
          ? std::malloc(size)
          : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

}  // namespace

[[gnu::noinline]] void* operator new(size_t size) {
  return allocate(size, 1, __builtin_return_address(0));
}
[[gnu::noinline]] void* operator new[](size_t size) {
  return allocate(size, 1, __builtin_return_address(0));
}
[[gnu::noinline]] void* operator new(size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<size_t>(alignment), __builtin_return_address(0));
}
[[gnu::noinline]] void* operator new(size_t size, std::align_val_t alignment,
                                     const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<size_t>(alignment), __builtin_return_address(0));
}
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, 1, __builtin_return_address(0));
}
[[gnu::noinline]] void operator delete(void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete[](void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, size_t) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete[](void* data, size_t) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, std::align_val_t) noexcept {
  std::free(data);
}
[[gnu::noinline]] void operator delete(void* data, size_t, std::align_val_t) noexcept {
  std::free(data);
}
#endif

TEST_CASE("allocation: the counter sees what it should") {
  counting = true;
  int* volatile kept = new int(1);
  counting = false;
  delete kept;
  CHECK(ours.load() == 1);
  ours = 0;
}

namespace {

using namespace qtape;

/// Returns the number of the library's allocations in ten calls of `step` after a first one.
template <class Step>
int64_t allocated_by(const Step& step) {
  step();
  ours = 0;
  theirs = 0;
  counting = true;
  for (int i = 0; i < 10; ++i) step();
  counting = false;
  return ours.load();
}

/// Returns the number of the library's allocations in training steps.
int64_t allocated_by_steps(const test::Classifier& c, Arithmetic arithmetic = {},
                           GradientPrecision precision = GradientPrecision::F32) {
  Parameters parameters(c.graph, 1);
  Tape tape(c.graph, parameters,
            {.roots = {c.loss},
             .input_gradients = {c.x},
             .threads = 2,
             .arithmetic = std::move(arithmetic),
             .gradient_precision = precision});
  Optimizer optimizer(parameters, Adam{}, {}, 2);
  test::feed(tape, c, 0);
  return allocated_by([&] {
    tape.forward(mode::qat);
    tape.backward();
    optimizer.step(1e-3);
  });
}

/// Returns the number of the library's allocations in steps from the node `loss`.
int64_t allocated_by_steps(const Graph& graph, const Arithmetic& arithmetic = {}) {
  Parameters parameters(graph, 1);
  Tape tape(graph, parameters,
            {.roots = {graph.at("loss")}, .threads = 2, .arithmetic = arithmetic});
  if (std::holds_alternative<Input>(graph[graph.at("x")].op)) {
    const auto values = tape.input<float>("x");
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17);
  }
  const auto step = [&] {
    tape.forward(mode::qat);
    tape.backward();
  };
  step();
  return allocated_by(step);
}

}  // namespace

TEST_CASE("allocation: a training step of a quantized network allocates nothing of ours") {
  CHECK(allocated_by_steps(
            test::make_classifier({.batch = 64, .inputs = 784, .dropout = 0.2})) == 0);
  MESSAGE("blocks allocated inside oneDNN and libgomp per step: " << theirs.load() / 10);
}

TEST_CASE("allocation: nor do steps with affine, grouped and learned quantizers") {
  const EMA range{.track = Track::Range};
  const FakeQuantize affine{.range = CodeRange::Unsigned,
                            .scheme = Scheme::Affine,
                            .ste = Ste::ClippedIdentity,
                            .scale_mode = range};
  const FakeQuantize token =
      affine.with(&FakeQuantize::axis, 0).with(&FakeQuantize::scale_mode, PerBatch{});
  const FakeQuantize group{
      .axis = 1, .group_size = 10, .ste = Ste::ClippedIdentity, .scale_mode = range};
  const FakeQuantizeLSQ learned{.axis = 0, .scheme = Scheme::Affine};
  const FakeQuantizePACT clipped{};
  for (const auto& [weight, input] :
       std::vector<std::pair<Op, Op>>{{group, affine}, {learned, clipped}, {group, token}}) {
    CHECK(allocated_by_steps(test::make_classifier({.weight = weight, .input = input})) == 0);
  }
}

TEST_CASE("allocation: a training step through integer codes allocates nothing") {
  Graph graph;
  const NodeId x =
      graph.add(Parameter{.shape = {300, 401}, .initializer = init::Fill{0.3}}, {}, "x");
  const NodeId scale = graph.add(State{.shape = {401}, .value = 0.1}, {}, "scale");
  const NodeId zero_point = graph.add(State{.shape = {401}, .value = 2}, {}, "zero_point");
  const NodeId q = graph.add(Quantize{.bits = 4, .axis = 1, .scheme = Scheme::Affine},
                             {x, scale, zero_point});
  const NodeId y =
      graph.add(Dequantize{.axis = 1, .scheme = Scheme::Affine}, {q, scale, zero_point});
  graph.add(Mean{}, {y}, "loss");
  CHECK(allocated_by_steps(graph) == 0);
}

TEST_CASE("allocation: a training step through slices that are joined allocates nothing") {
  Graph graph;
  const NodeId x =
      graph.add(Parameter{.shape = {600, 401}, .initializer = init::Fill{0.3}}, {}, "x");
  const NodeId left = graph.add(Slice{.axis = 1, .end = 200}, {x});
  const NodeId right = graph.add(Slice{.axis = 1, .begin = 100}, {x});
  const NodeId y = graph.add(Concat{.axis = 1, .count = 3}, {right, left, x});
  graph.add(Mean{}, {y}, "loss");
  CHECK(allocated_by_steps(graph) == 0);
}

TEST_CASE("allocation: nor does a training step whose products are of codes") {
  CHECK(allocated_by_steps(
            test::make_classifier({.batch = 64, .inputs = 784, .hidden = 600, .dropout = 0.2}),
            products_of_codes()) == 0);
}

TEST_CASE("allocation: nor does one whose gradients are products in bf16") {
  if (!kernels::has_bf16_products()) return test::skip("no products in bf16");
  for (const Arithmetic& arithmetic : {Arithmetic{}, products_of_codes()}) {
    CHECK(allocated_by_steps(test::make_classifier({.batch = 64, .inputs = 784, .hidden = 600}),
                             arithmetic, GradientPrecision::BF16) == 0);
  }
}

TEST_CASE("allocation: nor does a training step in exact arithmetic") {
  const FakeQuantize wide{.bits = 16, .scale_mode = EMA{}};
  for (Requantization requantization :
       {Requantization::FloatMultiply, Requantization::SingleRounding}) {
    CHECK(
        allocated_by_steps(test::make_classifier({.batch = 64, .inputs = 784, .dropout = 0.2}),
                           exact(requantization)) == 0);
    CHECK(allocated_by_steps(test::make_classifier({.inputs = 2000, .input = wide}),
                             exact(requantization)) == 0);
  }
}

TEST_CASE("allocation: nor does one of images, in floats or in exact arithmetic") {
  const FakeQuantize ema{.scale_mode = EMA{}};
  Graph graph;
  const NodeId x = add_quantizer(graph, graph.add(Parameter{.shape = {4, 20, 20, 8}}, {}, "x"),
                                 ema, "x.quantized");
  const NodeId image = graph.add(Input{.shape = {4, 20, 20, 8}}, {}, "image");
  const NodeId both = add_quantizer(
      graph, graph.add(Add{}, {x, add_quantizer(graph, image, ema, "image.quantized")}), ema,
      "both");
  const AvgPool uneven{
      .kernel = {3, 3}, .stride = {1, 1}, .padding = Padding::Same, .count_include_pad = false};
  const NodeId padded =
      graph.add(Pad{.begin = {0, 1, 1, 0}, .end = {0, 1, 1, 0}, .value = 0.3}, {both});
  const NodeId mean = graph.add(uneven, {graph.add(MaxPool{}, {padded})});
  const NodeId large =
      graph.add(Upsample{}, {add_quantizer(graph, mean, ema, "mean.quantized")});
  const NodeId pooled = graph.add(GlobalAvgPool{}, {large});
  const NodeId table = graph.add(Parameter{.shape = {30, 8}}, {}, "table");
  const NodeId words = graph.add(Input{.dtype = DType::S32, .shape = {4}}, {}, "words");
  const NodeId vectors = graph.add(Embedding{}, {table, words});
  graph.add(Mean{}, {graph.add(Mul{}, {pooled, vectors})}, "loss");
  for (const Arithmetic& arithmetic : {Arithmetic{}, exact(Requantization::FloatMultiply)}) {
    CHECK(allocated_by_steps(graph, arithmetic) == 0);
  }
}

TEST_CASE("allocation: nor does a training step through norms, folded or not") {
  const FakeQuantize ema{.scale_mode = EMA{}};
  for (const Arithmetic& arithmetic : {Arithmetic{}, exact(Requantization::FloatMultiply)}) {
    Graph graph;
    const NodeId x = graph.add(Input{.shape = {600, 40}}, {}, "x");
    NodeId y = linear(graph, x,
                      {.out = 90,
                       .weight_quantizer = FakeQuantize{.axis = 0},
                       .input_quantizer = ema,
                       .folded_norm = BatchNorm{}});
    y = batch_norm(graph, add_quantizer(graph, y, ema, "y"));
    y = add_quantizer(graph, y, ema, "normed");
    const NodeId gamma = graph.add(Parameter{.shape = {90}}, {}, "gamma");
    const NodeId beta = graph.add(Parameter{.shape = {90}}, {}, "beta");
    graph.add(Mean{}, {graph.add(LayerNorm{}, {y, gamma, beta})}, "loss");
    CHECK(allocated_by_steps(graph, arithmetic) == 0);
  }
}

TEST_CASE("allocation: a run of an integer program allocates nothing of ours") {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const IntegerProgram program = test::Settled(test::random_net(seed).with_batch(64), seed)
                                       .program(Requantization::SingleRounding);
    for (const auto& path : {std::optional<ProductPath>(), std::optional(ProductPath::F32),
                             std::optional(ProductPath::Plain)}) {
      const KeptValues kept = seed % 2 == 0 ? KeptValues::All : KeptValues::Outputs;
      IntegerSession session(program, {.threads = 2, .kept = kept}, {.path = path});
      CAPTURE(seed);
      CHECK(allocated_by([&] { session.run(); }) == 0);
    }
    IntegerSession reference(program, {.reference = true});
    CHECK(allocated_by([&] { reference.run(); }) == 0);
  }
}

namespace {

/// Returns the bytes that `body` allocates, freed or not.
template <class Body>
int64_t bytes_of(const Body& body) {
  bytes = 0;
  counting = true;
  body();
  counting = false;
  return bytes.load();
}

/// Returns a chain of `count` layers of 4 units that can be converted.
Graph deep(int count) {
  const FakeQuantize fixed{.scale_mode = Fixed{}};
  Graph graph;
  NodeId x = graph.add(Input{.shape = {1, 4}}, {}, "x");
  for (int i = 0; i < count; ++i) {
    x = linear(graph, x,
               {.out = 4,
                .weight_quantizer = FakeQuantize{.axis = 0},
                .input_quantizer = fixed,
                .label = fmt::format("fc{}", i)});
  }
  graph.set_outputs({x});
  return graph;
}

struct Costs {
  int64_t load, convert, lint;
};

Costs costs_of(int count) {
  const Graph graph = deep(count);
  Parameters parameters(graph, 1);
  for (NodeId id : quantizers(graph)) {
    if (!qparams(graph, parameters, id).empty()) set_qparams(graph, parameters, id, 0.013);
  }
  const std::string text = to_json(graph, parameters);
  return {bytes_of([&] { (void)model_from_json(text); }),
          bytes_of([&] { (void)convert(graph, parameters, Requantization::FloatMultiply); }),
          bytes_of([&] { (void)lint(graph, parameters); })};
}

}  // namespace

TEST_CASE("allocation: loading, converting and linting twice the layers take twice the bytes") {
  const Costs one = costs_of(200);
  const Costs two = costs_of(400);
  CHECK(two.load < 2.2 * static_cast<double>(one.load));
  CHECK(two.convert < 2.2 * static_cast<double>(one.convert));
  CHECK(two.lint < 2.2 * static_cast<double>(one.lint));
}

TEST_CASE("allocation: nor does a run that two threads share") {
  const test::Classifier c =
      test::make_classifier({.batch = 256, .inputs = 784, .hidden = 256});
  Parameters parameters(c.graph, 1);
  Tape tape(c.graph, parameters, {});
  test::feed(tape, c, 0);
  tape.forward(mode::observe);
  IntegerSession session(convert(c.graph, parameters, Requantization::FloatMultiply),
                         {.threads = 2});
  CHECK(allocated_by([&] { session.run(); }) == 0);
}

int main(int argc, char** argv) { return qtape::test::run_tests(argc, argv); }
