// The documentation of an op in docs/ops.md.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <string_view>

#include "qtape/core/fields.h"

namespace qtape {

/// Short facts, each a sentence or a formula. An empty list and an empty fact do not compile.
class Facts {
 public:
  template <std::same_as<const char*>... Rest>
  constexpr Facts(const char* first, Rest... rest)
      : facts_{written(first), written(rest)...}, count_(1 + sizeof...(rest)) {}

  constexpr const std::string_view* begin() const { return facts_.data(); }
  constexpr const std::string_view* end() const { return begin() + count_; }
  constexpr size_t size() const { return count_; }

 private:
  static constexpr std::string_view written(std::string_view fact) {
    if (fact.empty()) throw "a fact has no text";
    return fact;
  }

  static constexpr size_t most = 10;
  std::array<std::string_view, most> facts_;
  size_t count_;
};

/// Documentation of an op. All members are required: omitting one does not compile. If there
/// is nothing to document, write that.
struct OpDocs {
  Facts summary;
  Facts formula;
  Facts operands;
  Facts gradient;
  Facts saves;
  Facts edge_cases;
  Facts source;

  static constexpr auto fields() {
    return std::tuple{
        field("Summary", &OpDocs::summary, "function of the op, in one sentence"),
        field("Formula", &OpDocs::formula, "y, and the order in which it is computed"),
        field("Operands", &OpDocs::operands, "dtypes and shapes of the operands and of y"),
        field("Gradient", &OpDocs::gradient, "gradients of the operands"),
        field("Saves", &OpDocs::saves, "values of forward that backward reads"),
        field("Edge cases", &OpDocs::edge_cases,
              "NaN, infinities, no elements, refused operands, cases without effect"),
        field("Source", &OpDocs::source, "paper or system that the formula comes from")};
  }
};

}  // namespace qtape
