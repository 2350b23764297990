// Labelled 8-bit images and the reader of MNIST-format IDX files, plain or gzip.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace qtape::data {

/// Labelled grey images of one size.
struct Dataset {
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t classes = 0;
  /// u8[n, rows*cols], 0 to 255, image by image, row by row.
  std::vector<uint8_t> pixels = {};
  /// i32[n], each within 0..classes-1.
  std::vector<int32_t> labels = {};

  /// Number of images n.
  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  /// Pixels per image.
  int64_t features() const { return rows * cols; }
};

/// Images to learn from and images to be judged by, of equal size.
struct Split {
  Dataset train;
  Dataset test;
};

/// Reads an IDX pair: unsigned-byte images of magic 0x00000803 and labels of magic 0x00000801.
/// Both may be plain or gzip, whatever their names. Memory grows with the bytes that arrive,
/// not with what a header claims. As gzip(1) does, ignores bytes after the last gzip member.
///
/// Throws IoError (missing, unreadable), FormatError (wrong magic, extents outside 1..4096 or
/// count outside 1..100000000, truncated, corrupt, surplus bytes, counts that differ, labels
/// outside 0..classes-1) and ArgumentError unless classes is within 1..256.
Dataset read_idx(const std::string& images_path, const std::string& labels_path,
                 int64_t classes = 10);

/// Reads the four MNIST files {train,t10k}-images-idx3-ubyte and {train,t10k}-labels-idx1-ubyte
/// of `directory`, each plain or with `.gz` (plain is preferred), 10 classes.
///
/// Throws as read_idx does, IoError that names the first missing file, and FormatError when the
/// training and test images differ in size.
Split read_idx_directory(const std::string& directory);

}  // namespace qtape::data
