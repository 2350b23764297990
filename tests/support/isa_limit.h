// Kernels of lower instruction sets, for a time.
#pragma once

#include <stdlib.h>

#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "qtape/core/enum_names.h"
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

/// Returns the name of one of the instruction sets. Processors without it use their best.
inline std::string_view any_isa(uint64_t seed) {
  return enum_names<Isa>[seed % std::size(enum_names<Isa>)];
}

}  // namespace qtape::test
