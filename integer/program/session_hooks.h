// Session hooks for tests.
#pragma once

#include <optional>

#include "qtape/integer/core/product_path.h"

namespace qtape {

struct SessionHooks {
  /// Path by which products are computed; empty: exact_path chooses. Any other path may be
  /// inexact.
  std::optional<ProductPath> path = std::nullopt;
};

}  // namespace qtape
