// Data of ONNX models in other files, and arrays for their inputs.
#include <filesystem>

#include "qtape/core/byte_order.h"
#include "qtape/data/files.h"
#include "qtape/io/arrays/arrays.h"
#include "qtape/io/files.h"
#include "qtape/programs/output_files.h"
#include "qtape/tests/onnx/onnx_model.h"
#include "qtape/tests/support/folder.h"

using namespace qtape;
using namespace qtape::test::onnx_models;

namespace {

struct DataPlace {
  const char* location = "w.data";
  const char* offset = "8";
  const char* length = "16";
};

/// Returns a matrix [4, 1] whose data are in another file.
onnx::TensorProto stored_at(const DataPlace& place, const Extents& extents = {4, 1}) {
  onnx::TensorProto tensor = floats(extents, {});
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  const auto add = [&](const char* key, const char* value) {
    auto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  };
  add("location", place.location);
  if (*place.offset != '\0') add("offset", place.offset);
  if (*place.length != '\0') add("length", place.length);
  return tensor;
}

OnnxModel model_with(const DataPlace& place) {
  return OnnxModel({1, 4}).constant("w", stored_at(place)).node("MatMul", {"x", "w"});
}

/// A folder with a model, and with 24 bytes of data whose last four floats are 1, 2, 3 and 4.
struct Files {
  test::Folder folder;
  std::string model = folder.file("m.onnx");

  Files() {
    const std::vector<float> numbers = {8, 9, 1, 2, 3, 4};
    const LittleEndian data{std::span(numbers)};
    write_file(folder.file("w.data"),
               {reinterpret_cast<const char*>(data.bytes().data()), data.bytes().size()});
  }

  Tensor weights(const OnnxModel& made) const {
    write_file(model, made.bytes());
    return import_onnx(model).parameters.get("w");
  }
  std::string error(const OnnxModel& made) const {
    write_file(model, made.bytes());
    const std::string text = test::error_text<FormatError>([&] { (void)import_onnx(model); });
    REQUIRE(text.starts_with(model + ": "));
    return text.substr(model.size() + 2);
  }
};

}  // namespace

TEST_CASE("onnx: data in another file are read from the folder of the model") {
  const Files files;
  const Tensor wanted = Tensor::of<float>({1, 4}, std::vector<float>{1, 2, 3, 4});
  std::filesystem::create_directory(files.folder.file("sub"));
  std::filesystem::copy(files.folder.file("w.data"), files.folder.file("sub/w.data"));
  for (const DataPlace& place :
       {DataPlace{}, DataPlace{.location = "./w.data"}, DataPlace{.location = "sub/w.data"},
        DataPlace{.length = ""}}) {
    CHECK(files.weights(model_with(place)) == wanted);
  }
  CHECK(files.weights(OnnxModel({1, 4})
                          .node("Constant", {}, {"w"})
                          .with("value", stored_at({}))
                          .node("MatMul", {"x", "w"})) == wanted);
}

TEST_CASE("onnx: an import tells the data files that it read, which no output may replace") {
  const Files files;
  write_file(files.model, model_with({}).bytes());
  std::vector<std::string> read;
  (void)import_onnx(files.model, nullptr, {.data_files = &read});
  const std::string data = files.folder.file("w.data");
  CHECK(read == std::vector<std::string>{data});
  for (const char* option : {"--output", "--json"}) {
    programs::OutputFiles outputs;
    outputs.expect_unread(option, data);
    const std::string text =
        test::error_text<ArgumentError>([&] { outputs.found_to_read(read); });
    CHECK(text == fmt::format("{}: {} is the file to read", option, data));
  }
}

