// Columns whose samples stay in .npy files: equal values and bits as from memory, and flat
// memory.
#include "qtape/data/rows.h"

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "qtape/data/files.h"
#include "qtape/io/arrays/arrays.h"
#include "qtape/io/arrays/npy.h"
#include "qtape/io/arrays/npy_rows.h"
#include "qtape/io/files.h"
#include "qtape/model/fit.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"
#include "qtape/tests/support/skip.h"
#include "qtape/tests/support/small_fit.h"
#include "qtape/tests/support/thread_ranks.h"

using namespace qtape;
using test::error_text;

namespace {

/// Samples [count, 2, 3] of consecutive numbers from `first` on.
Tensor some_samples(int64_t count, float first = 0) {
  std::vector<float> values(static_cast<size_t>(count * 6));
  std::iota(values.begin(), values.end(), first);
  return Tensor::of<float>({count, 2, 3}, values);
}

/// Values of all samples of a column.
std::vector<float> values_of(const data::Dataset& set, size_t column = 0) {
  const auto size = static_cast<size_t>(set.columns()[column].sample.elements());
  std::vector<float> all(static_cast<size_t>(set.size()) * size);
  for (size_t i = 0; i < static_cast<size_t>(set.size()); ++i) {
    set.read(column, static_cast<int64_t>(i), std::span(all).subspan(i * size, size));
  }
  return all;
}

/// Writes a .npy file with the given header and data.
void write_raw(const std::string& path, std::string_view header, std::string_view data) {
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += {static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  bytes += header;
  bytes += data;
  write_file(path, bytes);
}

data::Dataset inputs_of(const std::vector<std::string>& files) {
  data::Dataset set;
  set.add("x", data::npy_rows(files));
  return set;
}

/// Resident memory of this process becomes its peak so far.
void reset_peak_memory() { std::ofstream("/proc/self/clear_refs") << "5"; }

/// Largest resident memory of this process since the last reset, in bytes.
int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmHWM:") continue;
    int64_t kib = 0;
    status >> kib;
    return kib * 1024;
  }
  return 0;
}

}  // namespace

TEST_CASE("rows: samples of several files, slices and maps have the values of memory") {
  const test::Folder folder;
  const std::vector<std::string> files = {folder.file("a.npy"), folder.file("b.npy"),
                                          folder.file("c.npy")};
  write_npy(files[0], some_samples(3));
  write_npy(files[1], some_samples(0));
  write_npy(files[2], some_samples(4, 18));
  data::Dataset memory;
  memory.add("x", some_samples(7));
  const data::Dataset set = inputs_of(files);
  CHECK(set.size() == 7);
  CHECK(set.columns()[0].sample == memory.columns()[0].sample);
  CHECK(values_of(set) == values_of(memory));
  CHECK(values_of(set.slice(2, 6)) == values_of(memory.slice(2, 6)));
  CHECK(values_of(set.slice(2, 6).slice(1, 3)) == values_of(memory.slice(3, 5)));
  const auto add = [](std::span<float> x, const Random& random) {
    for (float& each : x) each += static_cast<float>(random.uniform(0));
  };
  CHECK(values_of(set.map(add)) == values_of(memory.map(add)));
  CHECK(set.computed());
  CHECK(set.bytes_in_files() == 7 * 24);
  CHECK(memory.bytes_in_files() == 0);
  CHECK(error_text<ArgumentError>([&] { (void)set.values<float>("x"); }) ==
        "column x is in a file, not in memory");
  // Reads of several samples cross the borders of files.
  std::vector<float> middle(4 * 6);
  data::npy_rows(files)->read(1, std::as_writable_bytes(std::span(middle)));
  CHECK(middle == values_of(memory.slice(1, 5)));
}

