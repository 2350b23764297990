// error: Facts
#include "qtape/ops/core/op_docs.h"

namespace qtape {

constexpr OpDocs docs{.summary = "Halves.",
                      .formula = "y = x / 2.",
                      .operands = "x f32.",
#ifndef MISUSE
                      .gradient = "dx = dy / 2.",
#endif
                      .saves = "Nothing.",
                      .edge_cases = "None.",
                      .source = "Elementary."};
static_assert(docs.summary.size() == 1);

}  // namespace qtape
