#include "qtape/integer/program/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "qtape/core/out_of_memory.h"
#include "qtape/core/printable.h"
#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/products/epilogue.h"
#include "qtape/integer/program/session_hooks.h"
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

}  // namespace

IntegerSession::IntegerSession(const IntegerProgram& program, SessionOptions options)
    : IntegerSession(program, options, SessionHooks{}) {}

IntegerSession::IntegerSession(const IntegerProgram& program, SessionOptions options,
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

std::byte* IntegerSession::memory(NodeId id) const {
  const std::optional<int64_t> offset = plan_.values[at(id)].offset;
  return offset ? arena_.data() + *offset : nullptr;
}

IntegerBinding IntegerSession::binding(NodeId id) const {
  const IntegerNode& node = program_[id];
  IntegerBinding b{.output = &node.value,
                   .result = memory(id),
                   .requantization = program_.requantization(),
                   .threads = options_.threads,
                   .path = path_};
  for (NodeId operand : node.operands) {
    b.inputs.push_back(&program_[operand].value);
    b.operands.push_back(memory(operand));
  }
  return b;
}

void IntegerSession::bind() {
  const SerialLibraries serial;
  std::vector<bool> done(plan_.values.size());
  for (const NodeId id : ids(program_)) {
    if (done[at(id)]) continue;
    const std::optional<NodeId> next = plan_.values[at(id)].next;
    if (next) done[at(*next)] = true;
    IntegerKernel kernel = bind_node(id, next);
    if (kernel.load) {
      const Fault fault = kernel.load();
      if (fault.text != nullptr) {
        fail<GraphError>("{}: {}", program_.describe(id), to_string(fault));
      }
    }
    if (kernel.run) kernels_.push_back({std::move(kernel), id});
  }
}

IntegerKernel IntegerSession::bind_node(NodeId id, std::optional<NodeId> next) const {
  return std::visit(
      [&](const auto& op) -> IntegerKernel {
        if (options_.reference) return op.reference(binding(id));
        if constexpr (TakesEpilogue<std::decay_t<decltype(op)>>) {
          if (next)
            return op.kernel(binding(id), epilogue_of(program_[*next].op, binding(*next)));
        }
        return op.kernel(binding(id));
      },
      program_[id].op);
}

std::span<float> IntegerSession::input(NodeId id) {
  if (!std::holds_alternative<integer::Input>(program_[id].op)) {
    fail<GraphError>("{}: is not an input", program_.describe(id));
  }
  return {reinterpret_cast<float*>(memory(id)),
          static_cast<size_t>(program_[id].value.type.elements())};
}

void IntegerSession::run() {
  const SerialLibraries serial;
  for (const Bound& bound : kernels_) {
    try {
      bound.kernel.run();
    } catch (const GraphError& error) {
      throw GraphError(program_.describe(bound.node) + ": " + error.what());
    }
  }
}

bool IntegerSession::has_value(NodeId id) const {
  (void)program_[id];
  return plan_.values[at(id)].kept;
}

std::span<const std::byte> IntegerSession::bytes(NodeId id) const {
  const IntegerNode& node = program_[id];
  if (!plan_.values[at(id)].kept) {
    fail<GraphError>(
        "{}: its value is not kept; SessionOptions::kept selects the values that are",
        program_.describe(id));
  }
  return {memory(id), static_cast<size_t>(node.value.type.bytes())};
}

const std::byte* IntegerSession::data(NodeId id, DType dtype) const {
  const std::byte* found = bytes(id).data();
  const TensorType& type = program_[id].value.type;
  if (type.dtype != dtype) {
    fail<GraphError>("{}: is {}, accessed as {}", program_.describe(id), to_string(type),
                     to_string_view(dtype));
  }
  return found;
}

int64_t IntegerSession::integer(NodeId id, int64_t i) const {
  const DType dtype = program_[id].value.type.dtype;
  if (dtype == DType::F32) fail<GraphError>("{}: has no integers", program_.describe(id));
  if (i < 0 || i >= program_[id].value.type.elements()) {
    fail<GraphError>("{}: has {} elements, element {} was requested", program_.describe(id),
                     program_[id].value.type.elements(), i);
  }
  const std::byte* first = data(id, dtype);
  return dispatch_integers(dtype, [&]<class T>() {
    return static_cast<int64_t>(reinterpret_cast<const T*>(first)[i]);
  });
}

std::string IntegerSession::report() const {
  std::string text;
  for (const NodeId id : ids(program_)) {
    const IntegerNode& node = program_[id];
    if (weights_of(node.op) == nullptr) continue;
    const IntegerValue& x = program_[node.operands[0]].value;
    text += fmt::format("{}: {}\n", printable(program_.name(id)),
                        options_.reference ? "reference loops" : explain(node.op, x, path_));
  }
  return text;
}

}  // namespace qtape
