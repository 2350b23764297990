// The target of this program under libFuzzer. `--seeds FOLDER` writes its valid inputs instead.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

#include "qtape/io/files.h"
#include "qtape/tests/fuzz/target.h"

namespace {

const qtape::fuzz::Target& target() { return *qtape::fuzz::Target::all().front(); }

void write_seeds(const std::string& folder) {
  int number = 0;
  for (const std::string& seed : target().seeds()) {
    qtape::write_file(folder + "/seed" + std::to_string(++number), seed);
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc != 3 || std::string_view((*argv)[1]) != "--seeds") return 0;
  try {
    write_seeds((*argv)[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    std::exit(1);
  }
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)target().run({reinterpret_cast<const char*>(data), size});
  return 0;
}
