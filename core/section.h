// Section: the checkpoint representation of an object with settings.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>

#include "qtape/core/types.h"

namespace qtape {

/// A named set of settings and tensors. Optimizers, schedules and others save themselves to a
/// checkpoint as a Section, so the file format does not depend on their types.
struct Section {
  using Setting = std::variant<bool, int64_t, double, std::string>;
  std::string kind = {};
  std::map<std::string, Setting> settings = {};
  std::map<std::string, Tensor> tensors = {};
  bool operator==(const Section&) const = default;
};

}  // namespace qtape