TEST_CASE("rows: byte order and booleans are those of the array in memory") {
  const test::Folder folder;
  const std::vector<int16_t> numbers = {1, -2, 300, 4};
  std::string swapped;
  for (const int16_t each : numbers) {
    const auto bits = static_cast<uint16_t>(each);
    const auto high = static_cast<char>(bits >> 8), low = static_cast<char>(bits & 0xff);
    swapped += {std::endian::native == std::endian::little ? high : low,
                std::endian::native == std::endian::little ? low : high};
  }
  const std::string order = std::endian::native == std::endian::little ? ">" : "<";
  write_raw(folder.file("s.npy"),
            "{'descr': '" + order + "i2', 'fortran_order': False, 'shape': (2, 2), }\n",
            swapped);
  CHECK(values_of(inputs_of({folder.file("s.npy")})) == std::vector<float>{1, -2, 300, 4});
  write_raw(folder.file("b.npy"),
            "{'descr': '|b1', 'fortran_order': False, 'shape': (3, 1), }\n",
            {"\x00\x05\x01", 3});
  data::Dataset targets;
  targets.add_target("y", data::npy_rows({folder.file("b.npy")}));
  CHECK(values_of(targets) == std::vector<float>{0, 1, 1});
}

TEST_CASE("rows: labels are counted and checked over all files") {
  const test::Folder folder;
  const std::vector<std::string> files = {folder.file("a.npy"), folder.file("b.npy")};
  write_npy(files[0], Tensor::of<int64_t>({3}, std::vector<int64_t>{0, 4, 1}));
  write_npy(files[1], Tensor::of<int64_t>({2}, std::vector<int64_t>{6, 2}));
  data::Dataset set;
  set.add_target("y", data::npy_rows(files));
  CHECK(set.classes() == 7);
  int32_t label = 0;
  set.slice(3, 5).read(0, 0, std::span(&label, 1));
  CHECK(label == 6);
  data::Dataset few;
  CHECK(error_text<ArgumentError>([&] { few.add_target("y", data::npy_rows(files), 5); }) ==
        "column y: label 6 of sample 3 is outside 0..4");
}

TEST_CASE("rows: channels before the other axes become the last axis") {
  const test::Folder folder;
  write_npy(folder.file("x.npy"), some_samples(5));
  data::Dataset set;
  set.add("x", data::channels_last(data::npy_rows({folder.file("x.npy")})));
  CHECK(set.columns()[0].sample == TensorType{DType::F32, {3, 2}});
  const std::vector<float> all = values_of(set);
  CHECK(std::vector(all.begin() + 6, all.begin() + 12) ==
        std::vector<float>{6, 9, 7, 10, 8, 11});
}

TEST_CASE("rows: a folder of .npy files is one data set") {
  const test::Folder folder;
  std::filesystem::create_directory(folder.file("x"));
  std::filesystem::create_directory(folder.file("y"));
  std::filesystem::create_directory(folder.file("none"));
  write_npy(folder.file("x/1.npy"), some_samples(3, 12));
  write_npy(folder.file("x/0.npy"), some_samples(2));
  write_npy(folder.file("y/0.npy"), Tensor::of<int32_t>({5}, std::vector<int32_t>(5, 1)));
  write_file(folder.file("x/notes.txt"), "no array");
  const data::Dataset set = data::arrays(folder.file("x"), folder.file("y"));
  data::Dataset memory;
  memory.add("x", some_samples(5));
  CHECK(values_of(set) == values_of(memory));
  CHECK(set.classes() == 2);
  // Matched to a network with the channels last.
  const auto matched = data::arrays(folder.file("x"), {}, {{"x", {3, 2}}});
  CHECK(matched.columns()[0].sample == TensorType{DType::F32, {3, 2}});
  CHECK(error_text<ArgumentError>([&] { (void)data::arrays(folder.file("none")); }) ==
        folder.file("none") + ": the folder has no .npy files");
  write_npy(folder.file("y/1.npy"), Tensor::of<int32_t>({1}, std::vector<int32_t>(1, 1)));
  CHECK(error_text<FormatError>([&] {
          (void)data::arrays(folder.file("x"), folder.file("y"));
        }) == folder.file("y") + ": column y: expected 5 samples as in x, got 6");
}

