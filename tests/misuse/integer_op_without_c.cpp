// error: write
#include "qtape/c99/c_writers.h"

namespace qtape {

struct Nothing {};
#ifndef MISUSE
void write(const Nothing&, CNode&) {}
#endif
static_assert(WritesC<Nothing>);

}  // namespace qtape
