// Section: what anything with settings hands to a checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "qtape/core/types.h"

namespace qtape {

/// A named set of settings and tensors: how an optimizer or a schedule hands itself to a
/// checkpoint without the file format knowing about it.
struct Section {
  using Setting = std::variant<bool, int64_t, double, std::string>;
  std::string kind = {};
  std::map<std::string, Setting> settings = {};
  std::map<std::string, Tensor> tensors = {};
  bool operator==(const Section&) const = default;
};

}  // namespace qtape
