// NumPy arrays.
#include "qtape/io/arrays/npy.h"

#include "qtape/tests/fuzz/seeds.h"
#include "qtape/tests/fuzz/target.h"

namespace {

using namespace qtape;

const fuzz::Target target(
    "npy", [](std::string_view bytes) { (void)parse_npy(bytes, "x.npy"); },
    [] { return fuzz::files("data/onnx", ".npy"); });

}  // namespace
