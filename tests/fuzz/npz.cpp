// Archives of NumPy arrays.
#include "qtape/io/arrays/npz.h"

#include "qtape/tests/fuzz/reads.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return qtape::fuzz::reads(
      data, size, [](std::string_view bytes) { (void)qtape::parse_npz(bytes, "x.npz"); });
}
