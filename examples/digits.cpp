// digits: trains on MNIST-format files with 4-bit weights, saves, loads, converts, verifies.
#include "qtape/qtape.h"

int main(int argc, char** argv) {
  using namespace qtape;
  return console::run_program("digits", [&] {
    const data::Split digits = data::mnist(argc > 1 ? argv[1] : "data/mnist");
    Network net;
    const Layer w4a8 = quantize::layer(4, 8);
    const Value h = relu(linear(flatten(net.input("x", {28, 28})), 128, w4a8));
    Model model(linear(h, 10, w4a8), loss::cross_entropy);
    fit(model, digits.train, {.epochs = 5, .validation = digits.test});
    model.save("digits.json");

    const Model saved = Model::load("digits.json");
    const auto rounding = Requantization::SingleRounding;
    save_program("digits-integers.json", saved.integers(rounding));
    fmt::print("{:.2f} % right\n", accuracy(saved, digits.test));
    fmt::print("{} mismatches\n", verify(saved, digits.test, rounding).mismatches());
  });
}
