// Records of training runs, which are written back as they were read.
#include "qtape/model/training/run_record.h"
#include "qtape/tests/fuzz/memory_file.h"
#include "qtape/tests/fuzz/reads.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace qtape;
  return fuzz::reads(data, size, [](std::string_view bytes) {
    const fuzz::MemoryFile file(bytes);
    const std::string text = report::to_json(report::read_run(file.path()));
    const fuzz::MemoryFile again(text);
    fuzz::require_equal(report::to_json(report::read_run(again.path())) == text);
  });
}
