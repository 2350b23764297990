#include "qtape/onnx/import/problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <span>

#include "qtape/core/printable.h"

namespace qtape {

void OnnxProblems::add(const std::string& place, const std::string& reason) {
  problems_.push_back({-1, place, {}, {}, reason});
}

void OnnxProblems::add_tensor(const std::string& name, const std::string& reason) {
  problems_.push_back(
      {-1, fmt::format("tensor '{}'", printable(name)), {}, {printable(name)}, reason});
}

void OnnxProblems::add(int64_t index, const OnnxNode& node, const std::string& reason) {
  Problem problem{index, node.describe(), node.type(), {}, reason};
  if (!node.name().empty()) problem.names = {printable(node.name())};
  problems_.push_back(std::move(problem));
}

std::string OnnxProblems::Problem::text() const {
  constexpr size_t shown = 3;  // of tensors
  if (type.empty() && names.size() > shown + 1) {
    return fmt::format("tensors '{}' and {} others: {}",
                       fmt::join(std::span(names).first(shown), "', '"), names.size() - shown,
                       reason);
  }
  if (type.empty() && names.size() > 1) {
    return fmt::format("tensors '{}': {}", fmt::join(names, "', '"), reason);
  }
  if (names.size() > 1) {
    return fmt::format("nodes '{}' ({}): {}", fmt::join(names, "', '"), printable(type),
                       reason);
  }
  return place.empty() ? reason : fmt::format("{}: {}", place, reason);
}

void OnnxProblems::settle() const {
  if (problems_.empty()) return;
  std::vector<Problem> sorted = problems_;
  std::ranges::stable_sort(sorted, {}, &Problem::index);
  std::vector<Problem> groups;
  std::map<std::pair<std::string, std::string>, size_t> known;
  for (Problem& each : sorted) {
    if (each.names.empty()) {
      groups.push_back(std::move(each));
      continue;
    }
    const auto [found, first] = known.try_emplace({each.type, each.reason}, groups.size());
    if (first) {
      groups.push_back(std::move(each));
    } else {
      groups[found->second].names.push_back(each.names[0]);
    }
  }
  std::string text;
  for (const Problem& each : groups) text += (text.empty() ? "" : "; ") + each.text();
  if (problems_.size() == 1) fail<FormatError>("{}", text);
  fail<FormatError>("{} problems: {}", problems_.size(), text);
}

std::string_view onnx_remedy(std::string_view type) {
  constexpr std::string_view after = "leave it out of the export; compute it afterwards";
  constexpr std::string_view quantized = "export the float model: qtape inserts quantizers";
  constexpr std::string_view sums =
      "read codes of a QuantizeLinear, and turn sums into floats by Cast and Mul with constant "
      "scales";
  constexpr std::string_view control = "export the model without branches and loops";
  static const std::map<std::string_view, std::string_view> remedies = {
      {"ArgMin", after},
      {"TopK", after},
      {"NonMaxSuppression", after},
      {"Hardmax", after},
      {"DynamicQuantizeLinear", quantized},
      {"ConvInteger", sums},
      {"MatMulInteger", sums},
      {"If", control},
      {"Loop", control},
      {"Scan", control}};
  const auto found = remedies.find(type);
  return found != remedies.end() ? found->second
                                 : "replace it with operators listed in docs/limits.md";
}

}  // namespace qtape
