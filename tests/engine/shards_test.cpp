// Sums over a batch in shards: equal bits on any number of ranks and threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "qtape/engine/tape.h"
#include "qtape/integer/training/exact.h"
#include "qtape/ops/families/shard_sums.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/small_nets.h"
#include "qtape/tests/support/thread_ranks.h"

using namespace qtape;
using test::error_text;
using test::Net;
using test::ThreadRanks;

namespace {

constexpr int64_t batch = 16;
constexpr int64_t total = 8;

/// A classifier whose graph is built for any batch.
struct Trial {
  Graph graph;
  NodeId loss;
  TapeOptions options = {};
};

const FakeQuantize activations{
    .range = CodeRange::Unsigned, .ste = Ste::ClippedIdentity, .scale_mode = EMA{.decay = 0.9}};

/// Images -> convolution -> batch norm -> ReLU -> pool -> dropout -> linear, with `x`
/// quantizers after the activations and `w` quantizers of the weights.
Trial conv_net(const Op& x, const Op& w) {
  Net net({batch, 8, 8, 3});
  const NodeId labels =
      net.graph.add(Input{.dtype = DType::S32, .shape = {batch}}, {}, "labels");
  const NodeId input = net.quantized(net.x, x, "input");
  const NodeId weight = net.quantized(net.parameter({6, 3, 3, 3}, "conv.w"), w, "conv.w");
  NodeId h = net.add(Conv2d{.padding = Padding::Same}, {input, weight});
  const auto state = [&](double value, const char* label) {
    return net.graph.add(State{.shape = {6}, .value = value}, {}, label);
  };
  h = net.add(BatchNorm{}, {h, net.parameter({6}, "gamma"), net.parameter({6}, "beta"),
                            state(0, "mean"), state(1, "variance")});
  h = net.quantized(net.add(Relu{}, {h}), x, "relu");
  h = net.add(MaxPool{}, {h});
  h = net.add(Dropout{.rate = 0.2}, {h});
  h = net.add(Flatten{}, {h});
  h = net.layer(h, 10, "fc", w);
  const NodeId loss = net.add(SoftmaxCrossEntropy{}, {h, labels}, "loss");
  net.graph.set_outputs({h, loss});
  return {std::move(net.graph), loss};
}

/// Layers with LayerNorm, PReLU, a batch mean and a table, and a loss from two reductions.
Trial mixed_net() {
  Net net({batch, 12});
  const NodeId ids =
      net.graph.add(Input{.dtype = DType::S32, .shape = {batch, 2}}, {}, "labels");
  NodeId h = net.layer(net.x, 12, "a", FakeQuantizeLSQ{.axis = 0});
  h = net.quantized(net.add(PRelu{}, {h, net.parameter({1}, "slope")}), FakeQuantizePACT{},
                    "b");
  const NodeId table =
      net.add(Flatten{}, {net.add(Embedding{}, {net.parameter({5, 6}, "table"), ids})});
  h = net.add(Add{}, {h, table});
  const NodeId mean = net.add(Mean{.axes = {0}, .keep_dims = true}, {h});
  h = net.add(Sub{}, {h, mean});
  h = net.add(LayerNorm{}, {h, net.parameter({12}, "gain"), net.parameter({12}, "shift")});
  const NodeId shared = net.parameter({12, 12}, "shared");
  h = net.add(MatMul{}, {net.add(Relu{}, {net.add(MatMul{}, {h, shared})}), shared});
  const NodeId error = net.add(MeanSquaredError{}, {h, net.x});
  const NodeId sum = net.add(Sum{}, {net.add(Mul{}, {h, h})});
  const NodeId loss = net.add(Add{}, {error, sum}, "loss");
  net.graph.set_outputs({h, loss});
  return {std::move(net.graph), loss};
}

/// Parameters, states and losses after a number of steps, as bits.
using Bits = std::map<std::string, std::vector<std::byte>>;

/// Feeds the rows of the process from a batch that depends on the step alone.
void feed(Tape& tape, const Shards& shards, int64_t step) {
  const auto x = tape.input<float>("x");
  const auto labels = tape.input<int32_t>("labels");
  const Random random(7, static_cast<uint64_t>(step));
  test::fill_uniform(
      x, random, -1, 2,
      x.size() / static_cast<size_t>(shards.count) * static_cast<size_t>(shards.first));
  const size_t first =
      labels.size() / static_cast<size_t>(shards.count) * static_cast<size_t>(shards.first);
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<int32_t>(random.bits(1000000 + first + i) % 5);
  }
}