TEST_CASE("arrays: one that fits only with channels first decides for all that fit both ways") {
  const test::Folder folder;
  const auto file = [&](const char* name, const Shape& shape) {
    std::vector<float> values(static_cast<size_t>(shape.elements()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    write_npy(folder.file(name), Tensor::of<float>(shape, values));
    return folder.file(name);
  };
  const std::string square = file("square.npy", {1, 2, 2}), row = file("row.npy", {1, 3, 2});
  const std::vector<data::WantedInput> x = {{"x", {2, 2}}}, y = {{"y", {2, 3}}};
  const auto first = [&](const std::string& targets, data::ChannelOrder order,
                         std::vector<std::string>& unclear) {
    const data::Dataset set = data::arrays(square, targets, x, order, y, &unclear);
    std::vector<float> values(4);
    set.read(0, 0, values);
    return values[1];
  };
  std::vector<std::string> unclear;
  CHECK(first({}, data::ChannelOrder::Detect, unclear) == 1);
  CHECK(unclear == std::vector{square});
  unclear.clear();
  CHECK(first(row, data::ChannelOrder::Detect, unclear) == 2);
  CHECK(first({}, data::ChannelOrder::First, unclear) == 2);
  CHECK(first({}, data::ChannelOrder::Last, unclear) == 1);
  // An image does not decide for a sequence.
  const std::string image = file("image.npy", {1, 3, 5, 5});
  CHECK(error_text<ArgumentError>([&] {
          (void)data::arrays(image, square, {{"x", {5, 5, 3}}}, data::ChannelOrder::Detect, x);
        }) == square + ": samples [2, 2] fit with channels first and last, and " + image +
                  " has them first: give all arrays with channels last and --channels Last, or "
                  "--channels First if all have them first");
  // Answers without channels are neither moved nor asked for.
  const std::vector<data::WantedInput> map = {
      {.name = "y", .sample = {2, 2}, .has_channels = false}};
  for (const auto order : {data::ChannelOrder::Detect, data::ChannelOrder::First}) {
    const data::Dataset set = data::arrays(image, square, {{"x", {5, 5, 3}}}, order, map);
    std::vector<float> values(4);
    set.read(1, 0, values);
    CHECK(values == std::vector<float>{0, 1, 2, 3});
  }
  // Neither are the arrays of programs with their channels first.
  const std::vector<data::WantedInput> stored = {
      {.name = "x", .sample = {2, 2}, .has_channels = false, .channels_first = true}};
  for (const auto order : {data::ChannelOrder::Detect, data::ChannelOrder::First}) {
    const data::Dataset set = data::arrays(square, {}, stored, order);
    std::vector<float> values(4);
    set.read(0, 0, values);
    CHECK(values == std::vector<float>{0, 1, 2, 3});
  }
  // Flat samples have channels first as well, if the caller says so.
  const std::string flat = file("flat.npy", {1, 12});
  std::filesystem::create_directory(folder.file("flat"));
  std::filesystem::copy_file(flat, folder.file("flat/0.npy"));
  for (const std::string& place : {flat, folder.file("flat")}) {
    for (const Shape& sample : {Shape{2, 2, 3}, Shape{4, 3}}) {
      const data::Dataset moved =
          data::arrays(place, {}, {{"x", sample}}, data::ChannelOrder::First);
      std::vector<float> pixels(12);
      moved.read(0, 0, pixels);
      CHECK(pixels[1] == 4);
    }
  }
  // Labels [n, 1] of files are those of classes.
  std::filesystem::create_directory(folder.file("labels"));
  write_npy(folder.file("labels/0.npy"),
            Tensor::of<int64_t>({1, 1}, std::array<int64_t, 1>{3}));
  const data::Dataset labelled = data::arrays(flat, folder.file("labels"), {{"x", {12}}},
                                              data::ChannelOrder::Last, {{"y", {10}}});
  CHECK(labelled.classes() == 4);
  // Targets beside an input that is called as they are.
  const std::string both = folder.file("both.safetensors");
  const Tensor one = Tensor::of<float>({1, 1}, std::array{1.0f});
  write_arrays(both, {{"x", one}, {"y", one}});
  const data::Dataset named = data::arrays(both, flat, {{"x", {1}}, {"y", {1}}},
                                           data::ChannelOrder::Last, {{"z", {12}}});
  CHECK(named.column("y.target") == 2);
  // Sequences that fit only with channels last contradict the caller.
  const std::string steps = file("steps.npy", {1, 4, 3});
  CHECK(error_text<ArgumentError>([&] {
          (void)data::arrays(steps, {}, {{"x", {4, 3}}}, data::ChannelOrder::First);
        }) == steps +
                  ": samples [4, 3] fit only with channels last: --channels First must hold "
                  "for all arrays");
  // So do images and stacks of them.
  for (const Shape& sample : {Shape{4, 5, 3}, Shape{2, 4, 5, 3}}) {
    std::vector<int64_t> extents{1};
    extents.insert(extents.end(), sample.extents().begin(), sample.extents().end());
    const std::string stack = file("image.npy", Shape(extents));
    CHECK(error_text<ArgumentError>([&] {
            (void)data::arrays(stack, {}, {{"x", sample}}, data::ChannelOrder::First);
          }).find("fit only with channels last") != std::string::npos);
  }
  // Images without an axis for their single channel are neither.
  const data::Dataset kept =
      data::arrays(steps, {}, {{"x", {4, 3, 1}}}, data::ChannelOrder::First);
  CHECK(kept.columns()[0].sample.shape == Shape{4, 3});
  // A single channel has the same bytes before and after the other axes.
  const std::string grey = file("grey.npy", {1, 1, 4, 4});
  (void)data::arrays(grey, {}, {{"x", {4, 4, 1}}}, data::ChannelOrder::Detect, {}, &unclear);
  CHECK(unclear.empty());
}

TEST_CASE("rows: files that cannot be read sample by sample are refused by name") {
  const test::Folder folder;
  const std::string a = folder.file("a.npy"), b = folder.file("b.npy");
  write_npy(a, some_samples(4));
  const auto refused = [](const std::vector<std::string>& files) {
    return error_text<FormatError>([&] { (void)data::npy_rows(files); });
  };
  write_npy(b, Tensor::of<float>({4, 3, 2}, std::vector<float>(24)));
  const std::string other = b + ": expected samples f32[2, 3] as in " + a + ", got ";
  CHECK(refused({a, b}) == other + "f32[3, 2]");
  write_npy(b, Tensor::of<double>({1, 2, 3}, std::vector<double>(6)));
  CHECK(refused({a, b}) == other + "f64[2, 3]");
  write_npy(b, Tensor::of<float>({}, std::vector<float>(1)));
  CHECK(refused({b}) == b + ": expected samples along the first axis, got a scalar");
  write_raw(b, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2), }\n", "abcd");
  CHECK(!has_contiguous_rows(b));
  CHECK(has_contiguous_rows(a));
  CHECK(refused({b}) ==
        b + ": rows are not contiguous, because 'fortran_order' is True; save the result of "
            "numpy.ascontiguousarray");
  write_raw(b, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2), }\n", "abc");
  CHECK(refused({b}) == b + ": expected 4 bytes of u8[2, 2], got 3");
  CHECK(error_text<IoError>([&] {
          (void)data::npy_rows({folder.file("c.npy")});
        }).starts_with(folder.file("c.npy") + ": cannot open"));
  CHECK(error_text<ArgumentError>([&] { (void)data::npy_rows({}); }) ==
        "expected one or more .npy files, got none");
}

