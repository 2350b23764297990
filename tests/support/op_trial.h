// OpTrial: one use of an op in one dtype, with all checks.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>

#include "qtape/engine/contract.h"
#include "qtape/engine/plan_hooks.h"
#include "qtape/engine/print.h"
#include "qtape/engine/tape.h"
#include "qtape/kernels/simd/threads.h"
#include "qtape/tests/support/isa_limit.h"
#include "qtape/tests/support/op_case.h"

namespace qtape::test {

using Bytes = std::string;  // compared at once

inline double epsilon(DType dtype) {
  if (dtype == DType::F64) return 0x1p-52;
  if (dtype == DType::F32) return 0x1p-23;
  if (dtype == DType::F16) return 0x1p-10;
  return dtype == DType::BF16 ? 0x1p-7 : 0;
}

inline bool agrees(double got, double expected, double error) {
  if (std::isnan(got) || std::isnan(expected)) return std::isnan(got) && std::isnan(expected);
  if (error == 0) return std::bit_cast<uint64_t>(got) == std::bit_cast<uint64_t>(expected);
  return got == expected ||
         std::fabs(got - expected) <= error * std::max(1.0, std::fabs(expected));
}

/// Checks that no element is off by more than `roundings` of the dtype; NaN agrees with NaN.
inline void check_values(const Values& got, const Values& expected, DType dtype,
                         double roundings) {
  REQUIRE(got.size() == expected.size());
  const double error = roundings * epsilon(dtype);
  for (size_t i = 0; i < got.size(); ++i) {
    if (agrees(got[i], stored(expected[i], dtype), error)) continue;
    CAPTURE(i);
    CAPTURE(expected[i]);
    CAPTURE(got[i]);
    FAIL_CHECK("differs by more than the op promises");
    return;
  }
}

inline Bytes bytes_of(const void* data, int64_t size) {
  return {static_cast<const char*>(data), static_cast<size_t>(size)};
}

/// Writes `values` to a leaf of the tape; the gradient of a parameter becomes 0.5.
inline void write_leaf(Tape& tape, NodeId id, const Values& values) {
  const Node& leaf = tape.graph()[id];
  const Memory memory(leaf.type.bytes());
  memory.store(leaf.type.dtype, values);
  const auto n = memory.bytes().size();
  if (!is_persistent(leaf.op)) {
    dispatch_element(leaf.type.dtype, [&]<class T>() {
      std::memcpy(tape.input<T>(id).data(), memory.data(), n);
    });
    return;
  }
  const ParameterEntry& entry = tape.parameters().at(leaf.label);
  std::memcpy(entry.value, memory.data(), n);
  if (!entry.trainable()) return;
  memory.store(leaf.type.dtype, Values(values.size(), 0.5));
  std::memcpy(entry.gradient, memory.data(), n);
}

inline Bytes value_bytes(const Tape& tape, NodeId id) {
  const TensorType& type = tape.graph()[id].type;
  return dispatch_element(
      type.dtype, [&]<class T>() { return bytes_of(tape.value<T>(id).data(), type.bytes()); });
}

/// Returns the gradient of a parameter, or of an input for which it was requested.
inline Bytes gradient_bytes(const Tape& tape, NodeId id) {
  const Node& leaf = tape.graph()[id];
  if (is_persistent(leaf.op)) {
    return bytes_of(tape.parameters().at(leaf.label).gradient, leaf.type.bytes());
  }
  return dispatch_float(leaf.type.dtype, [&]<class T>() {
    return bytes_of(tape.input_gradient<T>(id).data(), leaf.type.bytes());
  });
}

inline void run_backward(Tape& tape, NodeId root, const Array& dy) {
  const Memory memory(dy.type.bytes());
  memory.store(dy.type.dtype, dy.values);
  dispatch_float(dy.type.dtype, [&]<class T>() {
    tape.backward(root, std::span(reinterpret_cast<const T*>(memory.data()), dy.values.size()));
  });
}

/// One use of an op in one dtype.
class OpTrial {
 public:
  OpTrial(const OpCase& op_case, const OpUse& use, DType dtype)
      : case_(op_case),
        use_(use),
        dtype_(dtype),
        slots_(slots_of(use.op)),
        x_(make_operands(use, dtype)),
        plain_(make_run(use, x_)) {
    dy_.type = plain_.upstream();
    // Integers stay exact in sums of products with multiples of 1/8.
    const bool whole = std::ranges::all_of(
        use.operands, [](const Operand& each) { return each.fill == Fill::Integers; });
    dy_.values = random_values(dy_.type.elements(), 99);
    for (double& each : dy_.values) {
      each = stored(whole ? std::floor(8 * each) / 8 : each, dy_.type.dtype);
    }
  }

