// The types of described settings, under the names that programs use.
#pragma once

#include "qtape/core/described_settings.h"

namespace qtape::programs {

using settings::Limits;
using settings::require_in;
using settings::require_limits;
using settings::setting;

}  // namespace qtape::programs
