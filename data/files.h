// Data sets read from files.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/core/enum_names.h"
#include "qtape/data/dataset.h"

namespace qtape::data {

/// Reads an IDX pair: unsigned-byte images of magic 0x00000803 and labels of magic 0x00000801,
/// as columns x, u8[rows, columns], and labels. Both files may be plain or gzip, regardless of
/// their names. Memory grows with the bytes read, not with the sizes in a header. Like gzip(1),
/// ignores bytes after the last gzip member.
///
/// Throws IoError (missing, unreadable), FormatError (wrong magic, extents outside 1..4096 or
/// count outside 1..100000000, truncated, corrupt, surplus bytes, different counts, labels
/// outside 0..classes-1) and ArgumentError unless 0 <= classes <= 256; 0 selects one more than
/// the largest label.
Dataset idx(const std::string& images_path, const std::string& labels_path,
            int64_t classes = 10);

/// Reads the four MNIST files {train,t10k}-images-idx3-ubyte and {train,t10k}-labels-idx1-ubyte
/// of `directory`, with labels of `classes` classes. Each may be plain or have the suffix
/// `.gz`; plain is preferred.
///
/// Throws as `idx` does, IoError that names the first missing file, and FormatError if training
/// and test images differ in size.
Split mnist(const std::string& directory, int64_t classes = 10);

/// Returns the paths of the files that `arrays` reads for an argument: its file, or the `.npy`
/// files of a folder; none for an empty string.
std::vector<std::string> array_files(const std::string& place);

/// Returns the paths of the files that `mnist` reads, those that exist.
std::vector<std::string> mnist_files(const std::string& directory);

/// Size of a `.npy` file in bytes up to which `arrays` reads it into memory: 1 GiB.
inline constexpr int64_t largest_in_memory = int64_t{1} << 30;

/// Reads samples from files of arrays: column x from `inputs` and, unless empty, column y from
/// `targets`; scalar integers are labels. Each is a `.npy`, `.npz` or `.safetensors` file,
/// followed by `:NAME` if it contains several arrays (see `read_array`), or a folder of `.npy`
/// files, whose samples follow each other by the names of the files. The first axis of each
/// array counts samples.
///
/// The samples of folders, and of `.npy` files of more than `largest_in_memory` bytes whose
/// first axis varies slowest, stay in their files and are read when they are used. Throws as
/// `read_array` and `npy_rows` do, and FormatError, which starts with the file, for scalars,
/// for different counts and for f16 and bf16. Throws ArgumentError for a folder without `.npy`
/// files.
Dataset arrays(const std::string& inputs, const std::string& targets = {});

/// An input or an answer of a network, to which arrays are matched.
struct WantedInput {
  std::string name = {};
  Shape sample = {};            ///< extents of one sample, channels last
  std::string other_name = {};  ///< alternative name of its array
  DType dtype = DType::F32;
  /// False where the last axis does not hold channels: arrays are not moved.
  bool has_channels = true;
  /// The channels are the first axis, as in programs with layout nchw; has_channels is false.
  bool channels_first = false;
  int64_t classes = 0;  ///< number of classes of which an answer is an index; 0: none
};

/// Position of the channels in a sample.
enum class ChannelOrder : uint8_t {
  Detect,  ///< as the network has them; first if the extents of an array fit only that way
  First,   ///< before all other axes, as in PyTorch and ONNX
  Last     ///< after all other axes
};

}  // namespace qtape::data

namespace qtape {

template <>
inline constexpr std::array<std::string_view, 3> enum_names<data::ChannelOrder>{
    "Detect", "First", "Last"};

}  // namespace qtape

namespace qtape::data {

/// Reads samples for a network. If `inputs` is a file of several arrays, those with the names
/// of `wanted` are read. Arrays with the channels first become channels-last. Throws as above,
/// and ArgumentError for a file that has only some of the names.
///
/// The targets of a network with several `answers` are the arrays with their names in a file of
/// several, as columns `NAME.target`; ArgumentError if one is missing. Targets of as many axes
/// as their answer have the order of the inputs. With `Detect`, an array that fits only with
/// channels first determines the order of all arrays with the same number of axes that fit in
/// both orders; ambiguous arrays with other numbers of axes throw ArgumentError. If no array
/// determines the order, ambiguous arrays stay unchanged and `unclear`, if given, receives
/// their places; so do those of flat samples with several channels. With `First`, flat samples
/// are channels-first as well; samples of two axes that fit only unchanged are not moved.
Dataset arrays(const std::string& inputs, const std::string& targets,
               const std::vector<WantedInput>& wanted,
               ChannelOrder channels = ChannelOrder::Detect,
               const std::vector<WantedInput>& answers = {},
               std::vector<std::string>* unclear = nullptr);

}  // namespace qtape::data
