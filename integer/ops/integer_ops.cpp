#include "qtape/integer/ops/integer_ops.h"

#include "qtape/integer/products/epilogue.h"

namespace qtape {

IntegerOp::IntegerOp() = default;
IntegerOp::IntegerOp(const IntegerOp&) = default;
IntegerOp::IntegerOp(IntegerOp&&) noexcept = default;
IntegerOp& IntegerOp::operator=(const IntegerOp&) = default;
IntegerOp& IntegerOp::operator=(IntegerOp&&) noexcept = default;
IntegerOp::~IntegerOp() = default;

bool IntegerOp::operator==(const IntegerOp& other) const {
  return static_cast<const IntegerOpAlternatives&>(*this) ==
         static_cast<const IntegerOpAlternatives&>(other);
}

std::string_view name_of(const IntegerOp& op) {
  return std::visit([](const auto& each) { return std::decay_t<decltype(each)>::name; }, op);
}

template <class X>
concept HasWeights = requires(const X& op) {
  op.weights;
};
static_assert([] {
  for_each_alternative<IntegerOpAlternatives>([]<class X>() {
    static_assert(IntegerCompute<X>);
    static_assert(!HasWeights<X> || TakesEpilogue<X>,
                  "training on codes runs products with an epilogue of floats");
  });
  return true;
}());

bool takes_epilogue(const IntegerOp& op) {
  return std::visit([]<class X>(const X&) { return TakesEpilogue<X>; }, op);
}
bool has_epilogue(const IntegerOp& op) {
  return std::visit([]<class X>(const X&) { return HasEpilogue<X>; }, op);
}

Placement placement_of(const IntegerOp& op) {
  return std::visit(
      []<class X>(const X& each) {
        if constexpr (requires { each.placement(); }) return each.placement();
        return Placement::Own;
      },
      op);
}

const CodeGrid* grid_of(const IntegerOp& op) {
  return std::visit(
      []<class X>(const X& each) -> const CodeGrid* {
        if constexpr (requires { each.grid; }) return &each.grid;
        return nullptr;
      },
      op);
}

bool follows_grid(const IntegerOp& op) {
  return grid_of(op) != nullptr || std::visit(
                                       []<class X>(const X&) {
                                         return requires { X::follows_grid; };
                                       },
                                       op);
}

const QuantizedWeights* weights_of(const IntegerOp& op) {
  return std::visit(
      []<class X>(const X& each) -> const QuantizedWeights* {
        if constexpr (requires { each.weights; }) return &each.weights;
        return nullptr;
      },
      op);
}

void set_numbers(IntegerOp& op, const IntegerValue& x, const integer::NormNumbers& numbers) {
  if (auto* norm = std::get_if<integer::Normalize>(&op)) {
    integer::set_numbers(*norm, x, numbers);
  }
}

std::string explain(const IntegerOp& op, const IntegerValue& x,
                    std::optional<ProductPath> path) {
  return std::visit(
      [&]<class X>(const X& each) -> std::string {
        if constexpr (requires { each.explain(x, path); }) return each.explain(x, path);
        return {};
      },
      op);
}

IntegerValue factors_of(const IntegerOp& op, const IntegerValue& x) {
  return std::visit(
      [&]<class X>(const X& each) {
        if constexpr (requires { each.factors(x); }) return each.factors(x);
        return x;
      },
      op);
}

}  // namespace qtape
