// Ops as text: `MatMul {transpose_b: true}`, attributes that differ from their defaults only.
#pragma once

#include <string>

#include "qtape/ops/ops.h"

namespace qtape {

std::string to_string(const Op& op);

}  // namespace qtape
