#include "qtape/integer/ops/linear.h"

#include <fmt/format.h>

#include <utility>

#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/products/direct_products.h"
#include "qtape/integer/products/epilogue.h"
#include "qtape/integer/products/tiled_products.h"
#include "qtape/kernels/integer/code_products.h"

namespace qtape::integer {
namespace {

/// True if products of the rows of x run as those of windows: if oneDNN has no fast int8
/// products here, or if the library's word products are exact and oneDNN's int8 products are
/// not.
bool runs_as_windows(const QuantizedWeights& weights, const IntegerValue& x, bool constant,
                     std::optional<ProductPath> path) {
  if (path) return false;
  if (fast_int8_of_onednn && code_products() != CodeProducts::Words) return false;
  const int64_t terms = weights.terms();
  const int64_t rows = terms == 0 ? 0 : x.type.elements() / terms;
  if (rows == 0 || weights.outputs() == 0) return false;
  if (!is_direct(as_windows(rows, terms, weights.outputs()), x.type.dtype)) return false;
  if (!fast_int8_of_onednn) return true;
  return exact_path(constant ? weights.certificate : certify_sums(terms * 128, 128, 255), x) !=
         ProductPath::Int8;
}

}  // namespace

IntegerValue Linear::infer(IntegerInputs inputs) const {
  check_operands(inputs, 1);
  const IntegerValue& x = inputs[0];
  check_codes(x, "x");
  const Shape& outer = x.type.shape;
  weights.check();
  check(outer.rank() >= 1 && outer[-1] == weights.terms(), "x must be [..., {}], got {}",
        weights.terms(), to_string(outer));
  return weights.accumulators(x, outer.with(-1, weights.outputs()), f32_scales);
}

void Linear::update(const IntegerBinding& b, IntegerValue& y) const {
  update_scales(weights, b, y, f32_scales);
}

IntegerKernel Linear::optimized(const IntegerBinding& b) const {
  return optimized(b, store_accumulators(b));
}

IntegerKernel Linear::optimized(const IntegerBinding& b, Epilogue next) const {
  if (runs_as_windows(weights, b.in(0), b.weights == nullptr, b.path)) {
    const int64_t rows = b.in(0).type.elements() / weights.terms();
    return direct_kernel(weights, as_windows(rows, weights.terms(), weights.outputs()), b,
                         std::move(next));
  }
  return linear_kernel(weights, b, std::move(next));
}

std::string Linear::explain(const IntegerValue& x, std::optional<ProductPath> path) const {
  if (runs_as_windows(weights, x, true, path)) {
    return fmt::format("rows in place, added in 32 bits by {}", name_of(code_products()));
  }
  return path ? std::string(to_string_view(*path)) : explain_path(weights.certificate, x);
}

}  // namespace qtape::integer
