// train_mlp: trains a quantization-aware network on digits, saves it and reports the results.
#include "qtape/examples/classifier/program.h"
#include "qtape/examples/train_mlp/network.h"

int main(int argc, char** argv) {
  return qtape::examples::run_classifier_program<qtape::examples::MlpSettings>(argc, argv);
}
