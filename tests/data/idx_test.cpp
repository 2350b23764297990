// IDX files, valid and with every defect that the reader reports.
#include <doctest/doctest.h>
#include <fmt/core.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/data/files.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"

namespace {

using qtape::ArgumentError;
using qtape::FormatError;
using qtape::IoError;
using qtape::data::Dataset;
using qtape::data::idx;
using qtape::data::mnist;
using qtape::data::Split;
using qtape::test::Folder;

constexpr int64_t gzip_header_size = 10;
constexpr int64_t stored_block_header_size = 5;

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

void write_plain(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  REQUIRE(out.good());
}

/// Writes gzip without compression, so that tests know the position of each byte.
void write_gzip(const std::string& path, const std::string& bytes) {
  gzFile file = gzopen(path.c_str(), "wb0");
  REQUIRE(file != nullptr);
  REQUIRE(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) ==
          static_cast<int>(bytes.size()));
  REQUIRE(gzclose(file) == Z_OK);
}

int64_t size_of(const std::string& path) {
  return static_cast<int64_t>(std::filesystem::file_size(path));
}

void truncate(const std::string& path, int64_t size) {
  std::filesystem::resize_file(path, static_cast<uintmax_t>(size));
}

void flip_byte(const std::string& path, int64_t position) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(position);
  const int byte = file.get();
  file.seekp(position);
  file.put(static_cast<char>(byte ^ 0x55));
  REQUIRE(file.good());
}

/// A valid pair of files, of which a test then damages one.
struct Pair {
  Folder directory;
  std::string images = directory.file("images");
  std::string labels = directory.file("labels");

  Pair() {
    write_plain(images, images_bytes());
    write_plain(labels, labels_bytes());
  }
};

template <class E>
std::string error_of(const std::string& images, const std::string& labels,
                     int64_t classes = 10) {
  return qtape::test::error_text<E>([&] { (void)idx(images, labels, classes); });
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
  write_plain(directory.file("train-images-idx3-ubyte"), images_bytes());
  write_gzip(directory.file("train-labels-idx1-ubyte.gz"), labels_bytes());
  write_gzip(directory.file("t10k-images-idx3-ubyte.gz"),
             idx_file(0x803, {1, 4, 5}, {}) + std::string(20, '\7'));
  write_plain(directory.file("t10k-labels-idx1-ubyte"), idx_file(0x801, {1}, {8}));
}

std::string directory_error(const std::string& path) {
  return qtape::test::error_text<qtape::Error>([&] { (void)mnist(path); });
}

}  // namespace

TEST_CASE("dataset: plain files round trip") {
  const Pair pair;
  check_six(idx(pair.images, pair.labels));
}

TEST_CASE("dataset: gzip files round trip, whatever their names") {
  const Folder directory;
  for (const std::string suffix : {"", ".gz"}) {
    CAPTURE(suffix);
    write_gzip(directory.file("images" + suffix), images_bytes());
    write_gzip(directory.file("labels" + suffix), labels_bytes());
    check_six(idx(directory.file("images" + suffix), directory.file("labels" + suffix)));
  }
}

TEST_CASE("dataset: content of several read chunks round trips") {
  const Pair pair;
  std::vector<uint8_t> expected(size_t{3} * 1000 * 1000);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<uint8_t>(i * i >> 7);
  const std::string bytes = idx_file(0x803, {3, 1000, 1000}, expected);
  write_plain(pair.labels, idx_file(0x801, {3}, {0, 1, 2}));
  write_plain(pair.images, bytes);
  CHECK(pixels(idx(pair.images, pair.labels)) == expected);
  write_gzip(pair.images, bytes);
  CHECK(pixels(idx(pair.images, pair.labels)) == expected);
}

TEST_CASE("dataset: a missing file is an error that names the file and the reason") {
  const Pair pair;
  const std::string nowhere = pair.directory.file("nowhere");
  const std::string expected = nowhere + ": cannot open: No such file or directory";
  CHECK(error_of<IoError>(nowhere, pair.labels) == expected);
  CHECK(error_of<IoError>(pair.images, nowhere) == expected);
}

