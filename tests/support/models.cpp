#include "qtape/tests/support/models.h"

#include "qtape/core/random.h"

namespace qtape::test {

Classifier make_classifier(const ClassifierOptions& o) {
  Classifier c;
  c.x = c.graph.add(Input{.shape = {o.batch, o.inputs}}, {}, "x");
  c.labels = c.graph.add(Input{.dtype = DType::S32, .shape = {o.batch}}, {}, "labels");
  NodeId y = linear(c.graph, c.x,
                    {.out = o.hidden,
                     .weight_quantizer = o.weight,
                     .input_quantizer = o.input,
                     .label = "fc1"});
  y = c.graph.add(Relu{}, {y});
  if (o.dropout > 0) y = c.graph.add(Dropout{.rate = o.dropout}, {y});
  c.logits = linear(c.graph, y,
                    {.out = o.classes,
                     .weight_quantizer = o.weight,
                     .input_quantizer = o.input,
                     .label = "fc2"});
  c.loss = c.graph.add(SoftmaxCrossEntropy{}, {c.logits, c.labels}, "loss");
  c.graph.set_outputs({c.logits, c.loss});
  return c;
}

void feed(Tape& tape, const Classifier& c, int64_t step) {
  const Random random(77, static_cast<uint64_t>(step));
  const auto x = tape.input<float>(c.x);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random.uniform(i));
  const auto labels = tape.input<int32_t>(c.labels);
  const auto classes = static_cast<uint64_t>(c.graph[c.logits].type.shape[1]);
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<int32_t>(random.below(1u << 20 | i, classes));
  }
}

}  // namespace qtape::test
