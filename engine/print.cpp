#include "qtape/engine/print.h"

#include "qtape/engine/print_fields.h"

namespace qtape {

std::string detail::attributes_text(std::span<const TextMember> members) {
  std::string text;
  for (const TextMember& each : members) {
    if (each.type->equal(each.value, each.standard)) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", each.key,
                        each.type->text(each.value));
  }
  return text.empty() ? "" : " {" + text + "}";
}

std::string to_string(const Op& op) { return value_text(op); }

}  // namespace qtape
