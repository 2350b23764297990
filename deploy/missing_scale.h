// Why a quantizer has no scale, in words.
#pragma once

#include <string>
#include <string_view>

#include "qtape/engine/graph.h"
#include "qtape/engine/parameters.h"

namespace qtape {

inline constexpr std::string_view never_observed = "never observed anything";

/// For channel `c` of the quantizer at `id`, which has states and by them scale 0:
/// `never_observed`, or what they hold instead: `no scale follows from its scale -0.05`.
std::string missing_scale(const Graph& graph, const Parameters& parameters, NodeId id,
                          int64_t c);

}  // namespace qtape