TEST_CASE(
    "rows: training has the bits of samples in memory, with errors of the reader thread") {
  const test::Folder folder;
  const data::Dataset& digits = test::small_digits().train;
  const auto half = digits.size() / 2;
  for (const int64_t part : {0, 1}) {
    const data::Dataset samples = digits.slice(part * half, (part + 1) * half);
    const auto pixels = samples.values<uint8_t>("x");
    write_npy(folder.file(part == 0 ? "0.npy" : "1.npy"),
              Tensor::of<uint8_t>({half, 28, 28}, pixels));
  }
  data::Dataset set = inputs_of({folder.file("0.npy"), folder.file("1.npy")});
  std::vector<int32_t> labels(static_cast<size_t>(digits.size()));
  for (size_t i = 0; i < labels.size(); ++i) {
    digits.read(*digits.target(), static_cast<int64_t>(i), std::span(&labels[i], 1));
  }
  set.add_target("labels", Tensor::of<int32_t>({digits.size()}, labels), 10);
  const auto train = [](const data::Dataset& samples, bool prefetch) {
    Model model = test::small_model();
    FitOptions options = test::quiet(2);
    options.prefetch = prefetch;
    (void)fit(model, samples, options);
    return model.parameters().sha256();
  };
  const std::string expected = train(digits, false);
  CHECK(train(set, false) == expected);
  CHECK(train(set, true) == expected);
  std::filesystem::resize_file(folder.file("1.npy"), 1000);
  for (const bool prefetch : {false, true}) {
    CHECK(error_text<IoError>([&] { (void)train(set, prefetch); }) ==
          folder.file("1.npy") + ": expected 100480 bytes as when it was opened, got 1000");
  }
}

