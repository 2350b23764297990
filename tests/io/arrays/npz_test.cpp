#include "qtape/io/arrays/npz.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>

#include "qtape/core/error.h"
#include "qtape/io/arrays/npy.h"
#include "qtape/io/files.h"
#include "qtape/tests/support/array_files.h"
#include "qtape/tests/support/errors.h"

using namespace qtape;
using test::error_text;

namespace {

const std::vector<DType> dtypes = {DType::F32, DType::F64, DType::F16, DType::S64, DType::S32,
                                   DType::S16, DType::U16, DType::S8,  DType::U8};

std::string fixture(const std::string& name) {
  return read_file(fmt::format("{}/arrays/{}", QTAPE_TEST_DATA, name), 1 << 20);
}

template <Element T>
Tensor counted(DType dtype) {
  Tensor tensor = Tensor::of<T>({2, 3}, std::array<T, 6>{0, 1, 2, 3, 4, 5});
  tensor.type.dtype = dtype;
  return tensor;
}

std::string message(const std::string& bytes) {
  return error_text<FormatError>([&] { (void)parse_npz(bytes, "x.npz"); });
}

/// Replaces all occurrences of a text in `bytes` by another of the same length.
std::string with(std::string bytes, std::string_view text, std::string_view other) {
  REQUIRE(text.size() == other.size());
  size_t found = 0;
  for (size_t at = 0; (at = bytes.find(text, at)) != std::string::npos; at += text.size()) {
    bytes.replace(at, text.size(), other);
    ++found;
  }
  REQUIRE(found > 0);
  return bytes;
}

/// Replaces one byte at `offset` of the only central directory header.
std::string with_central(std::string bytes, size_t offset, char value) {
  const size_t at = bytes.find("PK\1\2");
  REQUIRE(at != std::string::npos);
  bytes[at + offset] = value;
  return bytes;
}

}  // namespace

TEST_CASE("npz: what is written is read again, for every dtype that NumPy has") {
  const NamedTensors tensors = test::some_tensors(dtypes);
  const std::string bytes = to_npz(tensors);
  CHECK(parse_npz(bytes, "x") == tensors);
  CHECK(to_npz(tensors) == bytes);
  CHECK(is_npz(bytes));
  CHECK(parse_npz(to_npz({}), "x").empty());
  CHECK(to_npz({}) == fixture("none.npz"));
}

TEST_CASE("npz: members are stored, with the date that NumPy gives them") {
  const std::string bytes = to_npz({{"a", test::some_tensor(DType::U8, {3})}});
  const std::string member = to_npy(test::some_tensor(DType::U8, {3}));
  CHECK(bytes.substr(0, 4) == "PK\3\4");
  CHECK(bytes.substr(8, 6) == std::string_view("\0\0\0\0\x21\0", 6));
  CHECK(bytes.substr(30, 5) == "a.npy");
  CHECK(bytes.find(member) == 35);
}

TEST_CASE("npz: what NumPy writes is read, stored and deflated") {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    CAPTURE(std::string(name));
    const NamedTensors found = parse_npz(fixture(name), name);
    REQUIRE(found.size() == 14);
    CHECK(tensor_named(found, "float32") == counted<float>(DType::F32));
    CHECK(tensor_named(found, "float64") == counted<double>(DType::F64));
    CHECK(tensor_named(found, "int64") == counted<int64_t>(DType::S64));
    CHECK(tensor_named(found, "int32") == counted<int32_t>(DType::S32));
    CHECK(tensor_named(found, "int16") == counted<int16_t>(DType::S16));
    CHECK(tensor_named(found, "uint16") == counted<uint16_t>(DType::U16));
    CHECK(tensor_named(found, "int8") == counted<int8_t>(DType::S8));
    CHECK(tensor_named(found, "uint8") == counted<uint8_t>(DType::U8));
    CHECK(tensor_named(found, "bool") ==
          Tensor::of<int8_t>({1, 3}, std::array<int8_t, 3>{1, 0, 1}));
    CHECK(tensor_named(found, "scalar") == Tensor::of<float>({}, std::array{2.5f}));
    CHECK(tensor_named(found, "empty") == Tensor{{DType::F32, {0, 4}}, {}});
    CHECK(found[12].name == "layer/0.weight é");
    CHECK(found[12].tensor == Tensor::of<float>({2}, std::array{1.0f, -1.0f}));
  }
  CHECK(parse_npz(fixture("stored.npz"), "x")[13] ==
        NamedTensor{"columns",
                    Tensor::of<float>({2, 3}, std::array{0.f, 2.f, 4.f, 1.f, 3.f, 5.f})});
  CHECK(parse_npz(fixture("deflated.npz"), "x")[13] ==
        NamedTensor{"long", Tensor::of<int32_t>({1000}, std::array<int32_t, 1000>{})});
}

