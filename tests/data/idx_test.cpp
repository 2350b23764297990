// IDX files, valid and with every defect that the reader reports.
#include <doctest/doctest.h>
#include <fmt/core.h>
#include <zlib.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/data/files.h"
#include "qtape/io/files.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"

namespace {

using qtape::ArgumentError;
using qtape::FormatError;
using qtape::IoError;
using qtape::write_file;
using qtape::data::Dataset;
using qtape::data::idx;
using qtape::data::mnist;
using qtape::data::Split;
using qtape::test::Folder;

constexpr size_t gzip_header_size = 10;
constexpr size_t stored_block_header_size = 5;

void append_word(std::string& bytes, uint32_t word) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(word >> shift & 255);
}

/// Returns an IDX file: magic, extents, content.
std::string idx_file(uint32_t magic, const std::vector<uint32_t>& extents,
                     const std::vector<uint8_t>& content) {
  std::string bytes;
  append_word(bytes, magic);
  for (const uint32_t extent : extents) append_word(bytes, extent);
  bytes.append(content.begin(), content.end());
  return bytes;
}

/// Six images of 4x5 with increasing pixel values.
std::vector<uint8_t> six_images() {
  std::vector<uint8_t> pixels(size_t{6} * 4 * 5);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(2 * i);
  return pixels;
}

std::string images_bytes() { return idx_file(0x803, {6, 4, 5}, six_images()); }

std::string labels_bytes() { return idx_file(0x801, {6}, {3, 1, 4, 1, 5, 9}); }

/// Returns gzip without compression, so that tests know the position of each byte.
std::string gzipped(const std::string& bytes) {
  const Folder folder;
  const std::string path = folder.file("z");
  gzFile file = gzopen(path.c_str(), "wb0");
  REQUIRE(file != nullptr);
  REQUIRE(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) ==
          static_cast<int>(bytes.size()));
  REQUIRE(gzclose(file) == Z_OK);
  return qtape::read_file(path, 1 << 23);
}

/// A valid pair of files, of which a test then damages one.
struct Pair {
  Folder directory;
  std::string images = directory.file("images");
  std::string labels = directory.file("labels");

  Pair() {
    write_file(images, images_bytes());
    write_file(labels, labels_bytes());
  }
};

template <class E>
std::string error_of(const std::string& images, const std::string& labels,
                     int64_t classes = 10) {
  return qtape::test::error_text<E>([&] { (void)idx(images, labels, classes); });
}

/// Returns the error for a pair of which one file has other content, without its name.
std::string error_with(std::string Pair::*file, const std::string& content,
                       int64_t classes = 10) {
  const Pair pair;
  write_file(pair.*file, content);
  const std::string text = error_of<FormatError>(pair.images, pair.labels, classes);
  const std::string name = pair.*file + ": ";
  return text.starts_with(name) ? text.substr(name.size()) : text;
}
std::string of_images(const std::string& content) { return error_with(&Pair::images, content); }
std::string of_labels(const std::string& content, int64_t classes = 10) {
  return error_with(&Pair::labels, content, classes);
}

std::vector<uint8_t> pixels(const Dataset& set) {
  const auto values = set.values<uint8_t>("x");
  return {values.begin(), values.end()};
}

std::vector<int32_t> labels(const Dataset& set) {
  std::vector<int32_t> all(static_cast<size_t>(set.size()));
  for (size_t i = 0; i < all.size(); ++i) {
    set.read(set.column("labels"), static_cast<int64_t>(i), std::span(all).subspan(i, 1));
  }
  return all;
}

void check_six(const Dataset& set) {
  CHECK(set.columns()[0].sample.shape == qtape::Shape{4, 5});
  CHECK(set.classes() == 10);
  CHECK(set.size() == 6);
  CHECK(pixels(set) == six_images());
  CHECK(labels(set) == std::vector<int32_t>{3, 1, 4, 1, 5, 9});
}

void write_directory(const Folder& directory) {
  write_file(directory.file("train-images-idx3-ubyte"), images_bytes());
  write_file(directory.file("train-labels-idx1-ubyte.gz"), gzipped(labels_bytes()));
  write_file(directory.file("t10k-images-idx3-ubyte.gz"),
             gzipped(idx_file(0x803, {1, 4, 5}, std::vector<uint8_t>(20, 7))));
  write_file(directory.file("t10k-labels-idx1-ubyte"), idx_file(0x801, {1}, {8}));
}

