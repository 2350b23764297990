// error: write
#include "qtape/onnx/export/onnx_writers.h"

namespace qtape {

struct Nothing {};
#ifndef MISUSE
Written write(const Nothing&, OnnxProgram&) { return {}; }
#endif
static_assert(WritesOnnx<Nothing>);

}  // namespace qtape