  std::string text() const {
    std::string types;
    for (const Array& each : x_) types += " " + to_string(each.type);
    return to_string(use_.op) + types;
  }

  void check_value(double roundings) {
    const Values value = plain_.forward();
    const Bytes bytes(plain_.value().bytes());
    const Array expected = case_.value(use_, x_);
    CHECK(expected.type == plain_.output());
    check_values(value, expected.values, plain_.output().dtype, roundings);
    CHECK(plain_.status().fault.text == nullptr);
    gradients_ = plain_.backward(dy_.values);
    expected_ = {bytes, outcome(plain_).gradients};
  }

  /// Checks that threads, shared buffers and instruction sets change no bit.
  void check_variants() const {
    const Guarantee promised = contract(use_.op, types_of(x_)).guarantee;
    CHECK(outcome({.in_place = true}) == expected_);
    for (int threads : {2, 4}) {
      CAPTURE(threads);
      if (promised.threads) CHECK(outcome({.threads = threads}) == expected_);
    }
    // The best one is that of `expected_`.
    for (const std::string_view isa : {enum_names<Isa>[0], enum_names<Isa>[1]}) {
      CAPTURE(isa);
      const IsaLimit limit(isa);
      if (promised.instruction_sets) {
        CHECK(with_one_nan(outcome({})) == with_one_nan(expected_));
      }
    }
  }

  void check_gradients() {
    bool any = false;
    for (size_t i = 0; i < x_.size(); ++i) any = any || plain_.has_gradient(i);
    if (!any) {
      for (size_t i = 0; i < x_.size(); ++i) {
        // Memory is initially filled with 0xcd.
        const std::string_view bytes = plain_.gradient(i).bytes();
        CHECK(bytes == Bytes(bytes.size(), '\xcd'));
      }
      return;
    }
    check_accumulation();
    check_unwanted();
    if (case_.gradient) {
      check_gradients_against(case_.gradient(use_, x_, dy_));
    } else if (dtype_ == DType::F32) {
      check_gradients_against(wide_gradients());
    }
  }

  /// Checks central differences of forward: along each element of a small operand, and along a
  /// random direction.
  void check_differences() const {
    if (dtype_ != DType::F64 || (case_.straight_through && use_.mode.quantize)) return;
    for (size_t i = 0; i < x_.size(); ++i) {
      const Operand& operand = use_.operands[i];
      if (!plain_.has_gradient(i) || operand.fill != Fill::Uniform) continue;
      if (!operand.values.empty() && !operand.scales) continue;
      CAPTURE(i);
      const size_t n = x_[i].values.size();
      for (size_t k = 0; k < n && n <= 64; ++k) {
        Values along(n);
        along[k] = 1;
        const double h = 1e-6 * std::max(1.0, std::fabs(x_[i].values[k]));
        CAPTURE(k);
        CHECK(gradients_[i][k] == doctest::Approx(slope(i, along, h)).epsilon(2e-7).scale(1));
      }
      const Values along = random_values(static_cast<int64_t>(n), 7);
      const double expected =
          std::inner_product(along.begin(), along.end(), gradients_[i].begin(), 0.0);
      CHECK(agrees(slope(i, along, 1e-6), expected, 1e-6));
    }
  }

  /// Checks that a tape computes the op's bits with and without shared memory, for parameters
  /// and inputs.
  void check_tapes() const {
    const auto plain = tape_outcome({}, {.share_memory = false, .guard_bytes = 64});
    const bool comparable =
        std::ranges::all_of(slots_, [](const Slot& s) { return s.scales == Scales::None; });
    if (comparable) check_outcome(plain, expected_, "a tape");
    check_outcome(tape_outcome({}, {}), plain, "shared memory");
    const Outcome added = comparable ? outcome({.accumulate = true}) : plain;
    if (comparable)
      check_outcome(tape_outcome({.accumulate = true}, {}), added, "accumulation");
    for (bool accumulate : {false, true}) {
      const int64_t guard = accumulate ? 0 : 64;
      check_outcome(tape_outcome({.accumulate = accumulate, .inputs = true},
                                 {.share_memory = accumulate, .guard_bytes = guard}),
                    plain, accumulate ? "inputs, accumulation" : "inputs");
    }
    for (size_t i = 0; i < x_.size() && x_.size() > 1 && x_.size() < 8; ++i) {
      if (!trains(i) || slots_[i].access == Access::ReadWrite) continue;
      check_outcome(tape_outcome({.fixed = i}, {.share_memory = false, .guard_bytes = 64}),
                    plain, "an operand without gradient");
    }
  }

