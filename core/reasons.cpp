#include "qtape/core/reasons.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace qtape {

void Reasons::add(std::string place, const std::string& reason) {
  auto known = std::ranges::find(reasons_, reason, &Reason::text);
  if (known == reasons_.end()) known = reasons_.insert(known, Reason{reason});
  known->places.push_back(std::move(place));
  ++size_;
}

std::string Reasons::text() const {
  constexpr size_t named = 10;
  std::string all;
  for (const Reason& each : reasons_) {
    const auto places = std::span(each.places);
    // One more name is as short as the number of the others.
    const bool short_list = places.size() <= named + 1;
    const auto first = short_list ? places : places.first(named);
    all += fmt::format("{}{}", all.empty() ? "" : "; ", fmt::join(first, ", "));
    if (!short_list) all += fmt::format(", ... and {} others", places.size() - named);
    all += ": " + each.text;
  }
  return all;
}

}  // namespace qtape