TEST_CASE("dataset: a directory in place of a file is an error") {
  const Pair pair;
  CHECK(error_of<IoError>(pair.directory.path(), pair.labels) ==
        pair.directory.path() + ": cannot read: Is a directory");
}

TEST_CASE("dataset: truncated plain files are errors that count the bytes") {
  const Pair pair;
  truncate(pair.labels, 8 + 5);
  CHECK(error_of<FormatError>(pair.images, pair.labels) ==
        pair.labels + ": truncated: expected 6 bytes of labels, got 5");
  truncate(pair.labels, 7);
  CHECK(error_of<FormatError>(pair.images, pair.labels) ==
        pair.labels + ": truncated: expected 8 bytes of header, got 7");
  truncate(pair.images, 16 + 119);
  write_plain(pair.labels, labels_bytes());
  CHECK(error_of<FormatError>(pair.images, pair.labels) ==
        pair.images + ": truncated: expected 120 bytes of pixels, got 119");
  truncate(pair.images, 0);
  CHECK(error_of<FormatError>(pair.images, pair.labels) ==
        pair.images + ": truncated: expected 16 bytes of header, got 0");
}

TEST_CASE("dataset: truncated gzip is an error that names the file") {
  const Pair pair;
  const int64_t before_idx = gzip_header_size + stored_block_header_size;
  write_gzip(pair.images, images_bytes());
  truncate(pair.images, size_of(pair.images) - 1);
  CHECK(error_of<FormatError>(pair.images, pair.labels) ==
        pair.images + ": truncated gzip stream: expected a checksum after 136 bytes, got none");
  truncate(pair.images, before_idx + 16 + 100);
  CHECK(error_of<FormatError>(pair.images, pair.labels) ==
        pair.images + ": truncated gzip stream: expected 120 bytes of pixels, got 100");
  truncate(pair.images, before_idx + 3);
  CHECK(error_of<FormatError>(pair.images, pair.labels) ==
        pair.images + ": truncated gzip stream: expected 16 bytes of header, got 3");
  truncate(pair.images, gzip_header_size);
  CHECK(error_of<FormatError>(pair.images, pair.labels) ==
        pair.images + ": truncated gzip stream: expected 16 bytes of header, got 0");
}

TEST_CASE("dataset: every cut of a gzip file is an error") {
  const Pair pair;
  write_gzip(pair.labels, labels_bytes());
  for (int64_t size = size_of(pair.labels) - 1; size >= 0; --size) {
    CAPTURE(size);
    truncate(pair.labels, size);
    CHECK_THROWS_AS(idx(pair.images, pair.labels), FormatError);
  }
}

TEST_CASE("dataset: a corrupt gzip file is an error") {
  const Pair pair;
  const std::string expected = pair.images + ": corrupt gzip stream: wrong data or checksum";
  write_gzip(pair.images, images_bytes());
  const int64_t size = size_of(pair.images);
  const int64_t checksum = size - 8;
  const int64_t length = size - 4;
  const int64_t some_pixel = gzip_header_size + stored_block_header_size + 16 + 50;
  for (const int64_t position : {checksum, length, some_pixel, gzip_header_size}) {
    CAPTURE(position);
    write_gzip(pair.images, images_bytes());
    flip_byte(pair.images, position);
    CHECK(error_of<FormatError>(pair.images, pair.labels) == expected);
  }
}

TEST_CASE("dataset: a wrong magic number is an error that tells which was expected") {
  const Pair pair;
  CHECK(error_of<FormatError>(pair.labels, pair.labels) ==
        pair.labels +
            ": wrong magic 0x00000801, expected 0x00000803 (IDX images of unsigned bytes)");
  CHECK(error_of<FormatError>(pair.images, pair.images) ==
        pair.images +
            ": wrong magic 0x00000803, expected 0x00000801 (IDX labels of unsigned bytes)");
}

