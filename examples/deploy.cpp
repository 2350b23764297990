// deploy: a trained model becomes an integer program, which runs without the model.
#include <algorithm>

#include "qtape/qtape.h"

int main(int argc, char** argv) {
  using namespace qtape;
  return console::run_program("deploy", [&] {
    require<ArgumentError>(argc == 3, "usage: deploy MODEL PROGRAM");
    const Model model = Model::load(argv[1]);
    save_program(argv[2], model.integers(Requantization::FloatMultiply));

    IntegerSession session(load_program(argv[2]).with_batch(1), {});
    std::ranges::fill(session.input("x"), 0.5f);
    session.run();
    for (double y : session.value<float>(session.program().outputs()[0])) {
      fmt::print("{:g}\n", y);
    }
  });
}
