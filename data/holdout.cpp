#include "qtape/data/holdout.h"

#include "qtape/core/error.h"

namespace qtape::data {

Split held_out(const Split& split, int64_t count) {
  const int64_t samples = split.train.size();
  require<ArgumentError>(count >= 0 && (count == 0 || count < samples),
                         "holdout must leave training samples, got {} of {}", count, samples);
  if (count == 0) return split;
  return {split.train.slice(0, samples - count), split.train.slice(samples - count, samples)};
}

}  // namespace qtape::data
