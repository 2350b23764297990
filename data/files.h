// Data sets from files.
#pragma once

#include <string>

#include "qtape/data/dataset.h"

namespace qtape::data {

/// Reads an IDX pair: unsigned-byte images of magic 0x00000803 and labels of magic 0x00000801,
/// as columns x, u8[rows, columns], and labels. Both may be plain or gzip, whatever their
/// names. Memory grows with the bytes that arrive, not with what a header claims. As gzip(1)
/// does, ignores bytes after the last gzip member.
///
/// Throws IoError (missing, unreadable), FormatError (wrong magic, extents outside 1..4096 or
/// count outside 1..100000000, truncated, corrupt, surplus bytes, counts that differ, labels
/// outside 0..classes-1) and ArgumentError unless classes is within 1..256.
Dataset idx(const std::string& images_path, const std::string& labels_path,
            int64_t classes = 10);

/// Reads the four MNIST files {train,t10k}-images-idx3-ubyte and {train,t10k}-labels-idx1-ubyte
/// of `directory`, each plain or with `.gz` (plain is preferred), 10 classes.
///
/// Throws as `idx`, IoError that names the first missing file, and FormatError when the
/// training and test images differ in size.
Split mnist(const std::string& directory);

/// Samples of arrays in files: column x from `inputs` and, unless empty, column y from
/// `targets`; integers without axes are labels. Each is a `.npy`, `.npz` or `.safetensors`
/// file, with `:NAME` behind it where it holds several arrays, see `read_array`. The first axis
/// of each counts samples. Throws as `read_array`, and FormatError, which begins with the file,
/// for scalars, for other counts and for f16 and bf16.
Dataset arrays(const std::string& inputs, const std::string& targets = {});

}  // namespace qtape::data
