// deploy: a trained model becomes an integer program, which runs without the model.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>

#include "qtape/qtape.h"

int main(int argc, char** argv) try {
  using namespace qtape;
  std::signal(SIGPIPE, SIG_IGN);  // a reader that is gone is an error, not a kill
  require<ArgumentError>(argc == 3, "usage: deploy MODEL PROGRAM");
  SavedModel model = load_model(argv[1]);
  save_program(argv[2], convert(model.graph, model.parameters, Requantization::FloatMultiply));

  IntegerSession session(load_program(argv[2]).with_batch(1), {});
  std::ranges::fill(session.input("x"), 0.5f);
  session.run();
  for (double y : session.value<float>(session.program().outputs()[0])) std::printf("%g\n", y);
  require<IoError>(std::fflush(stdout) == 0, "standard output: cannot write");
} catch (const std::exception& error) {
  std::fprintf(stderr, "deploy: %s\n", error.what());
  return 1;
}
