#include "qtape/engine/reference.h"

#include <fmt/format.h>

#include "qtape/engine/json_fields.h"
#include "qtape/ops/ops.h"

namespace qtape {
namespace {

template <class T>
std::string operands_text(const T& op) {
  std::string text;
  for (const Slot& slot : op.slots()) {
    text += fmt::format("{}`{}`", text.empty() ? "" : ", ", slot.name);
    if (slot.access == Access::ReadWrite) text += " (state, written)";
    if (slot.access == Access::Read && !slot.differentiable) text += " (no gradient)";
  }
  return text.empty() ? "none" : text;
}

std::string kept_text(const Keep& keep, const std::vector<Slot>& slots) {
  std::string text;
  const auto add = [&](std::string_view name) {
    text += fmt::format("{}`{}`", text.empty() ? "" : ", ", name);
  };
  for (size_t i = 0; i < slots.size(); ++i) {
    if (((keep.operands >> i) & 1u) != 0) add(slots[i].name);
  }
  if (keep.output) add("y");
  if (text.empty()) text = "nothing";
  if (keep.view) return text + "; a view of its operand";
  if (keep.forward_in_place) return text + "; may run in place";
  return text;
}

template <class T>
std::string attributes_text() {
  const T defaults{};
  std::string text;
  for_each_field<T>([&](const auto& each) {
    text += fmt::format("| `{}` | `{}` | {} |\n", each.key,
                        write_json(defaults.*each.member).dump(), each.doc);
  });
  if (text.empty()) return "";
  return "\n| attribute | default | meaning |\n| --- | --- | --- |\n" + text;
}

template <class T>
std::string op_text() {
  const T op{};
  std::string text = fmt::format("\n## {}\n\n{}\n\n", T::name, T::doc);
  text += fmt::format("Operands: {}. With default attributes backward keeps {}.\n",
                      operands_text(op), kept_text(op.keep(), op.slots()));
  return text + attributes_text<T>();
}

}  // namespace

std::string ops_reference() {
  std::string text =
      "# Ops\n\nWritten by `ops_reference` from what the ops declare; a test compares. x and "
      "dx are "
      "an operand and its gradient, y and dy the output's.\n";
  for_each_alternative<Op>([&]<class T>() { text += op_text<T>(); });
  return text;
}

}  // namespace qtape
