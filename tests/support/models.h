// Small models that several tests train or save.
#pragma once

#include "qtape/engine/tape.h"
#include "qtape/model/layers.h"

namespace qtape::test {

/// A quantized ReLU classifier with all nodes that training needs.
struct Classifier {
  Graph graph;
  NodeId x, labels, logits, loss;
};

struct ClassifierOptions {
  int64_t batch = 32;
  int64_t inputs = 40;
  int64_t hidden = 70;
  int64_t classes = 10;
  double dropout = 0;
  Op weight = FakeQuantize{.bits = 4, .axis = 0};
  Op input = FakeQuantize{.bits = 4,
                          .range = CodeRange::Unsigned,
                          .ste = Ste::ClippedIdentity,
                          .scale_mode = EMA{.decay = 0.9}};
};

Classifier make_classifier(const ClassifierOptions& options = {});

/// Fills the inputs with the pseudo-random batch number `step`.
void feed(Tape& tape, const Classifier& classifier, int64_t step);

}  // namespace qtape::test
