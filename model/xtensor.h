// Conversion between xtensor arrays and models or data sets. A separate header, because xtensor
// takes seconds to compile.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>

#include "qtape/engine/views.h"
#include "qtape/model/model.h"

namespace qtape {

/// Evaluates an expression into a tensor of the same shape and type. The type must be an
/// element type of tensors: float, double or an integer of 8 to 64 bits except unsigned 32 and
/// 64.
template <class E>
Tensor to_tensor(const xt::xexpression<E>& expression) {
  using T = std::decay_t<typename E::value_type>;
  static_assert(Element<T>, "tensors have no elements of this type");
  const xt::xarray<T> values = expression.derived_cast();
  std::vector<int64_t> extents(values.shape().begin(), values.shape().end());
  return Tensor::of<T>(Shape(extents), std::span<const T>(values.data(), values.size()));
}

/// Returns the elements of a tensor. Throws GraphError if T is not its dtype.
template <Element T>
xt::xarray<T> to_array(const Tensor& tensor) {
  check(tensor.type.dtype == dtype_of<T>, "the tensor is {}, not {}", to_string(tensor.type),
        to_string_view(dtype_of<T>));
  const auto extents = tensor.type.shape.extents();
  xt::xarray<T> values =
      xt::xarray<T>::from_shape(std::vector<size_t>(extents.begin(), extents.end()));
  std::copy_n(reinterpret_cast<const T*>(tensor.data.data()), values.size(), values.begin());
  return values;
}

namespace data {

/// Returns a data set with samples along the first axis of `x`; u8 elements are pixels, see
/// Dataset.
template <class X>
Dataset arrays(const xt::xexpression<X>& x) {
  Dataset set;
  set.add("x", to_tensor(x));
  return set;
}
/// Returns a data set with targets `y`; integers without further axes are labels.
template <class X, class Y>
Dataset arrays(const xt::xexpression<X>& x, const xt::xexpression<Y>& y) {
  Dataset set = arrays(x);
  set.add_target("y", to_tensor(y));
  return set;
}

}  // namespace data

/// Returns the model's answers to the samples of `x`: [samples, ...].
template <class E>
xt::xarray<float> predict(const Model& model, const xt::xexpression<E>& x,
                          int threads = default_threads()) {
  return to_array<float>(predict(model, data::arrays(x), threads));
}

/// Return views of a parameter or state, writable unless the model is const, and of a
/// parameter's gradient. Views stay valid as long as the model, even if it is moved. Throw
/// GraphError for an unknown name and if T is not the dtype, and `gradients` also for a state.
template <Element T>
auto values(Model& model, std::string_view name) {
  const ParameterEntry& entry = model.parameters().at(name);
  return detail::view_of(entry.values<T>(), entry.type.shape);
}
/// Returns a read-only view of a parameter or state.
template <Element T>
auto values(const Model& model, std::string_view name) {
  const ParameterEntry& entry = model.parameters().at(name);
  return detail::view_of(std::span<const T>(entry.values<T>()), entry.type.shape);
}
/// Returns a view of the gradient of a parameter.
template <Element T>
auto gradients(const Model& model, std::string_view name) {
  const ParameterEntry& entry = model.parameters().at(name);
  return detail::view_of(std::span<const T>(entry.gradients<T>()), entry.type.shape);
}

/// Replaces a value with the result of `expression`. Throws GraphError for an unknown name and
/// for another dtype or shape.
template <class E>
void set(Model& model, std::string_view name, const xt::xexpression<E>& expression) {
  model.parameters().set(name, to_tensor(expression));
}

}  // namespace qtape
