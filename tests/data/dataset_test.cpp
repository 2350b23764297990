// Data sets: columns, slices, numbers of every dtype, files.
#include "qtape/data/dataset.h"

#include <doctest/doctest.h>

#include "qtape/data/files.h"
#include "qtape/io/arrays/arrays.h"
#include "qtape/io/arrays/npy.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"

using namespace qtape;
using test::error_text;

namespace {

template <class T>
Tensor tensor(Shape shape, std::vector<T> values) {
  return Tensor::of<T>(shape, values);
}

/// Four samples of two pixels, with labels.
data::Dataset four() {
  data::Dataset set;
  set.add("x", tensor<uint8_t>({4, 2}, {0, 255, 51, 102, 1, 2, 3, 4}));
  set.add_target("labels", tensor<int64_t>({4}, {2, 0, 1, 2}));
  return set;
}

float first_of(const data::Dataset& set, size_t column, int64_t sample) {
  std::vector<float> values(static_cast<size_t>(set.columns()[column].sample.elements()));
  set.read(column, sample, std::span(values));
  return values.at(0);
}

int32_t label_of(const data::Dataset& set, int64_t sample) {
  int32_t label = 0;
  set.read(*set.target(), sample, std::span(&label, 1));
  return label;
}

}  // namespace

TEST_CASE("data sets: pixels become 0 to 1, all other numbers keep their values") {
  const data::Dataset set = four();
  CHECK(set.size() == 4);
  CHECK(set.classes() == 3);
  CHECK(first_of(set, 0, 1) == 51.0f / 255.0f);
  CHECK(label_of(set, 2) == 1);
  data::Dataset numbers;
  numbers.add("a", tensor<int8_t>({1}, {-5})).add("b", tensor<double>({1}, {0.1}));
  numbers.add("c", tensor<uint16_t>({1}, {65535}));
  numbers.add_target("y", tensor<uint8_t>({1, 1}, {200}));
  CHECK(first_of(numbers, 0, 0) == -5.0f);
  CHECK(first_of(numbers, 1, 0) == 0.1f);
  CHECK(first_of(numbers, 2, 0) == 65535.0f);
  CHECK(first_of(numbers, 3, 0) == 200.0f);
  CHECK(numbers.classes() == 0);
}

TEST_CASE("data sets: slices share samples, and columns may be added to them") {
  data::Dataset part = four().slice(1, 3);
  CHECK(part.size() == 2);
  CHECK(label_of(part, 1) == 1);
  CHECK(part.values<uint8_t>("x")[0] == 51);
  CHECK(part.values<uint8_t>("x").size() == 4);
  part.add("z", tensor<float>({2}, {7, 8}));
  CHECK(first_of(part, 2, 1) == 8.0f);
  const auto [some, rest] = four().split(0.75);
  CHECK(some.size() == 3);
  CHECK(label_of(rest, 0) == 2);
  CHECK(four().first(9).size() == 4);
  CHECK(error_text<ArgumentError>([] { (void)four().slice(2, 5); }) ==
        "samples 2 to 5 are not a range of a data set of 4");
}

TEST_CASE("data sets: samples may be computed") {
  const data::Dataset set(
      5,
      {{.name = "x", .sample = {DType::F32, {3}}},
       {.name = "n", .sample = {DType::S32, {}}, .target = true, .classes = 5}},
      [](size_t column, int64_t sample, std::span<float> to) {
        for (float& each : to) each = static_cast<float>(sample + (column == 0 ? 10 : 0));
      });
  CHECK(first_of(set, 0, 4) == 14.0f);
  CHECK(label_of(set.slice(2, 5), 1) == 3);
  CHECK(set.classes() == 5);
  CHECK(error_text<ArgumentError>([&] { (void)set.values<float>("x"); }) ==
        "column x is computed, not in memory");
  CHECK(error_text<ArgumentError>([] {
          (void)data::Dataset(1, {{.name = "n", .sample = {DType::S32, {}}, .target = true}},
                              [](size_t, int64_t, std::span<float>) {});
        }) == "column n: labels that are computed need a number of classes, got none");
}