TEST_CASE("dataset: surplus bytes are an error, plain and gzip") {
  const Pair pair;
  for (const auto write : {write_plain, write_gzip}) {
    write(pair.images, images_bytes() + "x");
    CHECK(error_of<FormatError>(pair.images, pair.labels) ==
          pair.images + ": surplus bytes: expected the end after 136 bytes, got more");
    write(pair.images, images_bytes());
    write(pair.labels, labels_bytes() + "xyz");
    CHECK(error_of<FormatError>(pair.images, pair.labels) ==
          pair.labels + ": surplus bytes: expected the end after 14 bytes, got more");
    write(pair.labels, labels_bytes());
  }
}

TEST_CASE("dataset: image and label counts that differ are an error") {
  const Pair pair;
  write_plain(pair.labels, idx_file(0x801, {5}, {3, 1, 4, 1, 5}));
  CHECK(error_of<FormatError>(pair.images, pair.labels) ==
        fmt::format("{}: expected 6 labels, one for each image in {}, got 5", pair.labels,
                    pair.images));
}

TEST_CASE("dataset: a label outside the classes is an error that names its index") {
  const Pair pair;
  write_plain(pair.labels, idx_file(0x801, {6}, {3, 1, 4, 12, 5, 200}));
  CHECK(error_of<FormatError>(pair.images, pair.labels) ==
        pair.labels + ": label 12 at index 3 is outside 0..9");
  write_plain(pair.labels, labels_bytes());
  CHECK(error_of<FormatError>(pair.images, pair.labels, 9) ==
        pair.labels + ": label 9 at index 5 is outside 0..8");
  CHECK(idx(pair.images, pair.labels, 256).classes() == 256);
}

TEST_CASE("dataset: a class count outside 1 to 256 is an error") {
  const Pair pair;
  CHECK(error_of<ArgumentError>(pair.images, pair.labels, 0) ==
        "idx: expected classes within 1..256, got 0");
  CHECK(error_of<ArgumentError>(pair.images, pair.labels, 257) ==
        "idx: expected classes within 1..256, got 257");
}

TEST_CASE("dataset: zero and absurd extents are errors") {
  struct Case {
    std::vector<uint32_t> extents;
    std::string text;
  };
  const std::vector<Case> cases = {
      {{0, 4, 5}, "image count 0 is outside 1..100000000"},
      {{100000001, 4, 5}, "image count 100000001 is outside 1..100000000"},
      {{0xffffffff, 4, 5}, "image count 4294967295 is outside 1..100000000"},
      {{6, 0, 5}, "row count 0 is outside 1..4096"},
      {{6, 4097, 5}, "row count 4097 is outside 1..4096"},
      {{6, 4, 0}, "column count 0 is outside 1..4096"},
      {{6, 4, 0x80000000}, "column count 2147483648 is outside 1..4096"},
  };
  const Pair pair;
  for (const Case& wrong : cases) {
    write_plain(pair.images, idx_file(0x803, wrong.extents, six_images()));
    CHECK(error_of<FormatError>(pair.images, pair.labels) == pair.images + ": " + wrong.text);
  }
  write_plain(pair.images, images_bytes());
  write_plain(pair.labels, idx_file(0x801, {0}, {}));
  CHECK(error_of<FormatError>(pair.images, pair.labels) ==
        pair.labels + ": label count 0 is outside 1..100000000");
}

TEST_CASE("dataset: a tiny file that claims petabytes is truncated, not allocated") {
  const Pair pair;
  write_plain(pair.images, idx_file(0x803, {100000000, 4096, 4096}, six_images()));
  write_plain(pair.labels, idx_file(0x801, {100000000}, {1}));
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
  write_gzip(directory.file("t10k-images-idx3-ubyte.gz"), idx_file(0x803, {1, 1, 2}, {5, 6}));
  CHECK(directory_error(directory.path()) ==
        directory.path() + ": expected t10k images of 4x5 as in train, got 1x2");
}