std::string directory_error(const std::string& path) {
  return qtape::test::error_text<qtape::Error>([&] { (void)mnist(path); });
}

}  // namespace

TEST_CASE("dataset: plain and gzip files round trip, whatever their names") {
  const Pair pair;
  check_six(idx(pair.images, pair.labels));
  for (const std::string suffix : {"", ".gz"}) {
    CAPTURE(suffix);
    write_file(pair.images + suffix, gzipped(images_bytes()));
    write_file(pair.labels + suffix, gzipped(labels_bytes()));
    check_six(idx(pair.images + suffix, pair.labels + suffix));
  }
}

TEST_CASE("dataset: content of several read chunks round trips") {
  const Pair pair;
  std::vector<uint8_t> expected(size_t{3} * 1000 * 1000);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<uint8_t>(i * i >> 7);
  const std::string bytes = idx_file(0x803, {3, 1000, 1000}, expected);
  write_file(pair.labels, idx_file(0x801, {3}, {0, 1, 2}));
  for (const std::string& content : {bytes, gzipped(bytes)}) {
    write_file(pair.images, content);
    CHECK(pixels(idx(pair.images, pair.labels)) == expected);
  }
}

TEST_CASE("dataset: a missing file, and a directory in its place, are named with the reason") {
  const Pair pair;
  const std::string folder = pair.directory.path();
  const std::string nowhere = pair.directory.file("nowhere");
  const std::string expected = nowhere + ": cannot open: No such file or directory";
  CHECK(error_of<IoError>(nowhere, pair.labels) == expected);
  CHECK(error_of<IoError>(pair.images, nowhere) == expected);
  CHECK(error_of<IoError>(folder, pair.labels) == folder + ": cannot read: Is a directory");
}

TEST_CASE("dataset: truncated files are errors that count the bytes") {
  const std::string images = images_bytes(), labels = labels_bytes();
  CHECK(of_labels(labels.substr(0, 8 + 5)) == "truncated: expected 6 bytes of labels, got 5");
  CHECK(of_labels(labels.substr(0, 7)) == "truncated: expected 8 bytes of header, got 7");
  CHECK(of_images(images.substr(0, 16 + 119)) ==
        "truncated: expected 120 bytes of pixels, got 119");
  CHECK(of_images("") == "truncated: expected 16 bytes of header, got 0");
  const std::string zipped = gzipped(images);
  const size_t before_idx = gzip_header_size + stored_block_header_size;
  const auto cut = [&](size_t size) { return of_images(zipped.substr(0, size)); };
  const std::string text = "truncated gzip stream: expected ";
  CHECK(cut(zipped.size() - 1) == text + "a checksum after 136 bytes, got none");
  CHECK(cut(before_idx + 16 + 100) == text + "120 bytes of pixels, got 100");
  CHECK(cut(before_idx + 3) == text + "16 bytes of header, got 3");
  CHECK(cut(gzip_header_size) == text + "16 bytes of header, got 0");
}

TEST_CASE("dataset: every cut of a gzip file is an error") {
  const Pair pair;
  const std::string whole = gzipped(labels_bytes());
  for (size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    write_file(pair.labels, whole.substr(0, size));
    CHECK_THROWS_AS(idx(pair.images, pair.labels), FormatError);
  }
}

TEST_CASE("dataset: a corrupt gzip file is an error") {
  const std::string whole = gzipped(images_bytes());
  const size_t checksum = whole.size() - 8;
  const size_t length = whole.size() - 4;
  const size_t some_pixel = gzip_header_size + stored_block_header_size + 16 + 50;
  for (const size_t position : {checksum, length, some_pixel, gzip_header_size}) {
    CAPTURE(position);
    std::string flipped = whole;
    flipped[position] = static_cast<char>(flipped[position] ^ 0x55);
    CHECK(of_images(flipped) == "corrupt gzip stream: wrong data or checksum");
  }
}

