// Archives of NumPy arrays.
#include "qtape/io/arrays/npz.h"

#include "qtape/tests/fuzz/seeds.h"
#include "qtape/tests/fuzz/target.h"

namespace {

using namespace qtape;

const fuzz::Target target(
    "npz", [](std::string_view bytes) { (void)parse_npz(bytes, "x.npz"); },
    [] { return fuzz::files("data/arrays", ".npz"); });

}  // namespace
