#include "qtape/ops/core/op.h"

#include <fmt/format.h>

namespace qtape {

std::string to_string(const Fault& fault) {
  if (fault.text == nullptr) return "";
  return fmt::format(fmt::runtime(fault.text), fmt::arg("index", fault.index),
                     fmt::arg("value", fault.value));
}

}  // namespace qtape