TEST_CASE("rows: memory stays flat over a file of 4 GB, also of ranks that train on it") {
  const test::Folder folder;
  constexpr int64_t features = 16384, samples = 65552;  // f32: 1 MiB more than 4 GiB
  const std::string path = folder.file("x.npy");
  write_raw(path,
            "{'descr': '<f4', 'fortran_order': False, 'shape': (65552, 16384), }            \n",
            {});
  const auto begin = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, begin + uintmax_t{samples} * features * 4);
  {
    std::ofstream last(path, std::ios::in | std::ios::binary);
    last.seekp(-1, std::ios::end);
    last.put('\x3f');  // 0.5 on little-endian machines
  }
  data::Dataset set = data::arrays(path);
  CHECK(set.bytes_in_files() > data::largest_in_memory);
  std::vector<float> sample(features);
  reset_peak_memory();
  const int64_t before = peak_memory();
  REQUIRE(before > 0);
  double sum = 0;
  for (int64_t i = 15; i < samples; i += 16) {  // the last one too
    set.read(0, i, std::span(sample));
    sum += sample.back();
  }
  CHECK(sum == 0.5);
  const int64_t read = peak_memory();
  MESSAGE("reading 4 GB: ", (read - before) >> 10, " KiB more");
  CHECK(read - before < 4 << 20);

  set.add_target("labels", Tensor::of<uint8_t>({samples}, std::vector<uint8_t>(samples)), 2);
  const auto train = [&](const data::Dataset& on) {
    test::ThreadRanks(2).run([&](Exchange& exchange) {
      Network net;
      Model model(linear(net.input("x", {features}), 2), loss::cross_entropy);
      FitOptions options = test::quiet(1);
      options.interruptible = false;
      options.batch = 256;
      options.exchange = &exchange;
      (void)fit(model, on, options);
    });
  };
  reset_peak_memory();
  train(set.first(8192));
  const int64_t small = peak_memory();
  reset_peak_memory();
  train(set);
  MESSAGE("two ranks: ", (small - read) >> 10, " KiB for 8,192 samples, ",
          (peak_memory() - small) >> 10, " KiB more for all");
  if (test::emulated()) return test::skip("memory of an emulator");
  CHECK(peak_memory() - small < 16 << 20);
}
