// Data sets read from files.
#pragma once

#include <string>

#include "qtape/data/dataset.h"

namespace qtape::data {

/// Reads an IDX pair: unsigned-byte images of magic 0x00000803 and labels of magic 0x00000801,
/// as columns x, u8[rows, columns], and labels. Both files may be plain or gzip, regardless of
/// their names. Memory grows with the bytes read, not with the sizes in a header. Like gzip(1),
/// ignores bytes after the last gzip member.
///
/// Throws IoError (missing, unreadable), FormatError (wrong magic, extents outside 1..4096 or
/// count outside 1..100000000, truncated, corrupt, surplus bytes, different counts, labels
/// outside 0..classes-1) and ArgumentError unless 1 <= classes <= 256.
Dataset idx(const std::string& images_path, const std::string& labels_path,
            int64_t classes = 10);

/// Reads the four MNIST files {train,t10k}-images-idx3-ubyte and {train,t10k}-labels-idx1-ubyte
/// of `directory`, with 10 classes. Each may be plain or have the suffix `.gz`; plain is
/// preferred.
///
/// Throws as `idx` does, IoError that names the first missing file, and FormatError if training
/// and test images differ in size.
Split mnist(const std::string& directory);

/// Reads samples from files of arrays: column x from `inputs` and, unless empty, column y from
/// `targets`; scalar integers are labels. Each is a `.npy`, `.npz` or `.safetensors` file,
/// followed by `:NAME` if it contains several arrays (see `read_array`). The first axis of each
/// array counts samples. Throws as `read_array` does, and FormatError, which starts with the
/// file, for scalars, for different counts and for f16 and bf16.
Dataset arrays(const std::string& inputs, const std::string& targets = {});

}  // namespace qtape::data
