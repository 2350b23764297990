#include "qtape/integer/program/session.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "qtape/core/aligned.h"
#include "qtape/core/error.h"
#include "qtape/core/out_of_memory.h"
#include "qtape/core/printable.h"
#include "qtape/core/process_limits.h"
#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/products/epilogue.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/program_plan.h"
#include "qtape/integer/program/session_hooks.h"
#include "qtape/kernels/quantize/rounding_trials.h"
#include "qtape/kernels/simd/threads.h"

namespace qtape {
namespace {

SessionOptions checked(const SessionOptions& options) {
  require<ArgumentError>(options.threads >= 1, "threads must be at least 1, got {}",
                         options.threads);
  return options;
}

Epilogue epilogue_of(const IntegerOp& op, const IntegerBinding& b) {
  return std::visit(
      [&]<class X>(const X& each) -> Epilogue {
        if constexpr (HasEpilogue<X>) return each.epilogue(b);
        fail<Error>("{} does not read products", X::name);
      },
      op);
}

/// Throws GraphError unless the value of the node has this dtype.
void check_access(const IntegerProgram& program, ProgramNodeId id, DType dtype) {
  const TensorType& type = program[id].value.type;
  if (type.dtype == dtype) return;
  fail<GraphError>("{}: is {}, accessed as {}", program.describe(id), to_string(type),
                   to_string_view(dtype));
}

}  // namespace

/// A copy of the program, its memory and its kernels.
class IntegerSession::Bound {
 public:
  Bound(const IntegerProgram& program, const SessionOptions& options,
        const SessionHooks& hooks);

  const IntegerProgram& program() const { return program_; }
  std::byte* memory(ProgramNodeId id) const;
  bool is_kept(ProgramNodeId id) const { return plan_.values[at(id)].kept; }
  void run() const;
  std::string report() const;

 private:
  struct Step {
    IntegerKernel kernel;
    ProgramNodeId node;
  };

  IntegerBinding binding(ProgramNodeId id) const;
  IntegerKernel bind_node(ProgramNodeId id, std::optional<ProgramNodeId> next) const;
  void bind();