 private:
  /// The bytes of the output and of the existing gradients, by operand.
  struct Outcome {
    Bytes value;
    std::map<size_t, Bytes> gradients;
    bool operator==(const Outcome&) const = default;
  };
  /// Leaves of a tape that are bound to the operands.
  struct Leaves {
    bool accumulate = false;        ///< parameters' gradients add to 0.5
    bool inputs = false;            ///< inputs with requested gradients instead of parameters
    std::optional<size_t> fixed{};  ///< an operand that is an input without gradient
  };

  bool trains(size_t i) const { return plain_.has_gradient(i) && is_float(x_[i].type.dtype); }

  Outcome outcome(const OpRun& run) const {
    Outcome result{Bytes(run.value().bytes()), {}};
    for (size_t i = 0; i < x_.size(); ++i) {
      if (run.has_gradient(i)) result.gradients[i] = run.gradient(i).bytes();
    }
    return result;
  }
  Outcome outcome(RunOptions options) const {
    OpRun run = make_run(use_, x_, options);
    if (const Kernel kernel = run.bind_forward()) kernel(run.step());
    const Bytes value(run.value().bytes());
    if (const Kernel kernel = run.bind_backward(dy_.values)) kernel(run.step());
    return {value, outcome(run).gradients};
  }

  /// Returns the outcome with the same bits for all NaNs: whether a sum has the NaN of its
  /// first or its second term is up to the compiler.
  Outcome with_one_nan(Outcome outcome) const {
    outcome.value = with_one_nan(std::move(outcome.value), plain_.output().dtype);
    for (auto& [i, bytes] : outcome.gradients) {
      bytes = with_one_nan(std::move(bytes), plain_.gradient_type_of(i).dtype);
    }
    return outcome;
  }
  static Bytes with_one_nan(Bytes bytes, DType dtype) {
    const auto replace = [&]<class T>() {
      for (size_t at = 0; at < bytes.size(); at += sizeof(T)) {
        T value;
        std::memcpy(&value, bytes.data() + at, sizeof value);
        if (!std::isnan(value)) continue;
        value = std::numeric_limits<T>::quiet_NaN();
        std::memcpy(bytes.data() + at, &value, sizeof value);
      }
    };
    if (dtype == DType::F32) replace.operator()<float>();
    if (dtype == DType::F64) replace.operator()<double>();
    return bytes;
  }

  static void check_outcome(const Outcome& got, const Outcome& expected,
                            const std::string& what) {
    CAPTURE(what);
    CHECK(got.value == expected.value);
    for (const auto& gradient : got.gradients) {
      CAPTURE(gradient.first);
      CHECK(gradient.second == expected.gradients.at(gradient.first));
    }
  }

  void check_accumulation() const {
    OpRun run = make_run(use_, x_, {.accumulate = true});
    run.forward();
    const auto added = run.backward(dy_.values);
    // If a gradient is rounded before it is added, the sum is exact.
    const bool exact = case_.tolerance.gradient == 0 && !case_.straight_through;
    const double roundings = exact ? 0 : std::max(4.5, case_.tolerance.gradient);
    for (size_t i = 0; i < x_.size(); ++i) {
      if (!run.has_gradient(i)) continue;
      Values sums = gradients_[i];
      for (double& each : sums) each += 0.5;
      CAPTURE(i);
      check_values(added[i], sums, run.gradient_type_of(i).dtype, roundings);
    }
    CHECK(outcome({.threads = 4, .accumulate = true}).gradients == outcome(run).gradients);
  }

  /// Checks that omitting one gradient changes no bit of the others.
  void check_unwanted() const {
    for (size_t i = 0; i < x_.size() && x_.size() > 1 && x_.size() < 8; ++i) {
      if (!plain_.has_gradient(i)) continue;
      Outcome got = outcome({.unwanted = static_cast<int>(i)});
      Outcome others = expected_;
      got.gradients.erase(i);
      others.gradients.erase(i);
      CHECK(got == others);
    }
  }