Bits train(const Trial& trial, const Shards& shards, int threads, int64_t steps) {
  TapeOptions options = trial.options;
  const Graph graph = trial.graph.with_batch(batch / shards.total * shards.count);
  Parameters parameters(graph, 3);
  options.roots = {trial.loss};
  options.threads = threads;
  options.shards = shards;
  Tape tape(graph, parameters, options);
  Bits bits;
  for (int64_t step = 0; step < steps; ++step) {
    feed(tape, shards, step);
    tape.forward(mode::qat);
    tape.backward();
    const auto loss = tape.value<float>(trial.loss);
    const auto bytes = std::as_bytes(loss);
    bits["loss"].insert(bits["loss"].end(), bytes.begin(), bytes.end());
    for (const ParameterEntry& each : parameters.entries()) {
      if (!each.trainable()) continue;
      const auto values = parameters.at(each.name).values<float>();
      const auto gradients = parameters.at(each.name).gradients<float>();
      for (size_t i = 0; i < values.size(); ++i) values[i] -= 0.05F * gradients[i];
    }
  }
  for (const ParameterEntry& each : parameters.entries()) {
    bits[each.name].assign(each.value, each.value + each.type.bytes());
  }
  return bits;
}

void check_equal(const Bits& got, const Bits& expected) {
  REQUIRE(got.size() == expected.size());
  for (const auto& each : expected) {
    INFO(each.first);
    CHECK(got.at(each.first) == each.second);
  }
}

void check_ranks(const Trial& trial) {
  constexpr int64_t steps = 6;
  const Bits expected = train(trial, Shards::alone(total), 1, steps);
  check_equal(train(trial, Shards::alone(total), 2, steps), expected);
  for (const int ranks : {1, 2, 3, 4, 8}) {
    for (const int threads : {1, 2}) {
      CAPTURE(ranks);
      CAPTURE(threads);
      // Messages are delayed in the runs with 2 threads.
      ThreadRanks group(ranks, threads == 2);
      std::vector<Bits> bits(static_cast<size_t>(ranks));
      group.run([&](Exchange& exchange) {
        bits[static_cast<size_t>(exchange.rank())] =
            train(trial, Shards::of(total, exchange), threads, steps);
      });
      for (const Bits& each : bits) check_equal(each, expected);
    }
  }
}

}  // namespace

TEST_CASE("training has equal bits on 1 to 8 ranks, with 1 and 2 threads") {
  SUBCASE("EMA ranges") { check_ranks(conv_net(activations, FakeQuantize{.axis = 0})); }
  SUBCASE("delayed scales") {
    FakeQuantize delayed = activations;
    delayed.scale_mode = EMA{.decay = 0.9, .delayed = true};
    check_ranks(conv_net(delayed, FakeQuantize{.axis = 0}));
  }
  SUBCASE("scales of each batch") {
    check_ranks(conv_net(FakeQuantize{.range = CodeRange::Full, .scheme = Scheme::Affine},
                         FakeQuantize{.axis = 0}));
  }
  SUBCASE("learned step sizes of 4 bits") {
    check_ranks(conv_net(FakeQuantizeLSQ{.bits = 4}, FakeQuantizeLSQ{.bits = 4, .axis = 0}));
  }
  SUBCASE("products of codes") {
    Trial trial = conv_net(activations, FakeQuantize{.axis = 0});
    trial.options.arithmetic = products_of_codes();
    check_ranks(trial);
  }
  SUBCASE("exact integers") {
    Trial trial = conv_net(activations, FakeQuantize{.axis = 0});
    trial.options.arithmetic = exact(Requantization::SingleRounding);
    check_ranks(trial);
  }
  SUBCASE("shared parameters and reductions of the batch") { check_ranks(mixed_net()); }
  SUBCASE("accumulated gradients") {
    Trial trial = mixed_net();
    trial.options.accumulate_gradients = true;
    check_ranks(trial);
  }
}