  IntegerProgram program_;
  SessionOptions options_;
  std::optional<ProductPath> path_;
  ProgramPlan plan_;
  AlignedBuffer arena_;
  std::vector<Step> steps_;
};

IntegerSession::Bound::Bound(const IntegerProgram& program, const SessionOptions& options,
                             const SessionHooks& hooks) try
    : program_(program),
      options_(checked(options)),
      path_(hooks.path),
      plan_(plan_program(program_, options.reference ? KeptValues::All : options.kept)),
      arena_(plan_.arena_bytes) {
  bind();
} catch (const std::bad_alloc& error) {
  fail_while("binding a session", {}, error);
}

std::byte* IntegerSession::Bound::memory(ProgramNodeId id) const {
  const std::optional<int64_t> offset = plan_.values[at(id)].offset;
  return offset ? arena_.data() + *offset : nullptr;
}

IntegerBinding IntegerSession::Bound::binding(ProgramNodeId id) const {
  const IntegerNode& node = program_[id];
  IntegerBinding b{.output = &node.value,
                   .result = memory(id),
                   .requantization = program_.requantization(),
                   .threads = options_.threads,
                   .path = path_};
  for (ProgramNodeId operand : node.operands) {
    b.inputs.push_back(&program_[operand].value);
    b.operands.push_back(memory(operand));
  }
  return b;
}

void IntegerSession::Bound::bind() {
  if (!options_.reference) {
    require_address_space("binding a session", binding_bytes);
    kernels::require_exact_rounding();
  }
  const ComputingThread serial;
  std::vector<bool> done(plan_.values.size());
  for (const ProgramNodeId id : ids(program_)) {
    if (done[at(id)]) continue;
    const std::optional<ProgramNodeId> next = plan_.values[at(id)].next;
    if (next) done[at(*next)] = true;
    IntegerKernel kernel = bind_node(id, next);
    if (kernel.load) {
      const Fault fault = kernel.load();
      if (fault.text != nullptr) {
        fail<GraphError>("{}: {}", program_.describe(id), to_string(fault));
      }
    }
    if (kernel.run) steps_.push_back({std::move(kernel), id});
  }
}

IntegerKernel IntegerSession::Bound::bind_node(ProgramNodeId id,
                                               std::optional<ProgramNodeId> next) const {
  return std::visit(
      [&](const auto& op) -> IntegerKernel {
        if (options_.reference) return op.reference(binding(id));
        if constexpr (TakesEpilogue<std::decay_t<decltype(op)>>) {
          if (next)
            return op.optimized(binding(id), epilogue_of(program_[*next].op, binding(*next)));
        }
        return op.optimized(binding(id));
      },
      program_[id].op);
}

void IntegerSession::Bound::run() const {
  const ComputingThread serial;
  for (const Step& step : steps_) {
    try {
      step.kernel.run();
    } catch (const GraphError& error) {
      throw GraphError(program_.describe(step.node) + ": " + error.what());
    }
  }
}

std::string IntegerSession::Bound::report() const {
  std::string text;
  for (const ProgramNodeId id : ids(program_)) {
    const IntegerNode& node = program_[id];
    if (weights_of(node.op) == nullptr) continue;
    const IntegerValue& x = program_[node.operands[0]].value;
    text += fmt::format("{}: {}\n", printable(program_.name(id)),
                        options_.reference ? "reference loops" : explain(node.op, x, path_));
  }
  return text;
}

IntegerSession::IntegerSession(const IntegerProgram& program, SessionOptions options)
    : IntegerSession(program, options, SessionHooks{}) {}

IntegerSession::IntegerSession(const IntegerProgram& program, SessionOptions options,
                               const SessionHooks& hooks)
    : bound_("session", std::make_unique<Bound>(program, options, hooks)) {}

IntegerSession::IntegerSession(IntegerSession&&) noexcept = default;
IntegerSession& IntegerSession::operator=(IntegerSession&&) noexcept = default;
IntegerSession::~IntegerSession() = default;

const IntegerProgram& IntegerSession::program() const { return bound_->program(); }

void IntegerSession::run() { bound_->run(); }

std::string IntegerSession::report() const { return bound_->report(); }

std::span<std::byte> IntegerSession::input_bytes(ProgramNodeId id, DType dtype) {
  const IntegerNode& node = program()[id];
  if (!std::holds_alternative<integer::Input>(node.op)) {
    fail<GraphError>("{}: is not an input", program().describe(id));
  }
  check_access(program(), id, dtype);
  return {bound_->memory(id), static_cast<size_t>(node.value.type.bytes())};
}

bool IntegerSession::has_value(ProgramNodeId id) const {
  (void)program()[id];
  return bound_->is_kept(id);
}

std::span<const std::byte> IntegerSession::bytes(ProgramNodeId id) const {
  const IntegerNode& node = program()[id];
  if (!bound_->is_kept(id)) {
    fail<GraphError>(
        "{}: its value is not kept; SessionOptions::kept selects the values that are",
        program().describe(id));
  }
  return {bound_->memory(id), static_cast<size_t>(node.value.type.bytes())};
}

std::span<const std::byte> IntegerSession::bytes(ProgramNodeId id, DType dtype) const {
  const std::span<const std::byte> found = bytes(id);
  check_access(program(), id, dtype);
  return found;
}

int64_t IntegerSession::integer(ProgramNodeId id, int64_t i) const {
  const TensorType& type = program()[id].value.type;
  if (type.dtype == DType::F32) fail<GraphError>("{}: has no integers", program().describe(id));
  if (i < 0 || i >= type.elements()) {
    fail<GraphError>("{}: has {} elements, element {} was requested", program().describe(id),
                     type.elements(), i);
  }
  const std::byte* first = bytes(id, type.dtype).data();
  return dispatch_integers(type.dtype, [&]<class T>() {
    return static_cast<int64_t>(reinterpret_cast<const T*>(first)[i]);
  });
}

}  // namespace qtape
