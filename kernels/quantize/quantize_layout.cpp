#include "qtape/kernels/quantize/quantize_layout.h"

namespace qtape::kernels {

QuantizeLayout::QuantizeLayout(const Shape& shape, const Granularity& granularity)
    : map_(shape, granularity), elements_(shape.elements()) {
  columns_ = map_.segment == 1 && map_.wrap > 1;
  segment_ = columns_ ? map_.wrap : map_.channels == 1 ? elements_ : map_.segment;
  segment_ = std::max<int64_t>(1, segment_);
  segments_ = elements_ / segment_;
  const bool shares_chunks = !columns_ && segment_ % mask_lanes == 0;
  per_chunk_ = segment_ > quantize_chunk ? 0 : shares_chunks ? quantize_chunk / segment_ : 1;
  pieces_ = (segment_ + quantize_chunk - 1) / quantize_chunk;
  chunks_ = per_chunk_ > 0 ? (segments_ + per_chunk_ - 1) / per_chunk_ : segments_ * pieces_;
  const int64_t longest =
      per_chunk_ > 0 ? std::min(per_chunk_, segments_) * segment_ : quantize_chunk;
  words_ = (longest + 511) / 512 * mask_block_words;
}

Chunk QuantizeLayout::chunk(int64_t index) const {
  Chunk chunk;
  chunk.word = index * words_;
  if (per_chunk_ > 0) {
    const int64_t first = index * per_chunk_;
    chunk.offset = first * segment_;
    chunk.length = std::min(per_chunk_, segments_ - first) * segment_;
  } else {
    const int64_t begin = index % pieces_ * quantize_chunk;
    chunk.offset = index / pieces_ * segment_ + begin;
    chunk.length = std::min(quantize_chunk, segment_ - begin);
  }
  chunk.channel = map_(chunk.offset);
  return chunk;
}

template <class S>
int64_t Measurement<S>::scratch_bytes(const QuantizeLayout& l) {
  const auto each = static_cast<int64_t>(sizeof(int64_t) + 2 * sizeof(T));
  return static_cast<int64_t>(sizeof(Extremes<T>)) * l.channels() + each * partials(l);
}

template <class S>
Measurement<S>::Measurement(const QuantizeLayout& layout, const QuantizeLoops<S>& loops,
                            std::byte* scratch, int threads)
    : layout_(layout),
      loops_(loops),
      totals_(reinterpret_cast<Extremes<T>*>(scratch)),
      threads_(threads) {
  if (scratch == nullptr) return;  // op does not measure by this object
  non_finite_ = reinterpret_cast<int64_t*>(totals_ + layout.channels());
  min_ = reinterpret_cast<T*>(non_finite_ + partials(layout));
  max_ = min_ + partials(layout);
}

template <class S>
std::span<const Extremes<typename Storage<S>::Compute>> Measurement<S>::merged() const {
  std::fill_n(totals_, layout_.channels(), Extremes<T>{});
  const int64_t count = partials(layout_);
  const int64_t pieces =
      layout_.columns() ? 1 : count / std::max<int64_t>(1, layout_.segments());
  for (int64_t i = 0; i < count; ++i) {
    totals_[i / pieces % layout_.channels()].merge({{min_[i], max_[i]}, non_finite_[i]});
  }
  return {totals_, static_cast<size_t>(layout_.channels())};
}

template <class S>
void Measurement<S>::measure_chunk(const S* x, int64_t index, const Chunk& chunk) const {
  const int64_t first = index * std::max<int64_t>(1, layout_.segments_per_chunk());
  loops_.measure(x + chunk.offset, chunk.length, layout_.segment(), min_ + first, max_ + first,
                 non_finite_ + first);
}

template <class S>
void Measurement<S>::measure_columns(const S* x) const {
  const int64_t row = layout_.segment();
  std::fill_n(non_finite_, partials(layout_), int64_t{0});
  std::fill_n(min_, partials(layout_), ValueRange<T>{}.min);
  std::fill_n(max_, partials(layout_), ValueRange<T>{}.max);
  for_each_column_group(layout_, threads_, [&](int64_t g, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
      const int64_t c = g * layout_.channels() + layout_.channel_of(r * row);
      loops_.measure_columns(x + r * row, row, min_ + c, max_ + c, non_finite_ + c);
    }
  });
}

template class Measurement<float>;
template class Measurement<double>;
template class Measurement<Half>;
template class Measurement<BHalf>;

}  // namespace qtape::kernels
