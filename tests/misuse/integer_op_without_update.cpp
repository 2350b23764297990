// error: update
#include "qtape/integer/core/integer_op.h"

namespace qtape {

struct WithoutUpdate {
  static constexpr std::string_view name = "WithoutUpdate";
  static constexpr std::string_view doc = "y = x.";
  static constexpr auto fields() { return std::tuple<>{}; }
  IntegerValue infer(IntegerInputs inputs) const { return inputs[0]; }
#ifndef MISUSE
  void update(const IntegerBinding&, IntegerValue&) const {}
#endif
  IntegerKernel reference(const IntegerBinding&) const { return {}; }
  IntegerKernel optimized(const IntegerBinding&) const { return {}; }
  bool operator==(const WithoutUpdate&) const = default;
};
static_assert(IntegerCompute<WithoutUpdate>);

}  // namespace qtape
