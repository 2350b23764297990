#include "qtape/engine/print.h"

#include "qtape/engine/print_fields.h"

namespace qtape {

std::string to_string(const Op& op) { return value_text(op); }

}  // namespace qtape
