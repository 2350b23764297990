// Arrays of samples on their way to a data set, and the order of their channels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "qtape/data/files.h"
#include "qtape/data/rows.h"

namespace qtape::data {

/// Samples of one array, in memory or in files.
using Samples = std::variant<Tensor, std::shared_ptr<const Rows>>;

const TensorType& type_of(const Samples& samples);
/// Returns the same values under another shape.
Samples with_shape(Samples values, const Shape& shape);

/// True if the array `name` belongs to the input or answer `each`.
bool is_of(const std::string& name, const WantedInput& each,
           const std::vector<WantedInput>& wanted);

/// Orders of channels in which the samples of an array fit the network: Both, or the order that
/// alone fits; AsTheyAre also if none does.
enum class ChannelFit : uint8_t { AsTheyAre, ChannelsFirst, Both };

/// An array of samples that becomes a column.
struct Placed {
  std::string place;
  std::string name;    // of its input or answer
  std::string column;  // of the data set
  Samples values;
  const std::vector<WantedInput>& wanted;
  bool target = false;
  bool has_channels = true;  // false: it is not moved

  bool is_of(const WantedInput& each) const { return data::is_of(name, each, wanted); }
  ChannelFit fit() const;
  /// True for samples with the extents of their input or answer, such as sequences [n, t, c],
  /// that have others with their channels moved.
  bool only_last() const;
};

/// Moves channels to the last axis where the order demands it. Appends to `unclear`, unless
/// null, the places of arrays that fit in both orders if no other array decides. Throws
/// ArgumentError for arrays that contradict the order or each other.
void move_channels(std::vector<Placed>& all, ChannelOrder channels,
                   std::vector<std::string>* unclear);

}  // namespace qtape::data
