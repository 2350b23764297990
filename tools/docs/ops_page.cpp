#include "qtape/tools/docs/ops_page.h"

#include <fmt/format.h>

#include "qtape/io/json_fields.h"
#include "qtape/ops/ops.h"

namespace qtape {
namespace {

template <class T>
std::string operands_text(const T& op) {
  std::string text;
  for (const Slot& slot : op.slots()) {
    text += fmt::format("{}`{}`", text.empty() ? "" : ", ", slot.name);
    if (slot.access == Access::ReadWrite) text += " (state, written)";
    if (slot.scales != Scales::None) {
      text += " (a quantizer, for its scales)";
    } else if (slot.access == Access::Read && !slot.differentiable) {
      text += " (no gradient)";
    }
  }
  return text.empty() ? "none" : text;
}

std::string kept_text(const Keep& keep, const std::vector<Slot>& slots) {
  std::string text;
  const auto add = [&](std::string_view name) {
    text += fmt::format("{}`{}`", text.empty() ? "" : ", ", name);
  };
  for (size_t i = 0; i < slots.size(); ++i) {
    if (keep.operand(i)) add(slots[i].name);
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

/// Returns operand types that an op with default attributes accepts, found by trial.
template <class T>
std::vector<TensorType> example_operands(const T& op) {
  const std::vector<TensorType> candidates = {
      {DType::F32, {64, 64}}, {DType::F32, {64}}, {DType::F32, {1}}, {DType::S32, {64}},
      {DType::S8, {64, 64}},  {DType::U8, {64}},  {DType::F64, {64}}};
  const size_t slots = op.slots().size();
  size_t combinations = 1;
  for (size_t i = 0; i < slots; ++i) combinations *= candidates.size();
  for (size_t k = 0; k < combinations; ++k) {
    std::vector<TensorType> operands;
    for (size_t i = 0, rest = k; i < slots; ++i, rest /= candidates.size()) {
      operands.push_back(candidates[rest % candidates.size()]);
    }
    try {
      (void)op.infer(operands);
      return operands;
    } catch (const GraphError&) {
    }
  }
  return {};
}

std::string guarantee_text(const Guarantee& g) {
  std::string text;
  const auto add = [&](bool promised, std::string_view what) {
    if (promised) text += fmt::format("{}{}", text.empty() ? "" : ", ", what);
  };
  add(g.runs, "from run to run");
  add(g.threads, "at any number of threads");
  add(g.instruction_sets, "on any instruction set");
  return text.empty() ? "No promise of equal bits." : fmt::format("The same bits {}.", text);
}

template <class T>
std::string workspace_text(const T& op) {
  const std::vector<TensorType> operands = example_operands(op);
  if (operands.empty()) return "";
  const Footprint f = op.footprint(operands);
  if (f.saved + f.scratch + f.record == 0) return " No workspace.";
  std::string types;
  for (const TensorType& type : operands) {
    types += (types.empty() ? "" : ", ") + to_string(type);
  }
  return fmt::format(" Workspace for {}: {} bytes saved for backward, {} scratch, {} record.",
                     types, f.saved, f.scratch, f.record);
}

/// Formats a single fact next to its title, several facts below it.
std::string facts_text(std::string_view title, const Facts& facts) {
  if (facts.size() == 1) return fmt::format("- **{}**: {}\n", title, *facts.begin());
  std::string text = fmt::format("- **{}**:\n", title);
  for (std::string_view fact : facts) text += fmt::format("  - {}\n", fact);
  return text;
}

/// Formats the summary, followed by a list of the other parts.
std::string docs_text(const OpDocs& docs) {
  std::string text;
  for (std::string_view fact : docs.summary) text += fmt::format("{}\n", fact);
  text += "\n";
  for_each_field<OpDocs>([&](const auto& part) {
    if (part.member != &OpDocs::summary) text += facts_text(part.key, docs.*part.member);
  });
  return text;
}

template <class T>
std::string op_text() {
  const T op{};
  std::string text = fmt::format("\n## {}\n\n{}\n", T::name, docs_text(T::docs));
  text += fmt::format("Slots: {}. With default attributes backward keeps {}.\n",
                      operands_text(op), kept_text(op.keep(), op.slots()));
  if (!op.slots().empty()) {
    text += guarantee_text(guarantee_of<T>()) + workspace_text(op) + "\n";
  }
  return text + attributes_text<T>();
}

}  // namespace

std::string ops_page() {
  std::string text =
      "# Ops\n\nWritten by `write_ops_page` from what the ops declare; a test compares. x and "
      "dx are "
      "an operand and its gradient, y and dy the output's. `contract` (engine/contract.h) "
      "tells the same "
      "for any attributes and operands, or why they do not fit, before anything runs.\n";
  for_each_alternative<Op>([&]<class T>() { text += op_text<T>(); });
  return text;
}

}  // namespace qtape
