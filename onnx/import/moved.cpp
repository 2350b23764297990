#include "qtape/onnx/import/moved.h"

#include <algorithm>

namespace qtape {
namespace {

/// Splits factor f into an outer one of extent `outer` and an inner one, f + 1.
void split(MovedAxes& moved, int f, int64_t outer) {
  const auto at = moved.factors.begin() + f;
  const int64_t inner = *at / outer;
  *at = outer;
  moved.factors.insert(at + 1, inner);
  for (std::vector<int>& axis : moved.axes) {
    for (int& each : axis) each += each > f ? 1 : 0;
    const auto found = std::ranges::find(axis, f);
    if (found != axis.end()) axis.insert(found + 1, f + 1);
  }
}

/// Moves factors with the product `extent` from the last axis to axis `to`, splitting one if
/// needed.
bool take(MovedAxes& moved, int64_t extent, size_t to) {
  while (extent > 1) {
    std::vector<int>& rest = moved.axes.back();
    if (rest.empty()) return false;
    const int f = rest.front();
    const int64_t whole = moved.factors[static_cast<size_t>(f)];
    if (extent % whole != 0 && whole % extent != 0) return false;
    if (extent % whole != 0) split(moved, f, extent);
    extent /= std::min(whole, extent);
    rest.erase(rest.begin());
    moved.axes[to].push_back(f);
  }
  return true;
}

}  // namespace

std::vector<int> MovedAxes::in_order(std::span<const int> order) const {
  std::vector<int> all;
  for (const int axis : order) {
    for (const int f : axes[static_cast<size_t>(axis)]) {
      if (factors[static_cast<size_t>(f)] > 1) all.push_back(f);
    }
  }
  return all;
}

bool regroup(MovedAxes& moved, std::span<const int64_t> extents) {
  // The last axis holds the factors that are left; those taken are in the axes before it.
  MovedAxes next{moved.factors, {}};
  std::vector<int> rest;
  for (const std::vector<int>& axis : moved.axes) {
    for (const int f : axis) {
      if (moved.factors[static_cast<size_t>(f)] > 1) rest.push_back(f);
    }
  }
  next.axes.assign(extents.size() + 1, {});
  next.axes.back() = rest;
  for (size_t k = 0; k < extents.size(); ++k) {
    if (!take(next, extents[k], k)) return false;
  }
  if (!next.axes.back().empty()) return false;
  next.axes.pop_back();
  moved = std::move(next);
  return true;
}

MoveSteps steps_to(const MovedAxes& moved, const std::vector<int>& wanted) {
  std::vector<int> stored = wanted;
  std::ranges::sort(stored);
  // Groups are factors that follow each other in both orders; each is named by its first.
  std::vector<int> firsts;
  std::vector<int64_t> extents(moved.factors.size(), 1);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto place = std::ranges::find(stored, wanted[i]);
    const bool joins = i > 0 && place != stored.begin() && *(place - 1) == wanted[i - 1];
    if (!joins) firsts.push_back(wanted[i]);
    extents[static_cast<size_t>(firsts.back())] *=
        moved.factors[static_cast<size_t>(wanted[i])];
  }
  std::vector<int> sorted = firsts;
  std::ranges::sort(sorted);
  MoveSteps steps{.before = {1}, .permutation = {0}};
  for (const int each : sorted) steps.before.push_back(extents[static_cast<size_t>(each)]);
  for (const int each : firsts) {
    steps.permutation.push_back(
        static_cast<int>(std::ranges::find(sorted, each) - sorted.begin()) + 1);
  }
  if (std::ranges::is_sorted(steps.permutation)) steps.permutation.clear();
  return steps;
}

std::vector<int> whole_axes(const MovedAxes& moved, const std::vector<int>& factors,
                            std::span<const int64_t> stored, std::span<const int64_t> wanted) {
  // The stored axis of each factor, and the last factor of each axis.
  std::vector<size_t> axis_of(moved.factors.size());
  std::vector<int> last(stored.size(), -1);
  size_t axis = 1;
  int64_t left = stored.size() > 1 ? stored[1] : 1;
  for (size_t f = 0; f < moved.factors.size(); ++f) {
    if (moved.factors[f] == 1) continue;
    while (left == 1) left = stored[++axis];
    if (left % moved.factors[f] != 0) return {};
    left /= moved.factors[f];
    axis_of[f] = axis;
    last[axis] = static_cast<int>(f);
  }
  std::vector<int> large;
  for (size_t i = 0; i < factors.size(); ++i) {
    const size_t here = axis_of[static_cast<size_t>(factors[i])];
    if (large.empty() || large.back() != static_cast<int>(here)) {
      if (i > 0 && factors[i - 1] != last[axis_of[static_cast<size_t>(factors[i - 1])]]) {
        return {};
      }
      large.push_back(static_cast<int>(here));
    } else if (factors[i] < factors[i - 1]) {
      return {};
    }
  }
  std::vector<int> ones, permutation = {0};
  for (size_t k = 1; k < stored.size(); ++k) {
    if (stored[k] == 1) ones.push_back(static_cast<int>(k));
  }
  if (large.size() + ones.size() + 1 != stored.size()) return {};
  size_t one = 0, next = 0;
  for (size_t k = 1; k < stored.size(); ++k) {
    const bool puts_one =
        one < ones.size() && (next == large.size() || (k < wanted.size() && wanted[k] == 1));
    permutation.push_back(puts_one ? ones[one++] : large[next++]);
  }
  return permutation;
}

MovedIndices along_one_axis(const MoveSteps& steps, std::span<const int64_t> shape,
                            int64_t most) {
  const std::vector<int>& p = steps.permutation;
  size_t first = 1, last = p.size() - 1;
  while (p[first] == static_cast<int>(first)) ++first;
  while (p[last] == static_cast<int>(last)) --last;
  int64_t inner = 1, extent = 1;
  for (size_t k = first; k < p.size(); ++k) (k > last ? inner : extent) *= steps.before[k];
  MovedIndices result;
  int64_t behind = 1;
  for (int axis = static_cast<int>(shape.size()) - 1; axis > 0; --axis) {
    const int64_t here = shape[static_cast<size_t>(axis)];
    if (behind == inner && here == extent && extent <= most) result.axis = axis;
    behind *= here;
  }
  for (int64_t i = 0; result.axis > 0 && i < extent; ++i) {
    int64_t rest = i, index = 0;
    for (size_t k = last + 1; k-- > first;) {
      int64_t stride = 1;
      for (size_t m = static_cast<size_t>(p[k]) + 1; m <= last; ++m) stride *= steps.before[m];
      const int64_t here = steps.before[static_cast<size_t>(p[k])];
      index += rest % here * stride;
      rest /= here;
    }
    result.indices.push_back(index);
  }
  return result;
}

}  // namespace qtape