  void check_gradients_against(const std::vector<Values>& expected) const {
    for (size_t i = 0; i < x_.size(); ++i) {
      if (!plain_.has_gradient(i)) continue;
      CAPTURE(i);
      check_values(gradients_[i], expected[i], plain_.gradient_type_of(i).dtype,
                   case_.tolerance.gradient);
    }
  }

  /// Returns the gradients in f64 for the same values.
  std::vector<Values> wide_gradients() const {
    std::vector<Array> wide = x_;
    for (Array& each : wide) {
      if (each.type.dtype == DType::F32) each.type.dtype = DType::F64;
    }
    OpRun run = make_run(use_, wide);
    run.forward();
    return run.backward(dy_.values);
  }

  double slope(size_t i, const Values& along, double h) const {
    const auto objective = [&](double step) {
      std::vector<Array> moved = x_;
      for (size_t k = 0; k < along.size(); ++k) moved[i].values[k] += step * along[k];
      const Values y = make_run(use_, moved).forward();
      return std::inner_product(y.begin(), y.end(), dy_.values.begin(), 0.0);
    };
    return (objective(h) - objective(-h)) / (2 * h);
  }

  Op leaf(size_t i, const Leaves& leaves) const {
    const TensorType& type = x_[i].type;
    const bool written = slots_[i].access == Access::ReadWrite;
    if (written && !slots_[i].differentiable) {
      return State{.dtype = type.dtype, .shape = type.shape};
    }
    const bool trained = trains(i) && is_compute(type.dtype) && leaves.fixed != i;
    if (written || (trained && !leaves.inputs)) {
      return Parameter{.dtype = type.dtype, .shape = type.shape};
    }
    return Input{.dtype = type.dtype, .shape = type.shape, .batch = false};
  }

  Outcome tape_outcome(const Leaves& leaves, const PlanHooks& hooks) const {
    Graph graph;
    std::vector<NodeId> sources;
    std::vector<NodeId> operands;
    std::vector<NodeId> asked;
    bool reached = false;
    for (size_t i = 0; i < x_.size(); ++i) {
      const Op op = leaf(i, leaves);
      sources.push_back(graph.add(op, {}, "x" + std::to_string(i)));
      const bool parameter = std::holds_alternative<Parameter>(op);
      const bool ask = trains(i) && !parameter && leaves.fixed != i;
      if (ask) asked.push_back(sources[i]);
      reached = reached || ask || (parameter && trains(i));
    }
    for (size_t i = 0; i < x_.size(); ++i) {
      const bool each = slots_[i].scales == Scales::OneOrEach;
      const FakeQuantize quantizer{.axis = each ? std::optional(0) : std::nullopt};
      operands.push_back(slots_[i].scales == Scales::None ? sources[i]
                                                          : graph.add(quantizer, {sources[i]}));
    }
    const NodeId y = graph.add(use_.op, operands, "y");
    Parameters parameters(graph, 1);
    TapeOptions options{.outputs = {y},
                        .input_gradients = asked,
                        .threads = 1,
                        .seed = OpRun::seed,
                        .accumulate_gradients = leaves.accumulate};
    if (reached) options.roots = {y};
    Tape tape(graph, parameters, options, hooks);
    for (size_t i = 0; i < x_.size(); ++i) {
      const int64_t n = x_[i].type.elements();
      const bool scales = slots_[i].scales != Scales::None;
      write_leaf(tape, sources[i], scales ? random_values(n, 31) : x_[i].values);
    }
    tape.set_step(static_cast<int64_t>(OpRun::number));
    tape.forward(use_.mode);
    Outcome result{value_bytes(tape, y), {}};
    CHECK(tape.guards_intact());
    if (!reached) return result;
    run_backward(tape, y, dy_);
    CHECK(tape.guards_intact());
    for (size_t i = 0; i < x_.size(); ++i) {
      if (!trains(i) || leaves.fixed == i) continue;
      const bool parameter = is_persistent(graph[sources[i]].op);
      // Gradients of inputs are not accumulated.
      if (leaves.accumulate && !leaves.inputs && !parameter) continue;
      if (leaves.accumulate && leaves.inputs && parameter) continue;
      result.gradients[i] = gradient_bytes(tape, sources[i]);
    }
    return result;
  }

  // As a tape does: threads of oneDNN itself would change the order of its sums.
  kernels::ComputingThread serial_;
  const OpCase& case_;
  const OpUse& use_;
  DType dtype_;
  std::vector<Slot> slots_;
  std::vector<Array> x_;
  Array dy_;
  OpRun plain_;
  std::vector<Values> gradients_;
  Outcome expected_;
};

}  // namespace qtape::test