TEST_CASE("data sets: what does not fit is refused by name") {
  data::Dataset set = four();
  CHECK(error_text<ArgumentError>([&] {
          set.add("x", tensor<float>({4}, {1, 2, 3, 4}));
        }) == "column x already exists");
  CHECK(error_text<ArgumentError>([&] {
          set.add("z", tensor<float>({2}, {1, 2}));
        }) == "column z: expected 4 samples as in x, got 2");
  CHECK(error_text<ArgumentError>([&] { set.add("z", tensor<float>({}, {1})); }) ==
        "column z: expected samples along the first axis, got a scalar");
  CHECK(error_text<ArgumentError>([&] {
          set.add_target("z", tensor<int32_t>({4}, {0, 1, 2, 3}), 3);
        }) == "column z: label 3 of sample 3 is outside 0..2");
  CHECK(error_text<ArgumentError>([&] {
          set.add_target("z", tensor<int32_t>({4}, {0, -1, 2, 3}));
        }) == "column z: label -1 of sample 1 is negative");
  CHECK(set.columns().size() == 2);
  CHECK(error_text<ArgumentError>([&] { (void)set.column("y"); }) ==
        "there is no column y; the data set has x, labels");
  CHECK(error_text<ArgumentError>([&] { (void)set.values<float>("x"); }) ==
        "column x holds u8, not f32");
  CHECK(error_text<ArgumentError>([&] { (void)first_of(set, 0, 4); }) ==
        "column 0, sample 4: the data set has 2 columns of 4 samples");
  data::Dataset wide;
  wide.add_target("y", tensor<int64_t>({1, 1}, {int64_t{1} << 40}));
  CHECK(error_text<ArgumentError>([&] { (void)label_of(wide, 0); }) ==
        "column y, sample 0: 1099511627776 is not an s32");
}

TEST_CASE("data sets: bytes, labels and readers that do not fit are refused") {
  data::Dataset set;
  Tensor cut{{DType::F32, {4, 1000}}, std::vector<std::byte>(16)};
  CHECK(error_text<ArgumentError>([&] { set.add("x", cut); }) ==
        "column x: expected 16000 bytes of f32[4, 1000], got 16");
  CHECK(error_text<ArgumentError>([&] {
          set.add_target("y", tensor<int64_t>({1}, {std::numeric_limits<int64_t>::max()}));
        }) == "column y: label 9223372036854775807 of sample 0 is outside 0..2147483646");
  const data::Column x{.name = "x", .sample = {DType::F32, {2}}};
  CHECK(error_text<ArgumentError>([&] { data::Dataset(3, {x}, {}); }) ==
        "expected a reader, got an empty function");
  CHECK(error_text<ArgumentError>([&] {
          set.add_target("y", tensor<float>({2}, {0, 1}), 2);
        }) == "column y: labels of 2 classes must be integers, got f32[]");
}

TEST_CASE("data sets: files of a scalar have no samples") {
  const test::Folder folder;
  const std::string one = folder.file("one.npy"), x = folder.file("x.npy");
  write_npy(one, tensor<float>({}, {3}));
  write_npy(x, tensor<float>({1, 2}, {1, 2}));
  const std::string text = one + ": expected samples along the first axis, got a scalar";
  const auto refused = [&](const std::string& inputs, const std::string& targets) {
    return error_text<ArgumentError>([&] {
      (void)data::arrays(inputs, targets, {{"x", {2}}}, data::ChannelOrder::Detect);
    });
  };
  CHECK(refused(one, x) == text);
  CHECK(refused(x, one) == text);
}

