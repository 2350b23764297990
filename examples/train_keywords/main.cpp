// train_keywords: trains a quantization-aware network on sounds, saves it and reports the
// results.
#include "qtape/examples/classifier/program.h"
#include "qtape/examples/train_keywords/network.h"

int main(int argc, char** argv) {
  return qtape::examples::run_classifier_program<qtape::examples::KeywordSettings>(argc, argv);
}