TEST_CASE("a fault on one rank is reported by all, with the position in the batch") {
  const Trial trial = conv_net(activations, FakeQuantize{.axis = 0});
  ThreadRanks(2).run([&](Exchange& exchange) {
    const Shards shards = Shards::of(total, exchange);
    const Graph graph = trial.graph.with_batch(batch / 2);
    Parameters parameters(graph, 3);
    Tape tape(graph, parameters, {.roots = {trial.loss}, .threads = 1, .shards = shards});
    feed(tape, shards, 0);
    if (exchange.rank() == 1) tape.input<int32_t>("labels")[5] = 11;
    const std::string error = error_text<GraphError>([&] { tape.forward(mode::qat); });
    CHECK(error.find("label 11 at row 13 is outside the classes (rank 1)") !=
          std::string::npos);
    feed(tape, shards, 0);
    tape.forward(mode::qat);
    tape.backward();
  });
}

TEST_CASE("sums of codes over a batch in shards are refused") {
  Net net({16, 4});
  const NodeId codes = net.quantized(net.x, activations, "codes");
  net.graph.set_outputs({net.add(Mean{.axes = {0}}, {codes})});
  Parameters parameters(net.graph, 1);
  const std::string error = error_text<GraphError>([&] {
    Tape(net.graph, parameters,
         {.threads = 1,
          .arithmetic = exact(Requantization::SingleRounding),
          .shards = Shards::alone(4)});
  });
  CHECK(error.ends_with(": sums of codes over the batch cannot be divided into shards"));
}

TEST_CASE("the tree over shards: the same sums on any number of ranks") {
  // In another order, the large values would hide the small ones.
  const std::array<float, 8> values = {1e30F, 1, -1e30F, 3e-8F, 1, 1e30F, -1e30F, 1e-30F};
  const TensorType type{DType::F32, {1}};
  const auto sum_on = [&](const Shards& shards) {
    std::vector<float> memory(static_cast<size_t>(ShardSums::bytes(shards, type)) /
                              sizeof(float));
    const ShardSums sums(shards, type, reinterpret_cast<std::byte*>(memory.data()), 1);
    for (int64_t s = 0; s < shards.count; ++s) {
      *reinterpret_cast<float*>(sums.value(s)) = values[static_cast<size_t>(shards.first + s)];
    }
    float sum = 0;
    sums.finish(reinterpret_cast<std::byte*>(&sum), false, 1);
    return sum;
  };
  const float expected = ((values[0] + values[1]) + (values[2] + values[3])) +
                         ((values[4] + values[5]) + (values[6] + values[7]));
  CHECK(sum_on(Shards::alone(total)) == expected);
  for (int ranks = 1; ranks <= 8; ++ranks) {
    CAPTURE(ranks);
    ThreadRanks(ranks).run(
        [&](Exchange& exchange) { CHECK(sum_on(Shards::of(total, exchange)) == expected); });
  }
}

TEST_CASE("the tree over shards: merges of every division, against their definition") {
  for (int64_t shards = 1; shards <= 40; ++shards) {
    // Expressions such as ((0+1)+2), by shard.
    std::vector<std::string> expected;
    for (int64_t i = 0; i < shards; ++i) expected.push_back(std::to_string(i));
    for (size_t step = 1; step < expected.size(); step *= 2) {
      for (size_t i = 0; i + step < expected.size(); i += 2 * step) {
        expected[i] = "(" + expected[i] + "+" + expected[i + step] + ")";
      }
    }
    for (int ranks = 1; ranks <= std::min<int64_t>(shards, 9); ++ranks) {
      CAPTURE(shards);
      CAPTURE(ranks);
      std::vector<std::string> gathered;
      std::vector<ShardTree::Merge> rest;
      int64_t first = 0;
      ThreadRanks group(ranks);
      std::vector<Shards> runs(static_cast<size_t>(ranks));
      group.run([&](Exchange& exchange) {
        runs[static_cast<size_t>(exchange.rank())] = Shards::of(shards, exchange);
      });
      for (const Shards& run : runs) {
        CHECK(run.first == first);
        CHECK(run.count >= 1);
        first += run.count;
        const ShardTree tree(run);
        std::vector<std::string> own;
        for (int64_t s = 0; s < run.count; ++s) own.push_back(std::to_string(run.first + s));
        const auto at = [](std::vector<std::string>& values, int64_t i) -> std::string& {
          return values[static_cast<size_t>(i)];
        };
        for (const auto& [into, from] : tree.own()) {
          at(own, into) = "(" + at(own, into) + "+" + at(own, from) + ")";
        }
        for (const int64_t i : tree.remaining()) gathered.push_back(at(own, i));
        rest.assign(tree.rest().begin(), tree.rest().end());
      }
      CHECK(first == shards);
      for (const auto& [into, from] : rest) {
        gathered[static_cast<size_t>(into)] = "(" + gathered[static_cast<size_t>(into)] + "+" +
                                              gathered[static_cast<size_t>(from)] + ")";
      }
      CHECK(gathered[0] == expected[0]);
    }
  }
}

