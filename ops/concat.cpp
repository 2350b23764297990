#include "qtape/ops/concat.h"

#include <array>

#include "qtape/ops/families/rows.h"

namespace qtape {
namespace {

constexpr int max_operands = 64;

/// "x0", "x1", ...: static, because a slot's name must outlive the slot.
constexpr auto texts = [] {
  std::array<std::array<char, 3>, max_operands> all{};
  for (int i = 0; i < max_operands; ++i) {
    const char last = static_cast<char>('0' + i % 10);
    const char tens = static_cast<char>('0' + i / 10);
    all[static_cast<size_t>(i)] =
        i < 10 ? std::array<char, 3>{'x', last} : std::array<char, 3>{'x', tens, last};
  }
  return all;
}();

std::string_view slot_name(size_t i) { return {texts[i].data(), i < 10 ? size_t{2} : 3}; }

void check_count(int count) {
  check(count >= 1 && count <= max_operands, "count must be in 1..{}, got {}", max_operands,
        count);
}

void check_fits(const Shape& first, const Shape& shape, int axis, size_t i) {
  bool fits = shape.rank() == first.rank();
  for (int k = 0; fits && k < shape.rank(); ++k) fits = k == axis || shape[k] == first[k];
  check(fits, "shapes must be equal except along axis {}: x0 is {}, {} is {}", axis,
        to_string(first), slot_name(i), to_string(shape));
}

}  // namespace

static_assert(Compute<Concat>);

std::vector<Slot> Concat::slots() const {
  check_count(count);
  std::vector<Slot> slots;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    slots.push_back({.name = slot_name(i)});
  }
  return slots;
}

TensorType Concat::infer(Inputs inputs) const {
  check_count(count);
  check(inputs.size() == static_cast<size_t>(count), "expected {} operands, got {}", count,
        inputs.size());
  const TensorType& first = inputs[0];
  const int along = resolve_axis(axis, first.shape);
  int64_t extent = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    check(inputs[i].dtype == first.dtype, "dtypes differ: x0 is {}, {} is {}",
          to_string_view(first.dtype), slot_name(i), to_string_view(inputs[i].dtype));
    check_fits(first.shape, inputs[i].shape, along, i);
    extent += inputs[i].shape[along];
  }
  return {first.dtype, first.shape.with(along, extent)};
}

Kernel Concat::forward(const Binding& b) const {
  const int along = resolve_axis(axis, b.output.shape);
  std::vector<RowPart> parts;
  for (size_t i = 0; i < b.inputs.size(); ++i) {
    const AxisView x = axis_view(b.inputs[i].shape, along);
    parts.push_back({b.operands[i], x.channels * x.inner * size_of(b.output.dtype)});
  }
  return bind_join_rows(std::move(parts), axis_view(b.output.shape, along).outer, b.result,
                        b.threads);
}

Kernel Concat::backward(const Binding& b) const {
  if (!is_float(b.output.dtype)) return {};
  const int along = resolve_axis(axis, b.output.shape);
  const int64_t size = size_of(b.output.dtype);
  const AxisView y = axis_view(b.output.shape, along);
  std::vector<Kernel> kernels;
  int64_t offset = 0;
  for (int i = 0; i < static_cast<int>(b.inputs.size()); ++i) {
    const int64_t width = b.inputs[static_cast<size_t>(i)].shape[along] * y.inner;
    const Rows rows{y.outer, width, y.channels * y.inner, width};
    if (b.wanted(i) && rows.elements() > 0) {
      kernels.push_back(bind_move_rows(rows, b.output.dtype, b.dy + offset * size,
                                       b.dx<std::byte>(i), b.accumulate(i), b.threads));
    }
    offset += width;
  }
  // In order, because two operands may be one node with one gradient.
  return [kernels = std::move(kernels)](const Step& step) {
    for (const Kernel& each : kernels) each(step);
  };
}

}  // namespace qtape
