// Ordered tensors with names: the contents of a file of several arrays.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "qtape/core/types.h"

namespace qtape {

/// A tensor and its name.
struct NamedTensor {
  std::string name = {};
  Tensor tensor = {};
  bool operator==(const NamedTensor&) const = default;
};
/// In the order of their file, with unique names.
using NamedTensors = std::vector<NamedTensor>;

/// Throws ArgumentError for a repeated name, and for a tensor whose data size does not match
/// its type.
void check_tensors(const NamedTensors& tensors);

/// Tensor with the name `name`. Throws ArgumentError, which lists up to 16 names and the
/// closest ones, if there is none.
const Tensor& tensor_named(const NamedTensors& tensors, std::string_view name);

/// Formats up to 16 names for a message: `'a', 'b'`, or `none`.
std::string names_of(const NamedTensors& tensors);

}  // namespace qtape