TEST_CASE("onnx: data files outside of the folder, links and wrong ranges are refused") {
  const Files files;
  std::filesystem::create_symlink("w.data", files.folder.file("link"));
  std::filesystem::create_directory(files.folder.file("sub"));
  std::filesystem::create_directory_symlink("sub", files.folder.file("way"));
  const std::string tensor = "tensor 'w': data file ";
  const std::pair<DataPlace, std::string> rows[] = {
      {{.location = ""}, "'': expected the name of a file"},
      {{.location = "sub/"}, "'sub/': expected the name of a file"},
      {{.location = "/etc/passwd"},
       "'/etc/passwd': expected a path relative to the folder of the model"},
      {{.location = "../w.data"}, "'../w.data' would leave the folder of the model"},
      {{.location = "sub/../w.data"}, "'sub/../w.data' would leave the folder of the model"},
      {{.location = "link"},
       "'link' is a link: copy the file itself into the folder of the model"},
      {{.location = "way/w.data"},
       "'way/w.data' is a link: copy the file itself into the folder of the model"},
      {{.location = "sub"}, "'sub' is not a regular file"},
      {{.location = "none"}, "'none': cannot open: No such file or directory"},
      {{.offset = "-8"}, "'w.data': offset must be a number of bytes, got '-8'"},
      {{.offset = "8x"}, "'w.data': offset must be a number of bytes, got '8x'"},
      {{.offset = "99999999999999999999"},
       "'w.data': offset must be a number of bytes, got '99999999999999999999'"},
      {{.length = "-16"}, "'w.data': length must be a number of bytes, got '-16'"},
      {{.length = "12"}, "'w.data': expected 16 bytes for the shape, got 12"},
      {{.offset = "9"}, "'w.data' has 24 bytes, expected 16 from byte 9 on"},
      {{.offset = "9223372036854775807"},
       "'w.data' has 24 bytes, expected 16 from byte 9223372036854775807 on"}};
  for (const auto& [place, text] : rows) CHECK(files.error(model_with(place)) == tensor + text);
}

TEST_CASE("onnx: tensors may share data, but their ranges must not overlap") {
  const Files files;
  const auto two = [](const char* offset) {
    return OnnxModel({1, 4})
        .constant("w", stored_at({}))
        .constant("v", stored_at({.offset = offset}))
        .node("MatMul", {"x", "w"}, {"a"})
        .node("MatMul", {"x", "v"}, {"b"})
        .node("Add", {"a", "b"});
  };
  CHECK(files.weights(two("8")).type.shape == Shape{1, 4});
  CHECK(
      files.error(two("4")) ==
      "tensor 'v': data file 'w.data': bytes 4 to 20 overlap bytes 8 to 24 of another tensor");
}

TEST_CASE("onnx: a missing data file is told once, with the tensors that need it") {
  const Files files;
  OnnxModel model({1, 4});
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    const DataPlace place{.location = "none", .offset = "", .length = ""};
    model.constant(name, stored_at(place, {4, 4})).then("MatMul", {name});
  }
  CHECK(
      files.error(model.then("Foo")) ==
      "6 problems: tensors 'a', 'b', 'c' and 2 others: data file 'none': cannot open: No such file or directory; node 'the Foo' (Foo): the operator is not supported: replace it with operators listed in docs/limits.md");
}

TEST_CASE("data: arrays with the channels first become channels last where only so they fit") {
  const test::Folder folder;
  const std::string path = folder.file("x.npz");
  std::vector<float> numbers(24);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  const Tensor x = Tensor::of<float>({2, 2, 2, 3}, numbers);
  const Tensor z = Tensor::of<float>({2, 4}, std::vector<float>(8, 1));
  write_arrays(path, {{"z", z}, {"x", x}, {"other", z}});
  const std::vector<data::WantedInput> wanted = {{"x", {2, 3, 2}}, {"z", {4}}};
  const auto first_of = [&](const std::vector<data::WantedInput>& inputs,
                            data::ChannelOrder order) {
    const data::Dataset set = data::arrays(path, {}, inputs, order);
    const auto values = set.values<float>("x").first(12);
    return std::vector<float>(values.begin(), values.end());
  };
  const std::vector<float> moved = {0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11};
  const std::vector<float> kept(numbers.begin(), numbers.begin() + 12);
  CHECK(first_of(wanted, data::ChannelOrder::Detect) == moved);
  CHECK(first_of(wanted, data::ChannelOrder::Last) == kept);
  CHECK(first_of({{"x", {2, 2, 3}}, {"z", {4}}}, data::ChannelOrder::Detect) == kept);
  CHECK(
      test::error_text<ArgumentError>([&] {
        (void)first_of({{"x", {2, 2, 3}}, {"z", {4}}}, data::ChannelOrder::First);
      }) ==
      path +
          ":x: samples [2, 2, 3] fit only with channels last: --channels First must hold for all arrays");
  CHECK(data::arrays(path, {}, wanted).columns().size() == 2);
  CHECK(test::error_text<ArgumentError>([&] {
          (void)data::arrays(path, {}, {{"x", {2, 3, 2}}, {"y", {4}}});
        }) == path + ": expected an array for each input, got none for 'y'");
}
