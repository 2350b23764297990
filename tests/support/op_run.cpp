#include "qtape/tests/support/op_run.h"

#include <cmath>

#include "qtape/ops/core/quantizer_op.h"

namespace qtape::test {
namespace {

template <class T>
T to_element(double x) {
  // Integers wrap; NaN and values beyond 64 bits have none.
  if constexpr (std::is_integral_v<T>) {
    return std::fabs(x) < 0x1p63 ? static_cast<T>(static_cast<int64_t>(x)) : T{};
  }
  return Storage<T>::store(static_cast<typename Storage<T>::Compute>(x));
}

template <class T>
double from_element(T x) {
  return static_cast<double>(Storage<T>::load(x));
}

}  // namespace

Values random_values(int64_t n, uint64_t seed, double low, double high, uint64_t stream) {
  Values values(static_cast<size_t>(n));
  const Random random(seed, stream);
  for (size_t i = 0; i < values.size(); ++i) values[i] = low + (high - low) * random.uniform(i);
  return values;
}

std::vector<float> random_floats(size_t n, uint64_t seed) {
  const Values values = random_values(static_cast<int64_t>(n), seed, -1, 1, 0);
  return {values.begin(), values.end()};
}

double stored(double x, DType dtype) {
  return dispatch_element(dtype, [&]<class T>() {
    const T element = to_element<T>(x);
    // GCC 12 on Arm makes -0 of a fraction that is converted to an integer and back.
    if constexpr (std::is_integral_v<T>) return element == 0 ? 0.0 : from_element(element);
    return from_element(element);
  });
}

void Memory::store(DType dtype, const Values& values) const {
  dispatch_element(dtype, [&]<class T>() {
    T* to = reinterpret_cast<T*>(data_);
    for (size_t i = 0; i < size_ / sizeof(T); ++i) to[i] = to_element<T>(values[i]);
  });
}

Values Memory::load(DType dtype) const {
  return dispatch_element(dtype, [&]<class T>() {
    const T* from = reinterpret_cast<const T*>(data_);
    Values values(size_ / sizeof(T));
    for (size_t i = 0; i < values.size(); ++i) values[i] = from_element(from[i]);
    return values;
  });
}

OpRun::OpRun(Op op, std::vector<TensorType> types, const std::vector<Values>& operands,
             RunOptions options)
    : op_(std::move(op)),
      options_(options),
      slots_(slots_of(op_)),
      types_(std::move(types)),
      output_(output_type(op_, types_)),
      keep_(keep_of(op_)),
      upstream_(gradient_type(output_, keep_)),
      step_{options.mode, seed, number} {
  const Footprint footprint = footprint_of(op_, types_);
  for (int64_t bytes : {output_.bytes(), upstream_.bytes(), footprint.saved, footprint.scratch,
                        footprint.record}) {
    own_.emplace_back(bytes);
  }
  for (size_t i = 0; i < types_.size(); ++i) {
    const bool scales = slots_[i].scales != Scales::None;
    stored_.push_back(scales ? scale_dtype(types_[i].dtype) : types_[i].dtype);
    operands_.emplace_back(static_cast<int64_t>(operands[i].size()) * size_of(stored_[i]));
    operands_[i].store(stored_[i], operands[i]);
    downstream_.push_back(gradient_type(types_[i], {.codes = slots_[i].codes}));
    gradients_.emplace_back(downstream_[i].bytes());
    sources_.push_back({.record = operands_[i].data(),
                        .channels = static_cast<int64_t>(operands[i].size()),
                        .dtype = stored_[i]});
  }
}

const Memory& OpRun::value() const {
  const bool free = !types_.empty() && types_[0].bytes() == output_.bytes() &&
                    ((!keep_.operand(0) && keep_.forward_in_place) || keep_.view);
  return options_.in_place && free ? operands_[0] : own_[Y];
}

bool OpRun::has_gradient(size_t i) const {
  return slots_[i].differentiable && is_float(downstream_[i].dtype) &&
         is_float(upstream_.dtype);
}

bool OpRun::wanted(size_t i) const {
  return slots_[i].differentiable && static_cast<int>(i) != options_.unwanted;
}

Kernel OpRun::bind_forward() {
  addresses_.clear();
  for (size_t i = 0; i < operands_.size(); ++i) {
    const bool scales = slots_[i].scales != Scales::None;
    addresses_.push_back(scales ? nullptr : operands_[i].data());
  }
  Binding b = binding();
  b.operands = addresses_;
  b.result = value().data();
  return forward_kernel(op_, b);
}

bool OpRun::shares_gradient() const {
  return options_.in_place && keep_.backward_in_place && wanted(0) && !options_.accumulate &&
         downstream_[0].bytes() == upstream_.bytes();
}

Kernel OpRun::bind_backward(const Values& dy) {
  for (size_t i = 0; i < types_.size() && options_.accumulate; ++i) {
    gradients_[i].store(downstream_[i].dtype,
                        Values(static_cast<size_t>(types_[i].elements()), 0.5));
  }
  (shares_gradient() ? gradients_[0] : own_[Upstream]).store(upstream_.dtype, dy);
  return bind_backward();
}

Kernel OpRun::bind_backward() {
  addresses_.clear();
  std::vector<Gradient> gradients;
  for (size_t i = 0; i < types_.size(); ++i) {
    const bool kept = keep_.operand(i) && slots_[i].scales == Scales::None;
    addresses_.push_back(kept ? operands_[i].data() : nullptr);
    gradients.push_back({wanted(i) ? gradients_[i].data() : nullptr, options_.accumulate});
  }
  Binding b = binding();
  b.operands = addresses_;
  b.result = keep_.output ? value().data() : nullptr;
  b.dy = (shares_gradient() ? gradients_[0] : own_[Upstream]).data();
  b.gradients = gradients;
  return backward_kernel(op_, b);
}

Values OpRun::forward() {
  if (const Kernel kernel = bind_forward()) kernel(step_);
  return result();
}

std::vector<Values> OpRun::backward(const Values& dy) {
  if (const Kernel kernel = bind_backward(dy)) kernel(step_);
  std::vector<Values> result;
  for (size_t i = 0; i < types_.size(); ++i) {
    result.push_back(wanted(i) ? gradients_[i].load(downstream_[i].dtype) : Values{});
  }
  return result;
}

Binding OpRun::binding() {
  Binding b;
  b.inputs = types_;
  b.output = output_;
  for (ScaleSource& source : sources_) source.status = &source_status_;
  b.sources = sources_;
  b.saved = own_[Saved].data();
  b.scratch = own_[Scratch].data();
  b.record = own_[Record].data();
  b.status = &status_;
  b.stream = types_.size();
  b.threads = options_.threads;
  return b;
}

}  // namespace qtape::test
