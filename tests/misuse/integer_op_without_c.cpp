// error: write
#include "qtape/c99/c_writers.h"

namespace qtape {

struct WithoutC {};
#ifndef MISUSE
void write(const WithoutC&, CNode&) {}
#endif
static_assert(WritesC<WithoutC>);

}  // namespace qtape