TEST_CASE("npz: what is wrong is named") {
  const std::string one = to_npz({{"a", test::some_tensor(DType::F32, {3})}});
  CHECK(message("") == "x.npz: expected a .npz file, a zip archive, which begins with PK");
  CHECK(message("\x93NUMPY") ==
        "x.npz: expected a .npz file, a zip archive, which begins with PK");
  CHECK(message(one.substr(0, 60)).starts_with("x.npz: is not a complete zip archive: "));
  CHECK(message(with(one, "a.npy", "a.txt")) ==
        "x.npz: member 'a.txt': expected only arrays, whose names end in .npy");
  const std::string two = to_npz(
      {{"a", test::some_tensor(DType::F32, {3})}, {"b", test::some_tensor(DType::F32, {3})}});
  CHECK(message(with(two, "b.npy", "a.npy")) == "x.npz: member 'a.npy': appears twice");
  CHECK(message(with_central(one, 10, 12)) ==
        "x.npz: member 'a.npy': expected to be stored or deflated, got compression method 12");
  CHECK(message(with_central(one, 8, 1)) == "x.npz: member 'a.npy': is encrypted");
  CHECK(message(with(one, "False", "Wrong")) ==
        "x.npz: member 'a.npy': cannot be read: CRC error");
  CHECK(message(with(one, "\x93NUMPY", "\x93NUMPX")) ==
        "x.npz: member 'a.npy': cannot be read: CRC error");
}

TEST_CASE("npz: arrays that a file cannot hold are refused") {
  const auto refused = [](const NamedTensors& tensors) {
    return error_text<ArgumentError>([&] { (void)to_npz(tensors); });
  };
  const Tensor x = test::some_tensor(DType::U8, {2});
  CHECK(refused({{"a", x}, {"a", x}}) == "two arrays are called 'a'");
  CHECK(refused({{std::string("a\0b", 3), x}}) ==
        "array 'a\\u0000b': expected a name without NUL bytes");
  CHECK(refused({{"a\xff", x}}) ==
        "array 'a\\xff' cannot be a member of a .npz file: Invalid argument");
  CHECK(refused({{"a", {.type = {DType::BF16, {}}, .data = {2, std::byte{}}}}}) ==
        "array 'a': .npy files cannot hold bf16: expected another dtype");
  CHECK(refused({{"a", {.type = {DType::F32, {2}}}}}) ==
        "array 'a': expected 8 bytes of f32[2], got 0");
}

TEST_CASE("npz: what inflates has a limit") {
  const std::string bytes = fixture("deflated.npz");
  CHECK(parse_npz(bytes, "x", 4096).size() == 14);
  CHECK(error_text<FormatError>([&] { (void)parse_npz(bytes, "x", 1000); }) ==
        fmt::format("x: the arrays have more than {} bytes", bytes.size() + 1000));
}

TEST_CASE("npz: 10,000 mutations of files are read or refused") {
  CHECK(test::refused_mutations(
            {fixture("stored.npz"), fixture("deflated.npz")}, "PK\1\2\3\4\5\6\xff ",
            [](const std::string& bytes) { return parse_npz(bytes, "x"); }) > 5000);
}