TEST_CASE("shards are those that Shards::alone and Shards::of make") {
  Net net({8, 4});
  net.graph.set_outputs({net.add(Relu{}, {net.x})});
  Parameters parameters(net.graph, 1);
  const auto error_of = [&](const Shards& shards) {
    return error_text<ArgumentError>(
        [&] { Tape(net.graph, parameters, {.threads = 1, .shards = shards}); });
  };
  CHECK(error_of(Shards::alone(4)) == "no error");
  CHECK(error_of({.total = 4}) ==
        "shards: expected 4 of 4 from 0 on in this process, got 1 from 0 on; Shards::alone and "
        "Shards::of make them");
  CHECK(
      error_of({.total = 4, .first = -2, .count = 4}) ==
      "shards: expected 4 of 4 from 0 on in this process, got 4 from -2 on; Shards::alone and "
      "Shards::of make them");
  CHECK(error_of({.total = 0}) == "shards must be in [1, 1024], got 0");
}

TEST_CASE("batches that cannot be divided into shards are refused by node") {
  const auto error_of = [](const std::function<NodeId(Net&)>& end, int64_t rows = 8) {
    Net net({rows, 4});
    net.graph.set_outputs({end(net)});
    Parameters parameters(net.graph, 1);
    return error_text<Error>(
        [&] { Tape(net.graph, parameters, {.threads = 1, .shards = Shards::alone(4)}); });
  };
  const std::string prefix = ": a batch with this node cannot be divided into shards: ";
  CHECK(error_of([](Net& net) {
          return net.add(Softmax{.axis = 0}, {net.x});
        }).ends_with(prefix + "it mixes the samples of the batch"));
  CHECK(error_of([](Net& net) {
          return net.add(Concat{.axis = 0}, {net.x, net.x});
        }).ends_with(prefix + "it mixes the samples of the batch"));
  CHECK(error_of([](Net& net) {
          return net.add(Transpose{}, {net.x});
        }).ends_with(prefix + "the samples of the batch are not along axis 0"));
  CHECK(error_of([](Net& net) {
          return net.add(Slice{.axis = 0, .end = 1}, {net.x});
        }).ends_with(prefix + "its result depends on all samples"));
  CHECK(error_of([](Net& net) {
          return net.add(Max{.axes = {0}}, {net.x});
        }).ends_with(prefix + "its result depends on all samples"));
  CHECK(error_of([](Net& net) {
          const NodeId indices =
              net.graph.add(Input{.dtype = DType::S32, .shape = {8}}, {}, "indices");
          return net.add(Embedding{}, {net.x, indices});
        }).ends_with(prefix + "it mixes the samples of the batch"));
  CHECK(error_of([](Net& net) { return net.add(Relu{}, {net.x}); }, 4) ==
        "expected at least 2 samples in each of 4 shards, got 4 samples");
  CHECK(error_of([](Net& net) { return net.add(Relu{}, {net.x}); }, 6) ==
        "expected a batch that 4 shards divide, got 6 samples");
  CHECK(error_of([](Net& net) { return net.add(Mean{.axes = {0}}, {net.x}); }) == "no error");
}
