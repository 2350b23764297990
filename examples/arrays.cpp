// arrays: trains on arrays of .npy, .npz or .safetensors files, with 4 bits.
#include "qtape/qtape.h"

int main(int argc, char** argv) {
  using namespace qtape;
  return console::run_program("arrays", [&] {
    require<ArgumentError>(argc == 4, "usage: arrays INPUTS LABELS MODEL");
    const auto [train, test] = data::arrays(argv[1], argv[2]).split(0.9);
    require<ArgumentError>(train.classes() > 0, "{}: expected integer labels", argv[2]);
    Network net;
    const Value x = flatten(net.input("x", train.columns()[0].sample.shape));
    const Layer w4a4 = quantize::layer(4, 4);
    const Value h = relu(linear(x, 64, w4a4));
    Model model(linear(h, train.classes(), w4a4), loss::cross_entropy);
    fit(model, train, {.epochs = 20, .validation = test, .patience = 5, .keep_best = true});
    model.save(argv[3]);
    fmt::print("{} mismatches\n", verify(model, test).mismatches());
  });
}
