// What tests ask of a session.
#pragma once

#include <optional>

#include "qtape/integer/product_path.h"

namespace qtape {

struct SessionHooks {
  /// How products are computed; empty: as exact_path says. Any other may be inexact.
  std::optional<ProductPath> path = std::nullopt;
};

}  // namespace qtape
