#include "qtape/c99/c_writers.h"

#include "qtape/integer/products/epilogue.h"

namespace qtape {
namespace {

template <class... X>
constexpr bool all_write_c(const std::variant<X...>*) {
  return (WritesC<X> && ...);
}
static_assert(all_write_c(static_cast<const IntegerOpAlternatives*>(nullptr)),
              "an integer op has no write(op, CNode&): declare it in c99/c_writers.h");

}  // namespace

void write_c(const IntegerOp& op, CNode& node) {
  std::visit([&](const auto& each) { write(each, node); }, op);
}

int64_t c_scratch(const IntegerOp& op, const CUse& use) {
  return std::visit(
      [&](const auto& each) -> int64_t {
        if constexpr (requires { scratch(each, use); }) return scratch(each, use);
        return 0;
      },
      op);
}

CStore c_store(const IntegerOp& op, CNode& node, const IntegerValue& x, std::string_view sum) {
  return std::visit(
      [&]<class X>(const X& each) -> CStore {
        if constexpr (HasEpilogue<X>) return store(each, node, x, sum);
        fail<GraphError>("{} does not accept sums", X::name);
      },
      op);
}

}  // namespace qtape
