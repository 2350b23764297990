#include "qtape/c99/c_writers.h"

// The families are headers for this source alone, so that an op without C does not compile.
#include "qtape/c99/ops/conv.h"
#include "qtape/c99/ops/linear.h"
#include "qtape/c99/ops/norms.h"
#include "qtape/c99/ops/pointwise.h"
#include "qtape/c99/ops/structure.h"
#include "qtape/c99/ops/windows.h"
#include "qtape/core/error.h"
#include "qtape/integer/products/epilogue.h"

namespace qtape {

void write_c(const IntegerOp& op, CNode& node) {
  std::visit(
      [&]<class X>(const X& each) {
        static_assert(WritesC<X>, "an integer op has no write(op, CNode&) in c99/ops");
        write(each, node);
      },
      op);
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
