// Formatting of ops: `MatMul {transpose_b: true}`, with the attributes that differ from their
// defaults.
#pragma once

#include <string>

#include "qtape/ops/ops.h"

namespace qtape {

std::string to_string(const Op& op);

}  // namespace qtape
