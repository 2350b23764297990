#include "qtape/integer/ops/operand_walk.h"

namespace qtape::integer {

OperandWalk::OperandWalk(const Shape& x, const Shape& y) {
  int64_t stride = 1;
  for (int i = 1; i <= y.rank(); ++i) {
    const int64_t extent = i <= x.rank() ? x[-i] : 1;
    const Axis axis{y[-i], extent == 1 ? 0 : stride};
    stride *= extent;
    if (axis.extent == 1) continue;
    Axis* before = count_ == 0 ? nullptr : &axes_[count_ - 1];
    const bool merges = before != nullptr && axis.step == before->step * before->extent;
    if (merges) {
      before->extent *= axis.extent;
    } else {
      axes_[count_++] = axis;
    }
  }
  if (count_ == 0) count_ = 1;
}

int64_t OperandWalk::start(int64_t begin, Indices& at) const {
  int64_t offset = 0;
  for (size_t i = 0; i < count_; ++i) {
    at[i] = begin % axes_[i].extent;
    begin /= axes_[i].extent;
    if (i > 0) offset += at[i] * axes_[i].step;
  }
  return offset;
}

}  // namespace qtape::integer
