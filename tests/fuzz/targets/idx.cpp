// Images and labels in IDX files, plain or compressed; the first two bytes are the size of the
// labels.
#include "qtape/data/files.h"
#include "qtape/tests/fuzz/memory_file.h"
#include "qtape/tests/fuzz/seeds.h"
#include "qtape/tests/fuzz/target.h"

namespace {

using namespace qtape;

void read(std::string_view bytes) {
  if (bytes.size() < 2) return;
  const auto byte = [&](size_t i) {
    return static_cast<size_t>(static_cast<uint8_t>(bytes[i]));
  };
  const size_t labels_size = std::min(byte(0) * 256 + byte(1), bytes.size() - 2);
  const fuzz::MemoryFile labels(bytes.substr(2, labels_size));
  const fuzz::MemoryFile images(bytes.substr(2 + labels_size));
  (void)data::idx(images.path(), labels.path());
}

const fuzz::Target target("idx", read, [] { return fuzz::files("fuzz/corpus/idx"); });

}  // namespace
