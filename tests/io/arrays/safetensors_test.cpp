#include "qtape/io/arrays/safetensors.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "qtape/core/error.h"
#include "qtape/io/files.h"
#include "qtape/tests/support/array_files.h"
#include "qtape/tests/support/errors.h"

using namespace qtape;
using test::error_text;

namespace {

std::vector<DType> every_dtype() {
  std::vector<DType> dtypes;
  for (size_t i = 0; i < enum_names<DType>.size(); ++i) {
    dtypes.push_back(static_cast<DType>(i));
  }
  return dtypes;
}

std::string fixture(const std::string& name) {
  return read_file(fmt::format("{}/arrays/{}", QTAPE_TEST_DATA, name), 1 << 20);
}

/// A file with the given header and data.
std::string file_of(std::string_view header, std::string_view data = "") {
  std::string bytes;
  for (size_t i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return bytes.append(header).append(data);
}

std::string message(const std::string& bytes) {
  return error_text<FormatError>([&] { (void)parse_safetensors(bytes, "x"); });
}

}  // namespace

TEST_CASE("safetensors: what is written is read again, for every dtype") {
  NamedTensors tensors = test::some_tensors(every_dtype());
  const std::string bytes = to_safetensors(tensors);
  CHECK(to_safetensors(tensors) == bytes);
  CHECK((8 + static_cast<uint8_t>(bytes[0])) % 8 == 0);
  NamedTensors found = parse_safetensors(bytes, "x");
  std::ranges::sort(tensors, {}, &NamedTensor::name);
  std::ranges::sort(found, {}, &NamedTensor::name);
  CHECK(found == tensors);
  CHECK(to_safetensors({}) == file_of("{}      "));
  CHECK(parse_safetensors(to_safetensors({}), "x").empty());
}

TEST_CASE("safetensors: the same bytes as the reference implementation writes") {
  const std::string bytes = fixture("numpy.safetensors");
  const NamedTensors found = parse_safetensors(bytes, "x");
  CHECK(found.size() == 12);
  CHECK(to_safetensors(found) == bytes);
  CHECK(tensor_named(found, "float32") ==
        Tensor::of<float>({2, 3}, std::array{0.f, 1.f, 2.f, 3.f, 4.f, 5.f}));
  CHECK(tensor_named(found, "scalar") == Tensor::of<float>({}, std::array{2.5f}));
  CHECK(tensor_named(found, "empty") == Tensor{{DType::F32, {0, 4}}, {}});
  CHECK(tensor_named(found, "layer/0.weight é") ==
        Tensor::of<float>({2}, std::array{1.0f, -1.0f}));
}

TEST_CASE("safetensors: bf16, truths and metadata, as PyTorch writes them") {
  const NamedTensors found = parse_safetensors(fixture("torch.safetensors"), "x");
  REQUIRE(found.size() == 3);
  CHECK(tensor_named(found, "bias") == Tensor::of<float>({3}, std::array{1.f, 1.f, 1.f}));
  CHECK(tensor_named(found, "bool") == Tensor::of<int8_t>({3}, std::array<int8_t, 3>{1, 0, 1}));
  const std::array<BHalf, 6> halves = {{{0}, {0x3f80}, {0x4000}, {0x4040}, {0x4080}, {0x40a0}}};
  CHECK(tensor_named(found, "bfloat16") == Tensor::of<BHalf>({2, 3}, halves));
}

TEST_CASE("safetensors: what is wrong is named") {
  CHECK(message("1234567") == "x: cut off: expected 8 bytes, got 7");
  CHECK(message("some text") ==
        "x: expected a safetensors file, whose header has at most 100000000 bytes, got "
        "8675467939688574835");
  CHECK(message(file_of("{}").substr(0, 9)) == "x: cut off: expected 2 bytes of header, got 1");
  CHECK(message(file_of("[]")) ==
        "x: expected a safetensors file, whose header begins with '{'");
  CHECK(message(file_of("{")) == "x: /: is not JSON: unexpected or missing text at byte 2");
  CHECK(message(file_of("{}", "1")) == "x: expected 0 bytes of data, got 1");
  CHECK(message(file_of(R"({"a": 1})")) ==
        "x: /a: expected an object with dtype, shape and data_offsets, got 1");
  CHECK(message(file_of(R"({"a": {}, "a": {}})")) == "x: /a: the object has this key twice");
  CHECK(message(file_of(R"({"__metadata__": {"a": 1}})")) ==
        "x: /__metadata__/a: expected a string, got 1");
  const auto tensor = [](std::string_view dtype, std::string_view shape,
                         std::string_view offsets, std::string_view data) {
    return message(file_of(fmt::format(R"({{"a":{{"dtype":{},"shape":{},"data_offsets":{}}}}})",
                                       dtype, shape, offsets),
                           data));
  };
  CHECK(tensor(R"("F8_E4M3")", "[1]", "[0,1]", "1") ==
        "x: /a/dtype: expected one of I64, F64, F32, I32, BF16, F16, U16, I16, I8, U8, BOOL, "
        "got \"F8_E4M3\"");
  CHECK(tensor(R"("F32")", "[-1]", "[0,4]", "1234") ==
        "x: /a/shape: extent -1 of shape [-1] is negative");
  CHECK(tensor(R"("F32")", "[4294967296,4294967296]", "[0,0]", "") ==
        "x: /a/shape: shape [4294967296, 4294967296] has more than 2^48 elements");
  CHECK(tensor(R"("F32")", "[1]", "[0]", "1234") ==
        "x: /a/data_offsets: expected two offsets, got an array");
  CHECK(tensor(R"("F32")", "[1]", "[1,5]", "12345") ==
        "x: tensor 'a': expected data from byte 0 on, got 1");
  CHECK(tensor(R"("F32")", "[2]", "[0,4]", "1234") ==
        "x: tensor 'a': expected 8 bytes of f32[2], got offsets 0 to 4");
  CHECK(tensor(R"("F32")", "[1]", "[0,-9223372036854775808]", "1234") ==
        "x: tensor 'a': expected 4 bytes of f32[1], got offsets 0 to -9223372036854775808");
  CHECK(tensor(R"("F32")", "[1]", "[0,4]", "123") == "x: expected 4 bytes of data, got 3");
  const auto second = [](std::string_view offsets) {
    return message(
        file_of(fmt::format(R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":[0,4]}},)"
                            R"("b":{{"dtype":"U8","shape":[2],"data_offsets":{}}}}})",
                            offsets),
                "123456"));
  };
  CHECK(second("[4,6]") == "no error");
  CHECK(second("[2,4]") == "x: tensor 'b': expected data from byte 4 on, got 2");
  CHECK(second("[5,7]") == "x: tensor 'b': expected data from byte 4 on, got 5");
}

TEST_CASE("safetensors: arrays that a file cannot hold are refused") {
  const auto refused = [](const NamedTensors& tensors) {
    return error_text<ArgumentError>([&] { (void)to_safetensors(tensors); });
  };
  const Tensor x = test::some_tensor(DType::U8, {2});
  CHECK(refused({{"a", x}, {"a", x}}) == "two arrays are called 'a'");
  CHECK(refused({{"__metadata__", x}}) ==
        "array '__metadata__': this name is reserved in safetensors files");
  CHECK(refused({{"a\xff", x}}) == "array 'a\\xff': expected a name in UTF-8");
}

TEST_CASE("safetensors: 10,000 mutations of files are read or refused") {
  CHECK(test::refused_mutations(
            {fixture("numpy.safetensors"), fixture("torch.safetensors")}, "0123456789,:\"[]{} ",
            [](const std::string& bytes) { return parse_safetensors(bytes, "x"); }) > 5000);
}
