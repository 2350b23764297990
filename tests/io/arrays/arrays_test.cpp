#include "qtape/io/arrays/arrays.h"

#include <doctest/doctest.h>

#include "qtape/core/error.h"
#include "qtape/io/arrays/npy.h"
#include "qtape/io/files.h"
#include "qtape/tests/support/array_files.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"

using namespace qtape;
using test::error_text;

namespace {

const Tensor x = test::some_tensor(DType::F32, {2, 3});
const Tensor y = test::some_tensor(DType::U8, {2});

}  // namespace

TEST_CASE("arrays: each format by the end of the name, read by its content") {
  const test::Folder folder;
  for (const char* name : {"a.npz", "a.safetensors"}) {
    const std::string path = folder.file(name);
    write_arrays(path, {{"x", x}, {"y", y}});
    CHECK(read_arrays(path) == NamedTensors{{"x", x}, {"y", y}});
  }
  write_arrays(folder.file("a.npy"), {{"x", x}});
  CHECK(read_arrays(folder.file("a.npy")) == NamedTensors{{"", x}});
  write_file(folder.file("npz"), to_array_file("a.npz", {{"x", x}}));
  CHECK(read_arrays(folder.file("npz")) == NamedTensors{{"x", x}});
  write_file(folder.file("npy"), to_npy(x));
  CHECK(read_arrays(folder.file("npy")) == NamedTensors{{"", x}});
}

TEST_CASE("arrays: files of other kinds are refused") {
  const test::Folder folder;
  const std::string text = folder.file("a.txt");
  write_file(text, "text");
  CHECK(error_text<FormatError>([&] { (void)read_arrays(text); }) ==
        text + ": expected a .npy, .npz or .safetensors file");
  const std::string archive = folder.file("a.npz");
  write_file(archive, "text");
  CHECK(error_text<FormatError>([&] { (void)read_arrays(archive); }) ==
        archive + ": expected a .npz file, a zip archive, which begins with PK");
  CHECK(error_text<ArgumentError>([&] {
          write_arrays(text, {{"x", x}});
        }) == text + ": expected a name that ends in .npy, .npz or .safetensors");
  CHECK(read_file(text, 10) == "text");
  CHECK(error_text<ArgumentError>([&] {
          (void)to_array_file("a.npy", {{"x", x}, {"y", y}});
        }) == "a.npy: a .npy file holds one array, got 2");
  CHECK(error_text<ArgumentError>([&] {
          (void)to_array_file("a.npz", {{"x", x}, {"x", y}});
        }) == "a.npz: two arrays are called 'x'");
}

TEST_CASE("arrays: one of a file, by its name where there are several") {
  const test::Folder folder;
  const std::string one = folder.file("one.npz");
  write_arrays(one, {{"x", x}});
  CHECK(read_array(one) == x);
  CHECK(read_array(one + ":x") == x);
  const std::string two = folder.file("two.safetensors");
  write_arrays(two, {{"images", x}, {"labels:0", y}});
  CHECK(read_array(two + ":images") == x);
  CHECK(read_array(two + ":labels:0") == y);
  const auto message = [](const std::string& place) {
    return error_text<ArgumentError>([&] { (void)read_array(place); });
  };
  CHECK(message(two) ==
        two + ": expected one array, or FILE:NAME to select one; got 2: 'images', 'labels:0'");
  CHECK(message(two + ":image") == two +
                                       ": no array is named 'image', expected one of 'images', "
                                       "'labels:0'; the nearest are 'images', 'labels:0'");
  write_arrays(folder.file("one.npy"), {{"x", x}});
  CHECK(message(folder.file("one.npy:x")) ==
        folder.file("one.npy") + ": the file holds one array without a name: leave out ':x'");
  write_arrays(folder.file("none.npz"), {});
  CHECK(message(folder.file("none.npz")) ==
        folder.file("none.npz") +
            ": expected one array, or FILE:NAME to select one; got 0: none");
  CHECK(message(folder.file("none.npz:x")) ==
        folder.file("none.npz") + ": no array is named 'x', expected one of none");
  CHECK(error_text<IoError>([] {
          (void)read_array("/nowhere/x.npz:a");
        }).starts_with("/nowhere/x.npz:a: cannot open: "));
}

TEST_CASE("arrays: a file whose name has a colon is the file") {
  const test::Folder folder;
  write_arrays(folder.file("a.npz"), {{"b.npz", x}});
  CHECK(read_array(folder.file("a.npz:b.npz")) == x);
  write_arrays(folder.file("a.npz:b.npz"), {{"c", y}});
  CHECK(read_array(folder.file("a.npz:b.npz")) == y);
  CHECK(read_array(folder.file("a.npz:b.npz:c")) == y);
}

TEST_CASE("arrays: messages list 16 names") {
  NamedTensors tensors;
  for (int i = 0; i < 20; ++i) tensors.push_back({fmt::format("a{:02}", i), y});
  CHECK(names_of(tensors).ends_with("'a14', 'a15', ... 20 in all"));
  CHECK(tensor_named(tensors, "a17") == y);
}
