// Axes of values that Reshapes and Transposes have changed, before any node computes it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace qtape {

/// A permutation of the elements of a sample. Factors of 1 may be left out of an axis.
struct MovedAxes {
  std::vector<int64_t> factors = {};  ///< extents whose product are the elements, as stored
  std::vector<std::vector<int>> axes = {};  ///< of each ONNX axis after the batch: its factors,
                                            ///< the outermost first

  /// Returns the factors above 1 in the order of the axes `order`.
  std::vector<int> in_order(std::span<const int> order) const;
};

/// Reshapes `moved` to the ONNX axes `extents` after the batch. False if these do not consist
/// of factors.
bool regroup(MovedAxes& moved, std::span<const int64_t> extents);

/// Steps from stored factors to another order; shapes include the batch, of extent 1.
struct MoveSteps {
  std::vector<int64_t> before = {};   ///< shape before the Transpose
  std::vector<int> permutation = {};  ///< empty: the order is kept
};

/// Returns the steps to the factors `wanted`, which are all above 1, with as few axes as
/// possible.
MoveSteps steps_to(const MovedAxes& moved, const std::vector<int>& wanted);

/// Returns the permutation of the axes of `stored` that gives `factors` where each of them
/// stays whole, empty otherwise. Axes of extent 1 come where `wanted` has such; both shapes
/// include the batch.
std::vector<int> whole_axes(const MovedAxes& moved, const std::vector<int>& factors,
                            std::span<const int64_t> stored, std::span<const int64_t> wanted);

/// The indices of a Gather along one axis that permutes as MoveSteps do.
struct MovedIndices {
  int axis = -1;  ///< -1: there is none
  std::vector<int64_t> indices = {};
};

/// Returns the only axis of `shape` whose elements `steps` move, at most `most`, and how.
MovedIndices along_one_axis(const MoveSteps& steps, std::span<const int64_t> shape,
                            int64_t most);

}  // namespace qtape
