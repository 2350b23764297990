#include "qtape/data/channel_order.h"

#include <algorithm>
#include <span>
#include <utility>

#include "qtape/core/error.h"

namespace qtape::data {

const TensorType& type_of(const Samples& samples) {
  if (const auto* tensor = std::get_if<Tensor>(&samples)) return tensor->type;
  return std::get<1>(samples)->type();
}

Samples with_shape(Samples values, const Shape& shape) {
  if (auto* rows = std::get_if<1>(&values)) return reshaped(std::move(*rows), shape);
  std::get<Tensor>(values).type.shape = shape;
  return values;
}

bool is_of(const std::string& name, const WantedInput& each,
           const std::vector<WantedInput>& wanted) {
  return each.name == name || wanted.size() == 1;
}

namespace {

/// Returns extents without those of 1.
std::vector<int64_t> large(std::span<const int64_t> extents) {
  std::vector<int64_t> found;
  std::ranges::copy_if(extents, std::back_inserter(found),
                       [](int64_t each) { return each != 1; });
  return found;
}

/// Returns [n, c, ...] as [n, ..., c].
Samples with_channels_last(Samples first) {
  if (auto* rows = std::get_if<1>(&first)) return channels_last(std::move(*rows));
  const auto& values = std::get<Tensor>(first);
  Tensor last{channels_last(values.type), std::vector<std::byte>(values.data.size())};
  move_channels_last(values.type, values.data, last.data);
  return last;
}

std::vector<int64_t> rotated(std::span<const int64_t> extents) {
  std::vector<int64_t> last(extents.begin(), extents.end());
  if (!last.empty()) std::rotate(last.begin(), last.begin() + 1, last.end());
  return last;
}

ChannelFit fit_of(std::span<const int64_t> given, const Shape& wanted) {
  const bool last = large(given) == large(wanted.extents());
  const bool first = given.size() >= 2 && std::ranges::equal(rotated(given), wanted.extents());
  // A single channel may stand before or after the other axes, without a move.
  if (!first || given[0] == 1 || large(given).size() < 2) return ChannelFit::AsTheyAre;
  return last ? ChannelFit::Both : ChannelFit::ChannelsFirst;
}

}  // namespace

ChannelFit Placed::fit() const {
  const Shape& shape = type_of(values).shape;
  if (!has_channels || shape.rank() < 3) return ChannelFit::AsTheyAre;
  ChannelFit found = ChannelFit::AsTheyAre;
  for (const WantedInput& each : wanted) {
    if (!is_of(each)) continue;
    found = std::max(found, fit_of(shape.extents().subspan(1), each.sample));
  }
  return found;
}

bool Placed::only_last() const {
  const Shape& shape = type_of(values).shape;
  if (!has_channels || shape.rank() < 3 || fit() != ChannelFit::AsTheyAre) return false;
  return std::ranges::any_of(wanted, [&](const WantedInput& each) {
    return is_of(each) && each.sample == shape.without_first() &&
           large(each.sample.extents()).size() >= 2;
  });
}

namespace {

/// Returns the shape of the image [h, w, c] or sequence [t, c] of which samples [n, c h w] are
/// flat; null for others.
const Shape* unflattened(const Placed& each) {
  const Shape& flat = type_of(each.values).shape;
  if (flat.rank() != 2) return nullptr;
  for (const WantedInput& wanted : each.wanted) {
    const Shape& sample = wanted.sample;
    if (!each.is_of(wanted) || !wanted.has_channels) continue;
    if (sample.rank() >= 2 && sample.elements() == flat[1]) return &sample;
  }
  return nullptr;
}

/// Gives flat samples their axes, channels first.
void unflatten(Placed& each) {
  const Shape* sample = unflattened(each);
  if (sample == nullptr) return;
  std::vector<int64_t> extents{type_of(each.values).shape[0], (*sample)[-1]};
  const auto places = sample->extents().first(static_cast<size_t>(sample->rank() - 1));
  extents.insert(extents.end(), places.begin(), places.end());
  each.values = with_shape(std::move(each.values), Shape(extents));
  each.has_channels = true;
}

/// True for flat samples with several channels at several positions, in an order that cannot be
/// seen.
bool hides_channels(const Placed& each) {
  const Shape* sample = unflattened(each);
  return sample != nullptr && (*sample)[-1] > 1 && large(sample->extents()).size() >= 2;
}

/// Returns the array that fits only with channels first, of those with `rank` axes; without
/// one, of those with other ranks.
const Placed* deciding(const std::vector<Placed>& all, int rank, bool of_rank) {
  const auto found = std::ranges::find_if(all, [&](const Placed& each) {
    return each.fit() == ChannelFit::ChannelsFirst &&
           (type_of(each.values).shape.rank() == rank) == of_rank;
  });
  return found == all.end() ? nullptr : &*found;
}

/// Returns the arrays to move: by position in `all`. Appends to `unclear` the places of arrays
/// that fit in both orders if no other array decides; one of as many axes does. Throws
/// ArgumentError if only one of another number of axes has channels first: it may be an image,
/// and these sequences. Throws it also if `first` is stated and one fits only with them last.
std::vector<size_t> channels_first(const std::vector<Placed>& all, bool first,
                                   std::vector<std::string>* unclear) {
  std::vector<size_t> found;
  for (size_t i = 0; i < all.size(); ++i) {
    const Placed& each = all[i];
    const ChannelFit fit = each.fit();
    const Shape& shape = type_of(each.values).shape;
    require<ArgumentError>(!first || !each.only_last(),
                           "{}: samples {} fit only with channels last: --channels First must "
                           "hold for all arrays",
                           each.place, to_string(shape.without_first()));
    const bool image = each.wanted.empty() ? shape.rank() >= 3 : shape.rank() >= 4;
    const bool decided = first || deciding(all, shape.rank(), true) != nullptr;
    if (fit == ChannelFit::ChannelsFirst || (first && image && each.has_channels) ||
        (decided && fit == ChannelFit::Both)) {
      found.push_back(i);
      continue;
    }
    if (unclear != nullptr && hides_channels(each)) unclear->push_back(each.place);
    if (fit != ChannelFit::Both) continue;
    const Placed* other = deciding(all, shape.rank(), false);
    require<ArgumentError>(other == nullptr,
                           "{}: samples {} fit with channels first and last, and {} has them "
                           "first: give all arrays with channels last and --channels Last, or "
                           "--channels First if all have them first",
                           each.place, to_string(shape.without_first()),
                           other == nullptr ? "" : other->place);
    if (unclear != nullptr) unclear->push_back(each.place);
  }
  return found;
}

}  // namespace

void move_channels(std::vector<Placed>& all, ChannelOrder channels,
                   std::vector<std::string>* unclear) {
  if (channels == ChannelOrder::Last) return;
  const bool first = channels == ChannelOrder::First;
  for (Placed& each : all) {
    if (first) unflatten(each);
  }
  for (const size_t i : channels_first(all, first, unclear)) {
    all[i].values = with_channels_last(std::move(all[i].values));
  }
}

}  // namespace qtape::data
