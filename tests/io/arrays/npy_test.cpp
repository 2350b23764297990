#include "qtape/io/arrays/npy.h"

#include <doctest/doctest.h>

#include <cstring>
#include <numeric>

#include "qtape/core/byte_order.h"
#include "qtape/core/error.h"
#include "qtape/tests/support/array_files.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"

using namespace qtape;

namespace {

/// A file as NumPy writes it, with the given header text.
std::string file_of(std::string_view header, std::string_view data, int version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes += {static_cast<char>(version), '\0', static_cast<char>(header.size()), '\0'};
  if (version > 1) bytes += {'\0', '\0'};
  bytes += header;
  bytes += data;
  return bytes;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
std::string little_endian(const std::vector<int16_t>& x) {
  return text_of(LittleEndian(std::span(x)).bytes());
}

}  // namespace

TEST_CASE("npy: what is written is read again, for every dtype that NumPy has") {
  for (DType dtype : {DType::F32, DType::F64, DType::F16, DType::S64, DType::S32, DType::S16,
                      DType::U16, DType::S8, DType::U8}) {
    for (const Shape& shape :
         {Shape{}, Shape{7}, Shape{2, 3}, Shape{4, 0, 5}, Shape{1, 2, 3}}) {
      const Tensor tensor = test::some_tensor(dtype, shape);
      const std::string bytes = to_npy(tensor);
      CHECK(parse_npy(bytes, "x") == tensor);
      const size_t data = bytes.size() - tensor.data.size();
      CHECK(data % 64 == 0);
      CHECK(bytes[data - 1] == '\n');
    }
  }
  CHECK(test::error_text<ArgumentError>([] {
          to_npy({.type = {DType::BF16, {}}});
        }) == ".npy files cannot hold bf16: expected another dtype");
}

TEST_CASE("npy: the header is the one that NumPy writes") {
  const std::vector<float> x = {1, 2, 3};
  const std::string bytes = to_npy(Tensor::of<float>({3}, x));
  CHECK(bytes.substr(10, 56) == "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), ");
  CHECK(bytes.size() == 128 + 12);
}

TEST_CASE("npy: byte order, order of axes, quotes, versions and booleans are understood") {
  const std::vector<int16_t> x = {1, 2, 3, 4, 5, 6};
  const auto rows = Tensor::of<int16_t>({2, 3}, x);
  const std::string data = little_endian(x);
  for (int version : {1, 2, 3}) {
    CHECK(parse_npy(
              file_of("{'descr':'<i2','fortran_order':False,'shape':(2,3)}\n", data, version),
              "x") == rows);
  }
  CHECK(
      parse_npy(file_of("{\"shape\": (2L, 3L,), \"fortran_order\": False, \"descr\": \"=i2\",}",
                        text_of(std::as_bytes(std::span(x)))),
                "x") == rows);
  const std::vector<int16_t> columns = {1, 4, 2, 5, 3, 6};
  CHECK(parse_npy(file_of("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }",
                          little_endian(columns)),
                  "x") == rows);
  std::string swapped(data);
  for (size_t i = 0; i < swapped.size(); i += 2) std::swap(swapped[i], swapped[i + 1]);
  CHECK(
      parse_npy(file_of("{'descr': '>i2', 'fortran_order': False, 'shape': (2, 3), }", swapped),
                "x") == rows);
  const std::vector<int8_t> truths = {0, 1, 1};
  CHECK(parse_npy(file_of("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }",
                          std::string_view("\0\1\7", 3)),
                  "x") == Tensor::of<int8_t>({3}, truths));
}

TEST_CASE("npy: what is wrong is named") {
  const auto message = [](const std::string& bytes) {
    return test::error_text<FormatError>([&] { parse_npy(bytes, "x.npy"); });
  };
  const auto of_header = [&](std::string_view header) { return message(file_of(header, "")); };
  CHECK(message("") == "x.npy: expected a .npy file, which begins with \\x93NUMPY");
  CHECK(message("PK\3\4 an archive") ==
        "x.npy: expected a .npy file, which begins with \\x93NUMPY");
  CHECK(message("\x93NUM") == "x.npy: cut off: expected 8 bytes, got 4");
  CHECK(message(file_of("{}", "", 9)) == "x.npy: expected version 1, 2 or 3, got 9");
  CHECK(message(file_of("{}", "").substr(0, 11)) ==
        "x.npy: cut off: expected 12 bytes, got 11");
  CHECK(of_header("[]") == "x.npy: byte 0 of the header: expected '{', got '[]'");
  CHECK(of_header("{}") == "x.npy: byte 2 of the header: expected a key 'descr', got none");
  CHECK(
      of_header("{'descr': '<c8'}") ==
      "x.npy: byte 10 of the header: expected a dtype of floats or integers such as '<f4', got "
      "'<c8'");
  CHECK(of_header("{'descr': [('a', '<f4')]}") ==
        "x.npy: byte 10 of the header: expected a dtype such as '<f4', got a record dtype");
  CHECK(of_header("{'shape': (-1,)}") ==
        "x.npy: byte 11 of the header: expected an extent, got '-1,)}'");
  CHECK(of_header("{'shape': (1,), 'shape': (1,)}") ==
        "x.npy: byte 16 of the header: expected each key only once, got 'shape' again");
  CHECK(of_header("{'shape': (1,1,1,1,1,1,1,1,1)}").starts_with("x.npy: shape: "));
  CHECK(of_header("{'shape': (9223372036854775807, 9)}").starts_with("x.npy: shape: "));
  CHECK(of_header("{'fortran_order': 1}") ==
        "x.npy: byte 18 of the header: expected True or False, got '1}'");
  CHECK(
      of_header("{'size': 1}") ==
      "x.npy: byte 1 of the header: expected 'descr', 'fortran_order' or 'shape', got 'size'");
  CHECK(message(file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
                        "1234567")) == "x.npy: expected 8 bytes of f32[2], got 7");
  CHECK(test::error_text<IoError>([] {
          read_npy("/nowhere/x.npy");
        }).starts_with("/nowhere/x.npy: "));
}

TEST_CASE("npy: 10,000 mutations of a file are read or refused") {
  std::vector<float> x(60);
  std::iota(x.begin(), x.end(), 0.0f);
  const std::string whole = to_npy(Tensor::of<float>({3, 4, 5}, x));
  const auto parse = [](const std::string& bytes) {
    return NamedTensors{{"", parse_npy(bytes, "x")}};
  };
  CHECK(test::refused_mutations({whole}, "0123456789(),:'\" ", parse) > 5000);
}

TEST_CASE("npy: a file is replaced as a whole") {
  const test::Folder folder;
  const std::string path = folder.file("x.npy");
  const std::vector<int32_t> x = {1, 2, 3};
  write_npy(path, Tensor::of<int32_t>({3}, x));
  CHECK(read_npy(path) == Tensor::of<int32_t>({3}, x));
}
