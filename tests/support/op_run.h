// OpRun: one op with memory of its own and no engine around it.
#pragma once

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "qtape/core/half.h"
#include "qtape/core/random.h"
#include "qtape/ops/core/op.h"

namespace qtape::test {

using Values = std::vector<double>;

/// `n` uniform values in [low, high), always the same for one seed.
inline Values random_values(int64_t n, uint64_t seed, double low = -1, double high = 1) {
  Values values(static_cast<size_t>(n));
  const Random random(seed, 77);
  for (size_t i = 0; i < values.size(); ++i) values[i] = low + (high - low) * random.uniform(i);
  return values;
}

/// Bytes at a 64-byte boundary and not one more, so that a sanitizer sees every overrun.
class Memory {
 public:
  explicit Memory(int64_t bytes) : size_(static_cast<size_t>(bytes)) {
    data_ = static_cast<std::byte*>(::operator new (size_, std::align_val_t{64}));
    std::memset(data_, 0xcd, size_);
  }
  Memory(Memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
  Memory(const Memory&) = delete;
  Memory& operator=(Memory&&) = delete;
  ~Memory() { ::operator delete (data_, std::align_val_t{64}); }

  std::byte* data() const { return data_; }

  /// Calls `body(x)` for each element as a reference of the storage type of `dtype`.
  template <class Body>
  void each(DType dtype, const Body& body) const {
    switch (dtype) {
      case DType::F32:
        return each<float>(body);
      case DType::F64:
        return each<double>(body);
      case DType::F16:
        return each<Half>(body);
      case DType::BF16:
        return each<BHalf>(body);
      case DType::S64:
        return each<int64_t>(body);
      case DType::S32:
        return each<int32_t>(body);
      case DType::S16:
        return each<int16_t>(body);
      case DType::U16:
        return each<uint16_t>(body);
      case DType::S8:
        return each<int8_t>(body);
      case DType::U8:
        return each<uint8_t>(body);
    }
  }
  void store(DType dtype, const Values& values) const {
    size_t i = 0;
    each(dtype, [&]<class T>(T& x) {
      using S = Storage<T>;
      x = S::store(static_cast<typename S::Compute>(values[i++]));
    });
  }
  Values load(DType dtype) const {
    Values values;
    each(dtype,
         [&]<class T>(T& x) { values.push_back(static_cast<double>(Storage<T>::load(x))); });
    return values;
  }

 private:
  template <class T, class Body>
  void each(const Body& body) const {
    T* elements = reinterpret_cast<T*>(data_);
    for (size_t i = 0; i < size_ / sizeof(T); ++i) body(elements[i]);
  }

  std::byte* data_;
  size_t size_;
};

/// How a run is bound.
struct RunOptions {
  int threads = 1;
  bool in_place = false;    ///< share buffers where keep() allows it
  bool accumulate = false;  ///< onto gradients that hold 0.5
  int unwanted = -1;        ///< an operand whose gradient nobody wants
};

/// An op with operands of `types` that hold `operands`. Backward gets exactly what keep()
/// names.
template <class X>
class OpRun {
 public:
  OpRun(X op, std::vector<TensorType> types, const std::vector<Values>& operands,
        RunOptions options = {})
      : op_(std::move(op)),
        options_(options),
        types_(std::move(types)),
        output_(op_.infer(types_)),
        upstream_(gradient_type(output_, op_.keep())),
        y_(output_.bytes()),
        dy_(upstream_.bytes()),
        saved_(op_.footprint(types_).saved),
        scratch_(op_.footprint(types_).scratch),
        record_(op_.footprint(types_).record) {
    const std::vector<Slot> slots = op_.slots();
    for (size_t i = 0; i < types_.size(); ++i) {
      operands_.emplace_back(types_[i].bytes());
      operands_[i].store(types_[i].dtype, operands[i]);
      downstream_.push_back(gradient_type(types_[i], {.codes = slots[i].codes}));
      gradients_.emplace_back(downstream_[i].bytes());
    }
  }

  const TensorType& output() const { return output_; }
  NodeStatus& status() { return status_; }
  Step& step() { return step_; }
  Values result() const { return value().load(output_.dtype); }

  Values forward() {
    for (const Memory& operand : operands_) addresses_.push_back(operand.data());
    Binding b = binding();
    b.operands = addresses_;
    b.result = value().data();
    run(op_.forward(b));
    addresses_.clear();
    return result();
  }

  /// The gradients for the upstream gradient `dy`; empty for operands that get none.
  std::vector<Values> backward(const Values& dy) {
    const Keep keep = op_.keep();
    const std::vector<Slot> slots = op_.slots();
    std::vector<Gradient> gradients;
    for (size_t i = 0; i < types_.size(); ++i) {
      addresses_.push_back(keep.operand(i) ? operands_[i].data() : nullptr);
      const bool wanted = slots[i].differentiable && static_cast<int>(i) != options_.unwanted;
      gradients.push_back({wanted ? gradients_[i].data() : nullptr, options_.accumulate});
      if (options_.accumulate) {
        gradients_[i].store(downstream_[i].dtype,
                            Values(static_cast<size_t>(types_[i].elements()), 0.5));
      }
    }
    const bool shared = options_.in_place && keep.backward_in_place &&
                        downstream_[0].bytes() == upstream_.bytes();
    const Memory& upstream = shared ? gradients_[0] : dy_;
    upstream.store(upstream_.dtype, dy);
    Binding b = binding();
    b.operands = addresses_;
    b.result = keep.output ? value().data() : nullptr;
    b.dy = upstream.data();
    b.gradients = gradients;
    run(op_.backward(b));
    addresses_.clear();
    std::vector<Values> result;
    for (size_t i = 0; i < types_.size(); ++i) {
      result.push_back(gradients[i].data ? gradients_[i].load(downstream_[i].dtype) : Values{});
    }
    return result;
  }

 private:
  bool same_size() const { return types_[0].bytes() == output_.bytes(); }
  /// The output's memory, which may be operand 0.
  const Memory& value() const {
    const Keep keep = op_.keep();
    const bool free = !keep.operand(0) && keep.forward_in_place;
    const bool shared = options_.in_place && same_size() && (free || keep.view);
    return shared ? operands_[0] : y_;
  }
  Binding binding() {
    Binding b;
    b.inputs = types_;
    b.output = output_;
    b.saved = saved_.data();
    b.scratch = scratch_.data();
    b.record = record_.data();
    b.status = &status_;
    b.stream = 3;
    b.threads = options_.threads;
    return b;
  }
  void run(const Kernel& kernel) const {
    if (kernel) kernel(step_);
  }

  X op_;
  RunOptions options_;
  std::vector<TensorType> types_;
  TensorType output_;
  TensorType upstream_;                 // of dy
  std::vector<TensorType> downstream_;  // of the operands' gradients
  Memory y_, dy_, saved_, scratch_, record_;
  std::vector<Memory> operands_, gradients_;
  std::vector<std::byte*> addresses_;
  NodeStatus status_;
  Step step_{mode::float_train, 11, 5};
};

}  // namespace qtape::test
