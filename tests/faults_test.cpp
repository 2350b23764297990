// Failing allocations, one after another: each leads to one clear error, and no file is lost. A
// separate program, because it replaces malloc and ftruncate.
#define DOCTEST_CONFIG_IMPLEMENT
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fmt/ranges.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <set>

#include "qtape/core/out_of_memory.h"
#include "qtape/data/files.h"
#include "qtape/deploy/any_file.h"
#include "qtape/deploy/convert.h"
#include "qtape/engine/plan.h"
#include "qtape/engine/serialize.h"
#include "qtape/io/arrays/arrays.h"
#include "qtape/io/files.h"
#include "qtape/model/training/run_record.h"
#include "qtape/onnx/import.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/models.h"
#include "qtape/tests/support/sanitized.h"
#include "qtape/tests/support/skip.h"

namespace {

std::atomic<bool> armed{false};
std::atomic<int64_t> calls{0};
std::atomic<int64_t> first_failing{0};
std::atomic<int64_t> last_failing{0};
std::atomic<bool> ftruncate_fails{false};

[[maybe_unused]] bool fails() {
  if (!armed) return false;
  const int64_t call = calls++;
  return call >= first_failing && call <= last_failing;
}

[[maybe_unused]] void* no_memory() {
  errno = ENOMEM;
  return nullptr;
}

}  // namespace

#if QTAPE_TEST_SANITIZED
constexpr bool replaces_malloc = false;  // the sanitizer has its own
#else
constexpr bool replaces_malloc = true;

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* data, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) noexcept { return fails() ? no_memory() : __libc_malloc(size); }
void* calloc(size_t count, size_t size) noexcept {
  return fails() ? no_memory() : __libc_calloc(count, size);
}
void* realloc(void* data, size_t size) noexcept {
  return fails() ? no_memory() : __libc_realloc(data, size);
}
void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return fails() ? no_memory() : __libc_memalign(alignment, size);
}
int posix_memalign(void** data, size_t alignment, size_t size) noexcept {
  *data = fails() ? nullptr : __libc_memalign(alignment, size);
  return *data == nullptr ? ENOMEM : 0;
}
}
#endif

extern "C" int ftruncate(int file, off_t size) noexcept {
  if (ftruncate_fails) {
    errno = EIO;
    return -1;
  }
  static const auto real =
      reinterpret_cast<int (*)(int, off_t)>(::dlsym(RTLD_NEXT, "ftruncate"));
  return real(file, size);
}

