// Files of safetensors.
#include "qtape/io/arrays/safetensors.h"

#include "qtape/tests/fuzz/seeds.h"
#include "qtape/tests/fuzz/target.h"

namespace {

using namespace qtape;

const fuzz::Target target(
    "safetensors",
    [](std::string_view bytes) { (void)parse_safetensors(bytes, "x.safetensors"); },
    [] { return fuzz::files("data/arrays", ".safetensors"); });

}  // namespace
