#include "qtape/ops/core/quantize_layout.h"

namespace qtape {
namespace {

/// Groups of rows measured side by side when channels lie within a row.
constexpr int64_t column_groups = 16;

}  // namespace

QuantizeLayout::QuantizeLayout(const Shape& shape, std::optional<int> axis) {
  const AxisView view = axis ? axis_view(shape, *axis) : AxisView{1, 1, shape.elements()};
  channels = view.channels;
  per_element = view.inner == 1 && view.channels > 1;
  rows = per_element ? view.outer : view.outer * view.channels;
  columns = per_element ? view.channels : view.inner;
  runs_per_row = std::max<int64_t>(1, (columns + quantize_run - 1) / quantize_run);
}

Run QuantizeLayout::run(int64_t index) const {
  const int64_t row = index / runs_per_row;
  const int64_t begin = index % runs_per_row * quantize_run;
  return {row * columns + begin, std::min(quantize_run, columns - begin),
          row * ((columns + 63) / 64) + begin / 64, per_element ? begin : row % channels};
}

template <class S>
int64_t Measurement<S>::scratch_bytes(const QuantizeLayout& l) {
  const auto each = static_cast<int64_t>(sizeof(Extremes<T>));
  const int64_t partials = l.per_element ? column_groups * l.columns : l.runs();
  return each * (l.channels + partials);
}

template <class S>
Measurement<S>::Measurement(const QuantizeLayout& layout, const QuantizeLoops<S>& loops,
                            std::byte* scratch, int threads)
    : layout_(layout),
      loops_(loops),
      totals_(reinterpret_cast<Extremes<T>*>(scratch)),
      partial_(scratch + layout.channels * static_cast<int64_t>(sizeof(Extremes<T>))),
      threads_(threads) {}

template <class S>
std::span<const Extremes<typename Storage<S>::Compute>> Measurement<S>::measure(
    const S* x) const {
  std::fill_n(totals_, layout_.channels, Extremes<T>{});
  if (layout_.per_element) {
    measure_columns(x);
  } else {
    measure_runs(x);
  }
  return {totals_, static_cast<size_t>(layout_.channels)};
}

template <class S>
void Measurement<S>::measure_runs(const S* x) const {
  auto* partial = reinterpret_cast<Extremes<T>*>(partial_);
  layout_.for_each_run(threads_, [&](int64_t i, const Run& run) {
    loops_.measure(x + run.offset, run.length, partial + i);
  });
  for (int64_t i = 0; i < layout_.runs(); ++i) {
    Extremes<T>& total = totals_[i / layout_.runs_per_row % layout_.channels];
    total.max_abs = std::max(total.max_abs, partial[i].max_abs);
    total.non_finite += partial[i].non_finite;
  }
}

template <class S>
void Measurement<S>::measure_columns(const S* x) const {
  const int64_t columns = layout_.columns;
  auto* bad = reinterpret_cast<int64_t*>(partial_);
  auto* largest = reinterpret_cast<T*>(bad + column_groups * columns);
  std::fill_n(bad, column_groups * columns, int64_t{0});
  std::fill_n(largest, column_groups * columns, T(0));
  const int64_t grain = std::max<int64_t>(
      1, column_groups * pointwise_grain / std::max<int64_t>(1, layout_.elements()));
  parallel_for(threads_, column_groups, 1, grain, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      const int64_t last = layout_.rows * (g + 1) / column_groups;
      for (int64_t row = layout_.rows * g / column_groups; row < last; ++row) {
        loops_.measure_columns(x + row * columns, columns, largest + g * columns,
                               bad + g * columns);
      }
    }
  });
  for (int64_t i = 0; i < column_groups * columns; ++i) {
    Extremes<T>& total = totals_[i % columns];
    total.max_abs = std::max(total.max_abs, largest[i]);
    total.non_finite += bad[i];
  }
}

template class Measurement<float>;
template class Measurement<double>;
template class Measurement<Half>;
template class Measurement<BHalf>;

}  // namespace qtape
