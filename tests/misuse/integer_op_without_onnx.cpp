// error: write
#include "qtape/onnx/export/onnx_writers.h"

namespace qtape {

struct WithoutOnnx {};
#ifndef MISUSE
Written write(const WithoutOnnx&, OnnxProgram&) { return {}; }
#endif
static_assert(WritesOnnx<WithoutOnnx>);

}  // namespace qtape
