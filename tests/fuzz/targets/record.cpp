// Records of training runs, which are written back as they were read.
#include "qtape/model/training/run_record.h"
#include "qtape/tests/fuzz/memory_file.h"
#include "qtape/tests/fuzz/seeds.h"
#include "qtape/tests/fuzz/target.h"

namespace {

using namespace qtape;

void write_again(std::string_view bytes) {
  const fuzz::MemoryFile file(bytes);
  const std::string text = report::to_json(report::read_run(file.path()));
  const fuzz::MemoryFile again(text);
  const auto read = [&] { return report::read_run(again.path()); };
  fuzz::require_equal(report::to_json(fuzz::accepted(read)) == text);
}

const fuzz::Target target("record", write_again,
                          [] { return fuzz::files("fuzz/corpus/record"); });

}  // namespace
