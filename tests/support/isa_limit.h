// Kernels of lower instruction sets, for a time.
#pragma once

#include <stdlib.h>

#include <optional>
#include <string>
#include <string_view>

#include "qtape/core/isa.h"

namespace qtape::test {

/// Limits the instruction set of kernels that are bound during its lifetime.
class IsaLimit {
 public:
  explicit IsaLimit(std::string_view name) {
    if (const char* before = getenv("QTAPE_ISA")) before_ = before;
    setenv("QTAPE_ISA", std::string(name).c_str(), 1);
  }
  IsaLimit(const IsaLimit&) = delete;
  IsaLimit& operator=(const IsaLimit&) = delete;
  ~IsaLimit() {
    if (before_) {
      setenv("QTAPE_ISA", before_->c_str(), 1);
    } else {
      unsetenv("QTAPE_ISA");
    }
  }

 private:
  std::optional<std::string> before_;
};

}  // namespace qtape::test
