#include "qtape/integer/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "qtape/core/printable.h"
#include "qtape/integer/linear_kernel.h"
#include "qtape/integer/session_hooks.h"
#include "qtape/kernels/simd/threads.h"

namespace qtape {
namespace {

SessionOptions checked(const SessionOptions& options) {
  require<ArgumentError>(options.threads >= 1, "threads must be at least 1, got {}",
                         options.threads);
  return options;
}

size_t at(NodeId id) { return static_cast<size_t>(id.index); }

}  // namespace

IntegerSession::IntegerSession(const IntegerProgram& program, SessionOptions options)
    : IntegerSession(program, options, SessionHooks{}) {}

IntegerSession::IntegerSession(const IntegerProgram& program, SessionOptions options,
                               const SessionHooks& hooks)
    : program_(program),
      options_(checked(options)),
      path_(hooks.path),
      values_(static_cast<size_t>(program.size())),
      has_value_(values_.size(), true) {
  bind();
}

std::optional<NodeId> IntegerSession::follower(NodeId id) const {
  if (options_.reference || options_.keep_accumulators) return std::nullopt;
  if (!std::holds_alternative<integer::Linear>(program_[id].op)) return std::nullopt;
  if (std::ranges::find(program_.outputs(), id) != program_.outputs().end()) {
    return std::nullopt;
  }
  std::optional<NodeId> found;
  for (int32_t i = 0; i < program_.size(); ++i) {
    const auto& operands = program_[NodeId{i}].operands;
    if (std::ranges::find(operands, id) == operands.end()) continue;
    if (found) return std::nullopt;
    found = NodeId{i};
  }
  if (!found) return std::nullopt;
  const IntegerOp& op = program_[*found].op;
  const bool follows = std::holds_alternative<integer::Requantize>(op) ||
                       std::holds_alternative<integer::Dequantize>(op);
  return follows ? found : std::nullopt;
}

IntegerBinding IntegerSession::binding(NodeId id) const {
  const IntegerNode& node = program_[id];
  IntegerBinding b{.output = node.value,
                   .result = values_[at(id)].data(),
                   .requantization = program_.requantization(),
                   .threads = options_.threads,
                   .path = path_};
  for (NodeId operand : node.operands) {
    b.inputs.push_back(program_[operand].value);
    b.operands.push_back(values_[at(operand)].data());
  }
  return b;
}

void IntegerSession::bind() {
  const SerialLibraries serial;
  for (int32_t i = 0; i < program_.size(); ++i) {
    const NodeId id{i};
    has_value_[at(id)] = !follower(id);
    if (has_value_[at(id)]) values_[at(id)] = AlignedBuffer(program_[id].value.type.bytes());
  }
  std::vector<bool> done(values_.size());
  for (int32_t i = 0; i < program_.size(); ++i) {
    const NodeId id{i};
    if (done[at(id)]) continue;
    if (const auto next = follower(id)) {
      done[at(*next)] = true;
      kernels_.push_back({bind_fused(id, *next), id});
      continue;
    }
    IntegerKernel kernel = std::visit(
        [&](const auto& op) {
          return options_.reference ? op.reference(binding(id)) : op.kernel(binding(id));
        },
        program_[id].op);
    if (kernel) kernels_.push_back({std::move(kernel), id});
  }
}

IntegerKernel IntegerSession::bind_fused(NodeId linear, NodeId next) const {
  const auto& op = std::get<integer::Linear>(program_[linear].op);
  const IntegerBinding b = binding(linear);
  if (const auto* codes = std::get_if<integer::Requantize>(&program_[next].op)) {
    return linear_kernel(op, b, epilogue(op, b, *codes, binding(next)));
  }
  const auto& floats = std::get<integer::Dequantize>(program_[next].op);
  return linear_kernel(op, b, epilogue(op, b, floats, binding(next)));
}

std::span<float> IntegerSession::input(NodeId id) {
  if (!std::holds_alternative<integer::Input>(program_[id].op)) {
    fail<GraphError>("{}: is not an input", program_.describe(id));
  }
  return {reinterpret_cast<float*>(values_[at(id)].data()),
          static_cast<size_t>(program_[id].value.type.elements())};
}

void IntegerSession::run() {
  const SerialLibraries serial;
  for (const Bound& bound : kernels_) {
    try {
      bound.kernel();
    } catch (const GraphError& error) {
      throw GraphError(program_.describe(bound.node) + ": " + error.what());
    }
  }
}

bool IntegerSession::has_value(NodeId id) const {
  (void)program_[id];
  return has_value_[at(id)];
}

const std::byte* IntegerSession::data(NodeId id, DType dtype) const {
  const IntegerNode& node = program_[id];
  if (!has_value_[at(id)]) {
    fail<GraphError>("{}: its accumulators became codes at once; keep_accumulators keeps them",
                     program_.describe(id));
  }
  if (node.value.type.dtype != dtype) {
    fail<GraphError>("{}: is {}, accessed as {}", program_.describe(id),
                     to_string(node.value.type), to_string_view(dtype));
  }
  return values_[at(id)].data();
}

int64_t IntegerSession::integer(NodeId id, int64_t i) const {
  const DType dtype = program_[id].value.type.dtype;
  if (dtype == DType::F32) fail<GraphError>("{}: has no integers", program_.describe(id));
  if (i < 0 || i >= program_[id].value.type.elements()) {
    fail<GraphError>("{}: has {} elements, asked for {}", program_.describe(id),
                     program_[id].value.type.elements(), i);
  }
  const std::byte* first = data(id, dtype);
  return dispatch_integers(dtype, [&]<class T>() {
    return static_cast<int64_t>(reinterpret_cast<const T*>(first)[i]);
  });
}

std::string IntegerSession::report() const {
  std::string text;
  for (int32_t i = 0; i < program_.size(); ++i) {
    const IntegerNode& node = program_[NodeId{i}];
    const auto* linear = std::get_if<integer::Linear>(&node.op);
    if (linear == nullptr) continue;
    const IntegerValue& x = program_[node.operands[0]].value;
    text += fmt::format("{}: {}\n", printable(program_.name(NodeId{i})),
                        options_.reference ? "reference loops"
                        : path_            ? std::string(to_string_view(*path_))
                                           : explain_path(linear->certificate, x));
  }
  return text;
}

}  // namespace qtape
