// A network and data that fit trains within a short time.
#pragma once

#include "qtape/data/generated/digits.h"
#include "qtape/model/fit.h"
#include "qtape/model/model.h"

namespace qtape::test {

/// Options of a fast run that prints nothing.
inline FitOptions quiet(int64_t epochs) {
  return {.epochs = epochs, .learning_rate = 4e-3, .threads = 1, .progress = false};
}

inline Model small_model() {
  Network net;
  const Layer layer = quantize::layer(4, 4);
  const Value h = relu(linear(net.input("x", {784}), 16, layer));
  return {linear(h, 10, layer), loss::cross_entropy};
}

inline const data::Split& small_digits() {
  static const data::Split split = data::generate_digits(2, 256, 100);
  return split;
}

}  // namespace qtape::test
