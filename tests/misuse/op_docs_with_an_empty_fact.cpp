// error: has no text|throw
#include "qtape/ops/core/op_docs.h"

namespace qtape {

#ifdef MISUSE
constexpr Facts facts{"y = x / 2.", ""};
#else
constexpr Facts facts{"y = x / 2.", "NaN stays NaN."};
#endif
static_assert(facts.size() == 2);

}  // namespace qtape
