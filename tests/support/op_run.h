// OpRun: a single op with its own memory, without an engine.
#pragma once

#include <cstring>
#include <new>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "qtape/core/half.h"
#include "qtape/core/random.h"
#include "qtape/ops/op_queries.h"
#include "qtape/ops/ops.h"

namespace qtape::test {

using Values = std::vector<double>;

/// Returns `n` uniform values in [low, high), a pure function of seed and stream.
Values random_values(int64_t n, uint64_t seed, double low = -1, double high = 1,
                     uint64_t stream = 77);
/// Returns values uniform in [-1, 1).
std::vector<float> random_floats(size_t n, uint64_t seed);

/// Returns `values` rounded to T.
template <class T>
std::vector<T> numbers(const Values& values) {
  std::vector<T> result;
  for (double each : values) result.push_back(static_cast<T>(each));
  return result;
}

/// Calls `body.template operator()<T>()` with the storage type of any dtype.
template <class Body>
auto dispatch_element(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::S64:
      return body.template operator()<int64_t>();
    case DType::S32:
      return body.template operator()<int32_t>();
    case DType::S16:
      return body.template operator()<int16_t>();
    case DType::U16:
      return body.template operator()<uint16_t>();
    case DType::S8:
      return body.template operator()<int8_t>();
    case DType::U8:
      return body.template operator()<uint8_t>();
    default:
      return dispatch_float(dtype, body);
  }
}

/// Returns `x` as stored in `dtype`: rounded half to even for floats, exact for integers.
double stored(double x, DType dtype);

/// Memory at a 64-byte boundary with no slack, so that a sanitizer detects every overrun.
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
  /// Returns the raw bytes, for comparison.
  std::string_view bytes() const { return {reinterpret_cast<const char*>(data_), size_}; }
  void store(DType dtype, const Values& values) const;
  /// Copies numbers from and to a list of the same size in bytes.
  template <class T>
  void put(const std::vector<T>& from) const {
    if (sizeof(T) * from.size() != size_) throw std::length_error("numbers do not fit");
    if (size_ > 0) std::memcpy(data_, from.data(), size_);
  }
  template <class T>
  void get(std::vector<T>& to) const {
    to.resize(size_ / sizeof(T));
    if (size_ > 0) std::memcpy(to.data(), data_, size_);
  }
  Values load(DType dtype) const;

 private:
  std::byte* data_;
  size_t size_;
};

/// Options of a run.
struct RunOptions {
  int threads = 1;
  bool in_place = false;    ///< shares buffers if keep() permits it
  bool accumulate = false;  ///< adds to gradients that hold 0.5
  int unwanted = -1;        ///< an operand whose gradient is not requested
  Mode mode = mode::qat;
};

/// An op with operands of `types` that hold `operands`; for slots with scales these are the
/// scales. Backward receives exactly what keep() names. Random numbers are those of a tape with
/// `seed` in step `number` whose nodes are the operands followed by the op.
class OpRun {
 public:
  static constexpr uint64_t seed = 11;
  static constexpr uint64_t number = 5;

  OpRun(Op op, std::vector<TensorType> types, const std::vector<Values>& operands,
        RunOptions options = {});

  const TensorType& output() const { return output_; }
  NodeStatus& status() { return status_; }
  Step& step() { return step_; }
  RunOptions& options() { return options_; }
  /// Returns the output, which may share the memory of operand 0.
  const Memory& value() const;
  Values result() const { return value().load(output_.dtype); }
  /// Return the memory of operand `i`, of dy and of the record.
  const Memory& memory(size_t i) const { return operands_[i]; }
  const Memory& dy() const { return own_[Upstream]; }
  const Memory& record() const { return own_[Record]; }
  /// Returns the current contents of operand `i`.
  Values operand(size_t i) const { return operands_[i].load(stored_[i]); }
  /// True if backward computes a gradient of operand `i`: both sides are floats or codes.
  bool has_gradient(size_t i) const;
  /// Return the memory and the type of the gradient of operand `i`.
  const Memory& gradient(size_t i) const { return gradients_[i]; }
  const TensorType& gradient_type_of(size_t i) const { return downstream_[i]; }
  /// Returns the type of dy.
  const TensorType& upstream() const { return upstream_; }

  /// Return kernels bound to the run's memory, to be called with step(); empty if there is
  /// nothing to do. The backward kernel reads `dy`, which is rounded to the type of the
  /// gradient.
  Kernel bind_forward();
  Kernel bind_backward(const Values& dy);
  /// The same for dy and gradients that are in memory already.
  Kernel bind_backward();

  Values forward();
  /// Returns the gradients for the upstream gradient `dy`; empty for operands without gradient.
  std::vector<Values> backward(const Values& dy);

 private:
  Binding binding();
  bool wanted(size_t i) const;
  /// True if dy is written to the memory of the gradient of operand 0.
  bool shares_gradient() const;

  enum Own : size_t { Y, Upstream, Saved, Scratch, Record };

  Op op_;
  RunOptions options_;
  std::vector<Slot> slots_;
  std::vector<TensorType> types_;
  TensorType output_;
  Keep keep_;
  TensorType upstream_;                 // of dy
  std::vector<TensorType> downstream_;  // of the operands' gradients
  std::vector<DType> stored_;           // of the operands' memory
  std::vector<Memory> operands_, gradients_;
  std::vector<Memory> own_;  // y, dy, saved, scratch, record
  std::vector<ScaleSource> sources_;
  std::vector<std::byte*> addresses_;
  NodeStatus source_status_{.applied = true};
  NodeStatus status_;
  Step step_;
};

}  // namespace qtape::test
