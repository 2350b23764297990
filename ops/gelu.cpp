#include "qtape/ops/gelu.h"

#include "qtape/ops/families/elementwise_kernels.h"

namespace qtape {

namespace {

/// A Gelu of one form: loops that test the form for each element do not vectorise.
template <GeluForm form>
struct GeluOf {
  static constexpr SlopeOf slope_of = Gelu::slope_of;
  template <class T>
  T value(T x) const {
    return Gelu{.form = form}.value(x);
  }
  template <class T>
  T slope(T x) const {
    return Gelu{.form = form}.slope(x);
  }
};

}  // namespace

TensorType Gelu::infer(Inputs inputs) const { return elementwise::infer(inputs); }
Kernel Gelu::forward(const Binding& binding) const {
  return form == GeluForm::Erf ? elementwise::forward(GeluOf<GeluForm::Erf>{}, binding)
                               : elementwise::forward(GeluOf<GeluForm::Tanh>{}, binding);
}
Kernel Gelu::backward(const Binding& binding) const {
  return form == GeluForm::Erf ? elementwise::backward(GeluOf<GeluForm::Erf>{}, binding)
                               : elementwise::backward(GeluOf<GeluForm::Tanh>{}, binding);
}

}  // namespace qtape
