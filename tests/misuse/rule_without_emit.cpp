// error: emit
#include "qtape/integer/rules/rule.h"

namespace qtape {

struct Twice {};
template <>
struct IntegerRule<Twice> {
  static Verdict classify(const Twice&, const Operands&) { return {}; }
#ifndef MISUSE
  static IntegerOp emit(const Twice&, const Numbers&) { return {}; }
#endif
};
static_assert(Emits<Twice>);

}  // namespace qtape