TEST_CASE("dataset: wrong magic numbers, surplus bytes and other labels are errors") {
  const std::string images = images_bytes(), labels = labels_bytes();
  CHECK(of_images(labels) ==
        "wrong magic 0x00000801, expected 0x00000803 (IDX images of unsigned bytes)");
  CHECK(of_labels(images) ==
        "wrong magic 0x00000803, expected 0x00000801 (IDX labels of unsigned bytes)");
  const std::string surplus = "surplus bytes: expected the end after ";
  for (const auto stored : {+[](const std::string& bytes) { return bytes; }, gzipped}) {
    CHECK(of_images(stored(images + "x")) == surplus + "136 bytes, got more");
    CHECK(of_labels(stored(labels + "xyz")) == surplus + "14 bytes, got more");
  }
  CHECK(of_labels(idx_file(0x801, {6}, {3, 1, 4, 12, 5, 200})) ==
        "label 12 at index 3 is outside 0..9");
  CHECK(of_labels(labels, 9) == "label 9 at index 5 is outside 0..8");
  CHECK(of_labels(labels, 256) == "no error");
}

TEST_CASE("dataset: counts of images, labels and classes that cannot be are errors") {
  const Pair pair;
  CHECK(idx(pair.images, pair.labels, 256).classes() == 256);
  CHECK(idx(pair.images, pair.labels, 0).classes() == 10);  // its largest label is 9
  CHECK(error_of<ArgumentError>(pair.images, pair.labels, -1) ==
        "idx: expected classes within 0..256, got -1");
  CHECK(error_of<ArgumentError>(pair.images, pair.labels, 257) ==
        "idx: expected classes within 0..256, got 257");
  write_file(pair.labels, idx_file(0x801, {5}, {3, 1, 4, 1, 5}));
  CHECK(error_of<FormatError>(pair.images, pair.labels) ==
        fmt::format("{}: expected 6 labels, one for each image in {}, got 5", pair.labels,
                    pair.images));
}

TEST_CASE("dataset: zero and absurd extents are errors") {
  const std::pair<std::vector<uint32_t>, const char*> rows[] = {
      {{0, 4, 5}, "image count 0 is outside 1..100000000"},
      {{100000001, 4, 5}, "image count 100000001 is outside 1..100000000"},
      {{0xffffffff, 4, 5}, "image count 4294967295 is outside 1..100000000"},
      {{6, 0, 5}, "row count 0 is outside 1..4096"},
      {{6, 4097, 5}, "row count 4097 is outside 1..4096"},
      {{6, 4, 0}, "column count 0 is outside 1..4096"},
      {{6, 4, 0x80000000}, "column count 2147483648 is outside 1..4096"}};
  for (const auto& [extents, text] : rows) {
    CHECK(of_images(idx_file(0x803, extents, six_images())) == text);
  }
  CHECK(of_labels(idx_file(0x801, {0}, {})) == "label count 0 is outside 1..100000000");
  // A tiny file that claims petabytes is truncated, not allocated.
  const Pair pair;
  write_file(pair.images, idx_file(0x803, {100000000, 4096, 4096}, six_images()));
  write_file(pair.labels, idx_file(0x801, {100000000}, {1}));
  CHECK(error_of<FormatError>(pair.images, pair.labels) ==
        pair.images + ": truncated: expected 1677721600000000 bytes of pixels, got 120");
}

TEST_CASE("dataset: a directory is read by the four standard names, plain or gzip") {
  const Folder directory;
  write_directory(directory);
  const Split split = mnist(directory.path());
  check_six(split.train);
  CHECK(pixels(split.test) == std::vector<uint8_t>(20, 7));
  CHECK(labels(split.test) == std::vector<int32_t>{8});
}

TEST_CASE("dataset: a directory that lacks a file is an error that names it") {
  for (const std::string name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                 "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}) {
    const Folder directory;
    write_directory(directory);
    std::filesystem::remove(directory.file(name));
    std::filesystem::remove(directory.file(name + ".gz"));
    CHECK(directory_error(directory.path()) ==
          directory.file(name) + ": not found, neither plain nor with .gz");
  }
}

TEST_CASE("dataset: training and test images of different size are an error") {
  const Folder directory;
  write_directory(directory);
  write_file(directory.file("t10k-images-idx3-ubyte.gz"),
             gzipped(idx_file(0x803, {1, 1, 2}, {5, 6})));
  CHECK(directory_error(directory.path()) ==
        directory.path() + ": expected t10k images of 4x5 as in train, got 1x2");
}
