// train_cnn: trains a quantization-aware convolutional network, saves it and reports the
// results.
#include "qtape/examples/classifier/program.h"
#include "qtape/examples/train_cnn/network.h"

int main(int argc, char** argv) {
  return qtape::examples::run_classifier_program<qtape::examples::CnnSettings>(argc, argv);
}