TEST_CASE("data sets: labels of one element each are labels") {
  const test::Folder folder;
  write_npy(folder.file("x.npy"), tensor<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  write_npy(folder.file("y.npy"), tensor<int64_t>({2, 1}, {1, 0}));
  const auto classes = [&](const Shape& answer) {
    return data::arrays(folder.file("x.npy"), folder.file("y.npy"), {},
                        data::ChannelOrder::Detect, {{"fc", answer}})
        .classes();
  };
  CHECK(classes({2}) == 2);
  CHECK(classes({1}) == 0);     // the values of an answer of one number
  CHECK(classes({1, 2}) == 0);  // the labels of its places
  CHECK(data::arrays(folder.file("x.npy"), folder.file("y.npy")).classes() == 0);
}

TEST_CASE("data sets: files of arrays of inputs and labels") {
  const test::Folder folder;
  write_npy(folder.file("x.npy"), tensor<float>({3, 2, 2}, std::vector<float>(12, 0.5f)));
  write_npy(folder.file("y.npy"), tensor<int64_t>({3}, {1, 0, 1}));
  const data::Dataset set = data::arrays(folder.file("x.npy"), folder.file("y.npy"));
  CHECK(set.size() == 3);
  CHECK(set.columns()[0].sample == TensorType{DType::F32, {2, 2}});
  CHECK(set.classes() == 2);
  CHECK(data::arrays(folder.file("x.npy")).columns().size() == 1);
  const std::string both = folder.file("both.npz");
  write_arrays(both,
               {{"x", read_npy(folder.file("x.npy"))}, {"y", read_npy(folder.file("y.npy"))}});
  const data::Dataset same = data::arrays(both + ":x", both + ":y");
  CHECK(std::ranges::equal(same.values<float>("x"), set.values<float>("x")));
  CHECK(std::ranges::equal(same.values<int64_t>("y"), set.values<int64_t>("y")));
  CHECK(error_text<ArgumentError>([&] { (void)data::arrays(both + ":x", both + ":z"); }) ==
        both + ": no array is named 'z', expected one of 'x', 'y'; the nearest are 'x', 'y'");
  write_npy(folder.file("y.npy"), tensor<int64_t>({2}, {1, 0}));
  CHECK(error_text<FormatError>([&] {
          (void)data::arrays(folder.file("x.npy"), folder.file("y.npy"));
        }) == folder.file("y.npy") + ": column y: expected 3 samples as in x, got 2");
}

TEST_CASE("data sets: maps change samples as they are read, with numbers of their own") {
  const auto add = [](std::span<float> x, const Random& random) {
    for (float& each : x) each += static_cast<float>(random.uniform(0));
  };
  const data::Dataset plain = four();
  const data::Dataset set = plain.map(add);
  const auto value = [](const data::Dataset& from, int64_t sample, const data::Draw& draw) {
    std::vector<float> x(2);
    from.read(0, sample, std::span(x), draw);
    return x[0];
  };
  CHECK(value(set, 1, {1, 0}) == value(set, 1, {1, 0}));
  CHECK(value(set, 1, {1, 0}) != value(set, 1, {2, 0}));
  CHECK(value(set, 1, {1, 0}) != value(set, 1, {1, 1}));
  CHECK(value(set, 0, {1, 0}) - value(plain, 0, {}) !=
        value(set, 1, {1, 0}) - value(plain, 1, {}));
  // A slice keeps the random numbers of its samples.
  CHECK(value(set.slice(1, 3), 0, {1, 5}) == value(set, 1, {1, 5}));
  CHECK(first_of(set, 0, 1) == value(set, 1, {0, 0}));
  CHECK(label_of(set, 0) == 2);
  CHECK(set.computed());
  CHECK(!plain.computed());
  const data::Dataset twice = set.map("x", [](std::span<float> x, const Random&) {
    for (float& each : x) each *= 2;
  });
  CHECK(value(twice, 1, {3, 4}) == 2 * value(set, 1, {3, 4}));
  CHECK(value(set.map(add), 1, {3, 4}) != 2 * value(set, 1, {3, 4}) - value(plain, 1, {}));
  CHECK(error_text<ArgumentError>([&] { (void)set.values<uint8_t>("x"); }) ==
        "column x is mapped, not in memory");
  CHECK(set.values<int64_t>("labels")[0] == 2);
  CHECK(error_text<ArgumentError>([&] { (void)set.map("labels", add); }) ==
        "column labels holds labels, which cannot be mapped");
  CHECK(error_text<ArgumentError>([&] { (void)set.map(data::Map()); }) ==
        "a map of samples must be a function, got none");
}

TEST_CASE("data sets: inputs alone keep their values, also of readers and maps") {
  const data::Dataset set(3,
                          {{.name = "t", .sample = {DType::F32, {}}, .target = true},
                           {.name = "x", .sample = {DType::F32, {}}}},
                          [](size_t column, int64_t sample, std::span<float> to) {
                            to[0] =
                                static_cast<float>(10 * static_cast<int64_t>(column) + sample);
                          });
  const auto twice = [](std::span<float> x, const Random&) { x[0] *= 2; };
  const data::Dataset inputs = set.map("t", twice).map("x", twice).without_targets();
  REQUIRE(inputs.columns().size() == 1);
  CHECK(!inputs.target());
  CHECK(first_of(inputs, 0, 2) == 24);
  CHECK(four().without_targets().columns().size() == four().columns().size() - 1);
}

TEST_CASE("data sets: integers are mapped as floats and stay integers") {
  data::Dataset words;
  words.add("tokens", tensor<int32_t>({2, 2}, {3, 4, 5, 6}));
  const auto token = [](const data::Dataset& set) {
    std::vector<int32_t> x(2);
    set.read(0, 1, std::span(x));
    return x[1];
  };
  const auto times = [](float factor) {
    return [factor](std::span<float> x, const Random&) {
      for (float& each : x) each *= factor;
    };
  };
  CHECK(token(words.map(times(2))) == 12);
  CHECK(error_text<ArgumentError>([&] { (void)token(words.map(times(0.75f))); }) ==
        "column tokens, sample 1: 3.75 is not an s32");
}
