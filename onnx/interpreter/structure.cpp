// Operators that move or reduce elements as specified at https://onnx.ai/onnx/operators, for
// opsets 13 to 21.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>

#include "qtape/onnx/interpreter/call.h"

namespace qtape::interpreter {
namespace {

OnnxArray transpose(const Call& c) {
  const OnnxArray& x = c.in(0);
  Extents axes(x.shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  const Extents perm = c.node.integers("perm").value_or(Extents(axes.rbegin(), axes.rend()));
  require<FormatError>(std::ranges::is_permutation(perm, axes),
                       "perm is not a permutation of the axes");
  const Extents strides = strides_of(x.shape);
  Extents shape;
  for (int64_t a : perm) shape.push_back(x.shape[static_cast<size_t>(a)]);
  return moved(x, shape, [&](const Extents& index) {
    int64_t at = 0;
    for (size_t a = 0; a < index.size(); ++a) {
      at += index[a] * strides[static_cast<size_t>(perm[a])];
    }
    return at;
  });
}

OnnxArray identity(const Call& c) { return c.in(0); }

OnnxArray reshape(const Call& c) {
  OnnxArray y = c.in(0);
  const int64_t n = y.elements();
  Extents shape = c.of<int64_t>(1);
  c.node.expect("allowzero", 0);
  require<FormatError>(std::ranges::count(shape, -1) <= 1, "the new shape has several -1");
  int64_t known = 1;
  for (size_t a = 0; a < shape.size(); ++a) {
    if (shape[a] == 0 && a < y.shape.size()) shape[a] = y.shape[a];
    if (shape[a] != -1) known *= shape[a];
  }
  for (int64_t& each : shape) {
    if (each == -1) each = known == 0 ? 0 : n / known;
  }
  require<FormatError>(onnx_elements(shape) == n,
                       "the new shape has a different number of elements");
  y.shape = shape;
  return y;
}

OnnxArray concat(const Call& c) {
  const size_t rank = c.in(0).shape.size();
  const auto axis = static_cast<size_t>(axis_of(c.node.integer("axis", 0), rank));
  Extents shape = c.in(0).shape;
  shape[axis] = 0;
  for (size_t k = 0; k < c.operands.size(); ++k) {
    const Extents& each = c.in(k).shape;
    require<FormatError>(each.size() == rank, "input {} has rank {}, expected {}", k,
                         each.size(), rank);
    for (size_t a = 0; a < rank; ++a) {
      require<FormatError>(a == axis || each[a] == shape[a],
                           "input {} has {} on axis {}, expected {}", k, each[a], a, shape[a]);
    }
    shape[axis] += each[axis];
  }
  return std::visit(
      [&]<class T>(const std::vector<T>&) {
        std::vector<T> y;
        int64_t rows = 1;
        for (size_t a = 0; a < axis; ++a) rows *= shape[a];
        for (int64_t row = 0; row < rows; ++row) {
          for (size_t k = 0; k < c.operands.size(); ++k) {
            const std::vector<T>& from = c.of<T>(k);
            const int64_t width = std::ssize(from) / std::max<int64_t>(1, rows);
            y.insert(y.end(), from.begin() + row * width, from.begin() + (row + 1) * width);
          }
        }
        return OnnxArray{shape, std::move(y)};
      },
      c.in(0).data);
}

OnnxArray slice(const Call& c) {
  const OnnxArray& x = c.in(0);
  const Extents &starts = c.of<int64_t>(1), &ends = c.of<int64_t>(2), &axes = c.of<int64_t>(3);
  require<FormatError>(!c.has(4), "steps are not supported");
  require<FormatError>(starts.size() == ends.size() && ends.size() == axes.size(),
                       "starts, ends and axes have different lengths");
  Extents shape = x.shape, first(shape.size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto a = static_cast<size_t>(axis_of(axes[i], shape.size()));
    const auto limited = [&](int64_t v) {
      return std::clamp<int64_t>(v < 0 ? v + x.shape[a] : v, 0, x.shape[a]);
    };
    first[a] = limited(starts[i]);
    shape[a] = std::max<int64_t>(0, limited(ends[i]) - first[a]);
  }
  const Extents strides = strides_of(x.shape);
  return moved(x, shape, [&](const Extents& index) {
    int64_t at = 0;
    for (size_t a = 0; a < index.size(); ++a) at += (index[a] + first[a]) * strides[a];
    return at;
  });
}

OnnxArray gather(const Call& c) {
  const OnnxArray& x = c.in(0);
  const auto axis = static_cast<size_t>(axis_of(c.node.integer("axis", 0), x.shape.size()));
  const Extents places = std::holds_alternative<std::vector<int32_t>>(c.in(1).data)
                             ? converted<int64_t>(c.of<int32_t>(1))
                             : c.of<int64_t>(1);
  for (int64_t each : places) {
    require<FormatError>(each >= -x.shape[axis] && each < x.shape[axis],
                         "index {} is out of range", each);
  }
  const auto front = static_cast<std::ptrdiff_t>(axis);
  const auto middle = static_cast<std::ptrdiff_t>(c.in(1).shape.size());
  Extents shape(x.shape.begin(), x.shape.begin() + front);
  shape.insert(shape.end(), c.in(1).shape.begin(), c.in(1).shape.end());
  shape.insert(shape.end(), x.shape.begin() + front + 1, x.shape.end());
  return moved(x, shape, [&](const Extents& index) {
    int64_t at = 0;
    for (std::ptrdiff_t a = 0; a < front; ++a) at = at * x.shape[size_t(a)] + index[size_t(a)];
    const int64_t place = places[static_cast<size_t>(broadcast_place(
        c.in(1).shape, {index.begin() + front, index.begin() + front + middle}))];
    at = at * x.shape[axis] + (place < 0 ? place + x.shape[axis] : place);
    for (size_t a = axis + 1; a < x.shape.size(); ++a) {
      at = at * x.shape[a] + index[a + static_cast<size_t>(middle) - 1];
    }
    return at;
  });
}

OnnxArray pad(const Call& c) {
  const OnnxArray& x = c.in(0);
  const Extents& pads = c.of<int64_t>(1);
  const size_t rank = x.shape.size();
  require<FormatError>(c.node.text("mode", "constant") == "constant" && !c.has(3),
                       "is supported only with a constant on all axes");
  require<FormatError>(pads.size() == 2 * rank, "{} pads for rank {}", pads.size(), rank);
  Extents shape = x.shape;
  for (size_t a = 0; a < rank; ++a) {
    shape[a] += pads[a] + pads[rank + a];
    require<FormatError>(shape[a] >= 0, "axis {} has {} left", a, shape[a]);
  }
  return std::visit(
      [&]<class T>(const std::vector<T>& from) {
        std::vector<T> y;
        for_each_index(shape, [&](const Extents& index) {
          int64_t at = 0;
          bool inside = true;
          for (size_t a = 0; a < rank; ++a) {
            const int64_t i = index[a] - pads[a];
            inside = inside && i >= 0 && i < x.shape[a];
            at = at * x.shape[a] + i;
          }
          y.push_back(inside ? from[static_cast<size_t>(at)] : c.scalar<T>(2, 0));
        });
        return OnnxArray{shape, std::move(y)};
      },
      x.data);
}

/// Applies `reduce` to all elements along the axes.
template <class T, class Reduce>
OnnxArray reduced(const Call& c, const Reduce& reduce) {
  const OnnxArray& x = c.in(0);
  const std::vector<T>& from = c.of<T>(0);
  c.node.expect("noop_with_empty_axes", 0);
  std::vector<bool> gone(x.shape.size(), false);
  const Extents axes = c.numbers(1, "axes").value_or(Extents{});
  for (int64_t a : axes) gone[static_cast<size_t>(axis_of(a, gone.size()))] = true;
  if (axes.empty()) gone.assign(gone.size(), true);
  Extents kept = x.shape;
  for (size_t a = 0; a < gone.size(); ++a) {
    if (gone[a]) kept[a] = 1;
  }
  std::vector<std::vector<T>> parts(static_cast<size_t>(onnx_elements(kept)));
  size_t at = 0;
  for_each_index(x.shape, [&](const Extents& index) {
    parts[static_cast<size_t>(broadcast_place(kept, index))].push_back(from[at++]);
  });
  std::vector<T> y;
  for (const std::vector<T>& part : parts) y.push_back(reduce(part));
  if (c.node.integer("keepdims", 1) == 0) {
    Extents left;
    for (size_t a = 0; a < gone.size(); ++a) {
      if (!gone[a]) left.push_back(kept[a]);
    }
    kept = left;
  }
  return {kept, std::move(y)};
}

OnnxArray reduce_max(const Call& c) {
  expect_no_16_bits(c);
  return std::visit(
      [&]<class T>(const std::vector<T>&) {
        return reduced<T>(c, [](const std::vector<T>& part) {
          require<FormatError>(!part.empty(), "the maximum of no elements is undefined");
          return std::ranges::max(part);
        });
      },
      c.in(0).data);
}

OnnxArray reduce_sum(const Call& c) {
  if (std::holds_alternative<std::vector<float>>(c.in(0).data)) {
    return reduced<float>(c, [](const std::vector<float>& part) {
      return std::accumulate(part.begin(), part.end(), 0.0f);
    });
  }
  if (std::holds_alternative<std::vector<int64_t>>(c.in(0).data)) {
    return reduced<int64_t>(c, [](const std::vector<int64_t>& part) {
      uint64_t sum = 0;
      for (const int64_t each : part) sum += static_cast<uint64_t>(each);
      return static_cast<int64_t>(sum);
    });
  }
  return reduced<int32_t>(c, [](const std::vector<int32_t>& part) {
    return static_cast<int32_t>(std::accumulate(part.begin(), part.end(), int64_t{0}));
  });
}

/// The first of the largest elements along an axis.
OnnxArray arg_max(const Call& c) {
  expect_no_16_bits(c);
  c.node.expect("select_last_index", 0);
  const OnnxArray& x = c.in(0);
  const auto axis = static_cast<size_t>(axis_of(c.node.integer("axis", 0), x.shape.size()));
  Extents shape = x.shape;
  shape[axis] = 1;
  const Extents strides = strides_of(x.shape);
  std::vector<int64_t> y;
  std::visit(
      [&](const auto& from) {
        for_each_index(shape, [&](const Extents& index) {
          int64_t first = 0, best = 0;
          for (size_t a = 0; a < index.size(); ++a) first += index[a] * strides[a];
          const auto at = [&](int64_t i) {
            return from[static_cast<size_t>(first + i * strides[axis])];
          };
          for (int64_t i = 1; i < x.shape[axis]; ++i) best = at(i) > at(best) ? i : best;
          y.push_back(best);
        });
      },
      x.data);
  if (c.node.integer("keepdims", 1) == 0) {
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  }
  return {shape, std::move(y)};
}

OnnxType arg_max_type(const OnnxTypes& c) {
  OnnxType type{onnx::TensorProto::INT64, c.in(0).shape};
  const auto at = type.shape.begin() + c.node.integer("axis", 0);
  *at = 1;
  if (c.node.integer("keepdims", 1) == 0) type.shape.erase(at);
  return type;
}

OnnxType transposed_type(const OnnxTypes& c) {
  const OnnxType& x = c.in(0);
  OnnxType type{x.element, {}};
  const Extents perm = c.node.integers("perm").value();
  for (const int64_t axis : perm) type.shape.push_back(x.shape[static_cast<size_t>(axis)]);
  return type;
}

OnnxType reshaped_type(const OnnxTypes& c) { return {c.in(0).element, c.numbers(1)}; }

OnnxType concat_type(const OnnxTypes& c) {
  OnnxType type = c.in(0);
  const auto axis = static_cast<size_t>(c.node.integer("axis", 0));
  for (int k = 1; k < c.node.inputs(); ++k) type.shape[axis] += c.in(k).shape[axis];
  return type;
}

OnnxType sliced_type(const OnnxTypes& c) {
  OnnxType type = c.in(0);
  type.shape[static_cast<size_t>(c.numbers(3)[0])] = c.numbers(2)[0] - c.numbers(1)[0];
  return type;
}

OnnxType gathered_type(const OnnxTypes& c) {
  OnnxType type = c.in(0);
  const auto at = type.shape.begin() + c.node.integer("axis", 0);
  const Extents& places = c.in(1).shape;
  type.shape.insert(type.shape.erase(at), places.begin(), places.end());
  return type;
}

OnnxType padded_type(const OnnxTypes& c) {
  OnnxType type = c.in(0);
  Extents& shape = type.shape;
  for (size_t k = 0; k < shape.size(); ++k) {
    const int64_t added = c.numbers(1)[k] + c.numbers(1)[k + shape.size()];
    if (added > 0) shape[k] += added;
  }
  return type;
}

OnnxType reduced_type(const OnnxTypes& c) {
  const Extents axes = c.node.has("axes") ? c.node.integers("axes").value() : c.numbers(1);
  const bool kept = c.node.integer("keepdims", 1) != 0;
  const OnnxType& x = c.in(0);
  OnnxType type{x.element, {}};
  for (size_t k = 0; k < x.shape.size(); ++k) {
    const bool gone = std::ranges::find(axes, static_cast<int64_t>(k)) != axes.end();
    if (!gone) type.shape.push_back(x.shape[k]);
    if (gone && kept) type.shape.push_back(1);
  }
  return type;
}

constexpr Operator structure_table[] = {{"ArgMax", arg_max, arg_max_type},
                                        {"Concat", concat, concat_type},
                                        {"Gather", gather, gathered_type},
                                        {"Identity", identity, same_type},
                                        {"Pad", pad, padded_type},
                                        {"ReduceMax", reduce_max, reduced_type},
                                        {"ReduceSum", reduce_sum, reduced_type},
                                        {"Reshape", reshape, reshaped_type},
                                        {"Slice", slice, sliced_type},
                                        {"Transpose", transpose, transposed_type}};

}  // namespace

std::span<const Operator> structure_operators() { return structure_table; }

}  // namespace qtape::interpreter
