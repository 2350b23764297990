// xor: the smallest quantization-aware training run, saved and replayed.
#include <algorithm>
#include <array>

#include "qtape/qtape.h"

void train_and_replay() {
  using namespace qtape;
  Graph graph;
  const NodeId x = graph.add(Input{.shape = {4, 2}}, {}, "x");
  const NodeId target = graph.add(Input{.shape = {4, 1}}, {}, "target");
  const FakeQuantize four{.bits = 4, .axis = 0}, eight{.scale_mode = EMA{.decay = 0.9}};
  NodeId y = linear(
      graph, x, {.out = 8, .weight_quantizer = four, .input_quantizer = eight, .label = "fc1"});
  y = graph.add(Tanh{}, {add_quantizer(graph, y, eight, "fc1.output")});
  y = linear(graph, y,
             {.out = 1, .weight_quantizer = four, .input_quantizer = eight, .label = "fc2"});
  const NodeId loss = graph.add(MeanSquaredError{}, {y, target}, "loss");
  graph.set_outputs({y, loss}, {loss});

  Parameters parameters(graph, 1);
  Tape tape(graph, parameters, {.roots = {loss}});
  Optimizer optimizer(parameters, Adam{});
  const std::array corners = {0.f, 0.f, 0.f, 1.f, 1.f, 0.f, 1.f, 1.f};
  std::ranges::copy(corners, tape.input<float>(x).begin());
  std::ranges::copy(std::array{0.f, 1.f, 1.f, 0.f}, tape.input<float>(target).begin());
  for (int step = 0; step < 500; ++step) {
    tape.forward(mode::qat);
    tape.backward();
    optimizer.step(0.02);
  }
  save_model("xor.json", graph, parameters);

  SavedModel model = load_model("xor.json");
  Tape replay(model.graph, model.parameters, {});
  std::ranges::copy(corners, replay.input<float>("x").begin());
  replay.forward(mode::eval);
  for (double value : replay.value<float>(y)) fmt::print("{:.3f}\n", value);
}

int main() { return qtape::console::run_program("xor", train_and_replay); }