namespace {

using namespace qtape;

std::string data_file(const std::string& name) { return QTAPE_TEST_DATA "/" + name; }

/// An operation, and the beginning of its error for a failed allocation.
template <class Run>
struct Trial {
  std::string error;
  Run run;
  std::function<std::string(const decltype(std::declval<Run>()())&)> shown;
};

const char* running = "";

/// Prints the context of an abort.
void name_abort() {
  armed = false;
  std::fprintf(stderr, "terminated after %ld allocations of a trial, that of «%s»\n",
               static_cast<long>(first_failing.load()), running);
  std::abort();
}

/// Returns the kind of exception: none, `error`, or another message.
template <class Run, class Result>
std::string thrown_by(const Run& run, Result& result) {
  calls = 0;
  armed = true;
  try {
    result.emplace(run());
    armed = false;
    return "";
  } catch (const std::exception& error) {
    armed = false;
    return error.what();
  }
}

/// Lets each of a sample of allocations fail, alone and together with all later ones.
template <class Run>
void try_failures(const Trial<Run>& trial) {
  if (!replaces_malloc) return test::skip("malloc is the sanitizer's");
  constexpr int64_t max_points = 400;
  using Result = std::optional<decltype(trial.run())>;
  running = trial.error.c_str();
  std::set_terminate(name_abort);
  const auto run_failing = [&](int64_t first, int64_t last, Result& result) {
    first_failing = first;
    last_failing = last;
    return thrown_by(trial.run, result);
  };
  Result whole;
  REQUIRE(run_failing(INT64_MAX, INT64_MAX, whole).empty());  // includes one-time allocations
                                                              // of libraries
  REQUIRE(run_failing(INT64_MAX, INT64_MAX, whole).empty());
  const std::string expected = trial.shown(*whole);
  const int64_t all = calls;
  std::set<std::string> others;  // texts
  int64_t failures = 0;
  for (int64_t i = 0; i < std::min(all, max_points); ++i) {
    const int64_t first = all <= max_points ? i : i * all / max_points;
    for (const int64_t last : {first, INT64_MAX}) {
      Result result;
      std::string text = run_failing(first, last, result);
      if (text.empty()) {
        CHECK(trial.shown(*result) == expected);
        continue;
      }
      ++failures;
      if (!text.starts_with(trial.error)) others.insert(text);
    }
  }
  CHECK(failures > std::min(all, max_points));
  CAPTURE(trial.error);
  CHECK(fmt::format("{}", fmt::join(others, "; ")) == "");
}

template <class Run>
Trial(std::string, Run, std::function<std::string(const decltype(std::declval<Run>()())&)>)
    -> Trial<Run>;

std::string content(const std::string& path) { return read_file(path, 1 << 30); }

std::string text_of(const SavedModel& model) {
  return to_json(model.graph, model.parameters, model.sections);
}

SavedModel small_model() {
  test::Settled net(test::random_net(3).with_batch(4), 3);
  return {std::move(net.graph), std::move(net.parameters), {}};
}

/// Runs `write` with failures; afterwards the file is the old or the new one, and no other file
/// is left.
template <class Write>
void try_writing(const std::string& name, const Write& write) {
  const test::Folder folder;
  const std::string path = folder.file(name);
  write(path);
  const std::string expected = content(path);
  const auto run = [&] {
    write(path);
    return 0;
  };
  try_failures(
      Trial{"out of memory while writing " + path, run, [&](const int&) {
              CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
              return content(path);
            }});
  CHECK(content(path) == expected);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

template <class Read, class Shown>
void try_reading(const std::string& path, const Read& read, const Shown& shown) {
  try_failures(Trial{"out of memory while reading " + path, [&] { return read(path); }, shown});
}

std::string shown(const NamedTensors& tensors) { return to_array_file("a.npz", tensors); }

}  // namespace

TEST_CASE("faults: memory that runs out is told while files of models are read") {
  const test::Folder folder;
  const SavedModel model = small_model();
  const std::string path = folder.file("m.json");
  save_model(path, model.graph, model.parameters);
  try_reading(
      path, [](const std::string& name) { return load_model(name); }, text_of);
  const std::string program = folder.file("p.json");
  Parameters& parameters = const_cast<SavedModel&>(model).parameters;
  save_program(program, convert(model.graph, parameters, Requantization::FloatMultiply));
  try_reading(
      program, [](const std::string& name) { return load_any(name); },
      [](const AnyFile& file) { return to_json(std::get<IntegerProgram>(file)); });
}

TEST_CASE("faults: and while they are written") {
  SavedModel model = small_model();
  try_writing("m.json", [&](const std::string& path) {
    save_model(path, model.graph, model.parameters);
  });
  const IntegerProgram program =
      convert(model.graph, model.parameters, Requantization::FloatMultiply);
  try_writing("p.json", [&](const std::string& path) { save_program(path, program); });
}

TEST_CASE("faults: and while models are converted") {
  SavedModel model = small_model();
  const auto run = [&] {
    return convert(model.graph, model.parameters, Requantization::SingleRounding);
  };
  try_failures(Trial{"out of memory while ", run,  // in one of its steps or in general

                     [](const IntegerProgram& program) { return to_json(program); }});
}

TEST_CASE("faults: and while plans are made") {
  const SavedModel model = small_model();
  try_failures(Trial{"out of memory while planning", [&] { return plan(model.graph, {}); },
                     [](const Plan& plan) { return fmt::format("{}", plan.arena_bytes); }});
}

TEST_CASE("faults: and while records of runs are written and read") {
  report::RunRecord record{.name = "run", .steps = 100};
  for (int i = 0; i < 40; ++i) {
    record.loss.add(1.0 / (1 + i));
    record.epochs.push_back({.loss = 0.5});
  }
  const test::Folder folder;
  report::write_run(folder.path(), record);
  const std::string path = report::run_file(folder.path());
  try_reading(
      path, [](const std::string& name) { return report::read_run(name); },
      [](const report::RunRecord& read) { return report::to_json(read); });
  const auto write = [&] {
    report::write_run(folder.path(), record);
    return 0;
  };
  try_failures(Trial{"out of memory while writing " + folder.path(), write,
                     [&](const int&) { return content(path); }});
}

TEST_CASE("faults: and while arrays are read") {
  for (const char* name : {"deflated.npz", "stored.npz", "numpy.safetensors"}) {
    try_reading(data_file("arrays/" + std::string(name)), read_arrays, shown);
  }
  try_reading(data_file("onnx/mlp-x.npy"), read_arrays, shown);
}

TEST_CASE("faults: and while arrays are written") {
  const NamedTensors tensors = read_arrays(data_file("arrays/stored.npz"));
  for (const char* name : {"a.npz", "a.safetensors"}) {
    try_writing(name, [&](const std::string& path) { write_arrays(path, tensors); });
  }
}

TEST_CASE("faults: and while images are read") {
  const test::Folder folder;
  const std::string images = folder.file("images");
  const std::string labels = folder.file("labels");
  write_file(images, std::string("\0\0\10\3\0\0\0\3\0\0\0\2\0\0\0\2abcdefghijkl", 28));
  write_file(labels, std::string("\0\0\10\1\0\0\0\3\1\2\3", 11));
  try_reading(
      images, [&](const std::string& path) { return data::idx(path, labels); },
      [](const data::Dataset& set) { return fmt::format("{}", set.size()); });
}

TEST_CASE("faults: and while ONNX models are read") {
  for (const char* name : {"mlp.onnx", "lenet.onnx"}) {
    try_reading(
        data_file("onnx/" + std::string(name)),
        [](const std::string& path) { return import_onnx(path); }, text_of);
  }
}

TEST_CASE("faults: the text of an error needs no memory and stays a line of its size") {
  const OutOfMemory error("reading", "a\nb", 64);
  CHECK(std::string(error.what()) ==
        "out of memory while reading a?b: cannot allocate 64 bytes");
  CHECK(std::string(OutOfMemory(64).what()) == "out of memory: cannot allocate 64 bytes");
  const OutOfMemory long_one("reading", std::string(1000, 'x'), 0);
  CHECK(std::string(long_one.what()).size() == 511);
  CHECK(test::error_text<std::bad_alloc>([] {
          during("reading", "outer",
                 [] { during("planning", {}, [] { throw OutOfMemory(7); }); });
        }) == "out of memory while planning: cannot allocate 7 bytes");
}

TEST_CASE("faults: a partial file that cannot be emptied does not stay") {
  const test::Folder folder;
  const std::string path = folder.file("a");
  ftruncate_fails = true;
  const std::string text = test::error_text<IoError>([&] { write_file(path, "x"); });
  ftruncate_fails = false;
  CHECK(text == path + ": cannot write: Input/output error");
  CHECK(std::filesystem::is_empty(folder.path()));
}

int main(int argc, char** argv) { return qtape::test::run_tests(argc, argv); }
