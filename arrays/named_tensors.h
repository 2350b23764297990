// Tensors with names, in order: what a file of several arrays holds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "qtape/core/types.h"

namespace qtape {

/// A tensor and what it is called.
struct NamedTensor {
  std::string name = {};
  Tensor tensor = {};
  bool operator==(const NamedTensor&) const = default;
};
/// In the order of their file; names differ.
using NamedTensors = std::vector<NamedTensor>;

/// Throws ArgumentError for a name that two of `tensors` have, and for a tensor whose data are
/// of another size than its type says.
void check_tensors(const NamedTensors& tensors);

/// The tensor called `name`. Throws ArgumentError, which tells up to 16 names and the
/// nearest.
const Tensor& tensor_named(const NamedTensors& tensors, std::string_view name);

/// Up to 16 names for a message: `'a', 'b'`, or `none`.
std::string names_of(const NamedTensors& tensors);

}  // namespace qtape
