// Columns of data sets that stay in files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "qtape/core/types.h"

namespace qtape::data {

/// Samples that are read on demand. Several threads may read concurrently.
class Rows {
 public:
  virtual ~Rows() = default;
  /// Type of all samples: [samples, ...].
  virtual const TensorType& type() const = 0;
  /// Reads samples from `first` on, as many as fill `to`, in row-major order and native byte
  /// order. Throws ArgumentError for samples that do not exist, and IoError.
  virtual void read(int64_t first, std::span<std::byte> to) const = 0;

  /// Number of bytes of a sample.
  int64_t sample_bytes() const;
};

/// Returns the samples of `.npy` files, one file after the other. The first 256 files stay
/// open, others are opened for each read. Throws IoError; ArgumentError if there are no files;
/// and FormatError, which starts with the file, as `parse_npy` does, for arrays whose first
/// axis varies fastest, and for files whose dtype or samples differ from those of the first
/// one.
std::shared_ptr<const Rows> npy_rows(const std::vector<std::string>& files);

/// Returns the same values under another shape [samples, ...]. Throws ArgumentError for another
/// number of samples or elements.
std::shared_ptr<const Rows> reshaped(std::shared_ptr<const Rows> rows, const Shape& shape);

/// Returns samples [channels, ...] as [..., channels]. Throws ArgumentError for samples without
/// axes.
std::shared_ptr<const Rows> channels_last(std::shared_ptr<const Rows> rows);

/// Moves the channel axis of each sample to the end: `from` holds samples of `type`,
/// [channels, ...], and `to` gets them as [..., channels].
void move_channels_last(const TensorType& type, std::span<const std::byte> from,
                        std::span<std::byte> to);

/// Type of [samples, channels, ...] with the channels last. Throws ArgumentError for fewer
/// axes.
TensorType channels_last(const TensorType& type);

}  // namespace qtape::data
