#include "qtape/engine/parameters.h"

#include <fmt/format.h>

#include <cstring>

#include "qtape/core/byte_order.h"
#include "qtape/core/float_environment.h"
#include "qtape/core/nearest.h"
#include "qtape/core/printable.h"
#include "qtape/engine/graph.h"
#include "qtape/io/sha256.h"

namespace qtape {
namespace {

constexpr int64_t largest_total = int64_t{1} << 60;

void fill(const Node& node, uint64_t seed, std::byte* value) {
  if (const auto* parameter = std::get_if<Parameter>(&node.op)) {
    initialize(parameter->initializer, seed, node.label, node.type, value);
  } else {
    const double start = std::get<State>(node.op).value;
    initialize(init::Fill{start}, seed, node.label, node.type, value);
  }
}

}  // namespace

void ParameterEntry::check_dtype(DType dtype) const {
  require<GraphError>(type.dtype == dtype, "'{}' is {}, accessed as {}", name, type,
                      to_string_view(dtype));
}

void ParameterEntry::check_trainable() const {
  require<GraphError>(trainable(), "'{}' is a state, which has no gradient", name);
}

Parameters::Parameters(const Graph& graph, uint64_t seed) {
  const FloatEnvironment floats;
  int64_t bytes = 0;
  for (const Node& node : graph.nodes()) {
    if (!is_persistent(node.op)) continue;
    const bool trainable = std::holds_alternative<Parameter>(node.op);
    const int64_t size = aligned_size(node.type.bytes()) * (trainable ? 2 : 1);
    if (size > largest_total - bytes) {
      fail<Error>("cannot allocate {} bytes for '{}': all parameters would exceed 2^60", size,
                  printable(node.label));
    }
    bytes += size;
  }
  memory_ = AlignedBuffer(bytes);
  std::byte* next = memory_.data();
  const auto take = [&](const TensorType& type) {
    std::byte* start = next;
    next += aligned_size(type.bytes());
    return start;
  };
  for (const Node& node : graph.nodes()) {
    if (!is_persistent(node.op)) continue;
    ParameterEntry entry{node.label, node.type, take(node.type), nullptr};
    if (std::holds_alternative<Parameter>(node.op)) entry.gradient = take(node.type);
    fill(node, seed, entry.value);
    index_.emplace(node.label, entries_.size());
    entries_.push_back(std::move(entry));
  }
  self_ = std::make_shared<Parameters*>(this);
}

Parameters::Parameters(Parameters&& other) noexcept
    : memory_(std::move(other.memory_)),
      entries_(std::move(other.entries_)),
      index_(std::move(other.index_)),
      self_(std::move(other.self_)) {
  if (self_) *self_ = this;
}

Parameters& Parameters::operator=(Parameters&& other) noexcept {
  if (this == &other) return *this;
  let_go();
  memory_ = std::move(other.memory_);
  entries_ = std::move(other.entries_);
  index_ = std::move(other.index_);
  self_ = std::move(other.self_);
  if (self_) *self_ = this;
  return *this;
}

Parameters::~Parameters() { let_go(); }

/// Invalidates all links.
void Parameters::let_go() {
  if (self_) *self_ = nullptr;
}

ParametersLink::ParametersLink(const Parameters& parameters) : parameters_(parameters.self_) {
  (void)parameters.entries();
}

Parameters& ParametersLink::get(std::string_view holder) const {
  require<GraphError>(parameters_ != nullptr,
                      "this {0} was moved from; use the {0} that it was moved to", holder);
  require<GraphError>(
      *parameters_ != nullptr,
      "the parameters of this {} no longer exist: they were destroyed, or others were assigned "
      "to them",
      holder);
  return **parameters_;
}

std::span<const ParameterEntry> Parameters::entries() const& {
  require<GraphError>(self_ != nullptr,
                      "these parameters were moved from; use those that they were moved to");
  return entries_;
}

const ParameterEntry* Parameters::find(std::string_view name) const {
  const std::span<const ParameterEntry> all = entries();
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &all[found->second];
}

const ParameterEntry& Parameters::at(std::string_view name) const {
  const ParameterEntry* entry = find(name);
  if (entry == nullptr) {
    std::vector<std::string> names;
    for (const ParameterEntry& each : entries_) names.push_back(each.name);
    fail<GraphError>("no parameter or state is called '{}'{}", printable(name),
                     nearest_hint(name, names));
  }
  return *entry;
}

Tensor Parameters::get(std::string_view name) const {
  const ParameterEntry& entry = at(name);
  return {entry.type, {entry.value, entry.value + entry.type.bytes()}};
}

void Parameters::check_value(std::string_view name, const Tensor& tensor) const {
  const ParameterEntry& entry = at(name);
  if (tensor.type != entry.type) {
    fail<GraphError>("'{}' is {}, got {}", printable(name), to_string(entry.type),
                     to_string(tensor.type));
  }
  if (static_cast<int64_t>(tensor.data.size()) != entry.type.bytes()) {
    fail<GraphError>("'{}' needs {} bytes, got {}", printable(name), entry.type.bytes(),
                     tensor.data.size());
  }
}

void Parameters::set(std::string_view name, const Tensor& tensor) {
  check_value(name, tensor);
  const ParameterEntry& entry = at(name);
  if (!tensor.data.empty()) std::memcpy(entry.value, tensor.data.data(), tensor.data.size());
}

void Parameters::zero_gradients() {
  for (const ParameterEntry& entry : entries()) {
    if (!entry.trainable()) continue;
    std::memset(entry.gradient, 0, static_cast<size_t>(entry.type.bytes()));
  }
}

std::string Parameters::sha256() const {
  Sha256 hash;
  for (const ParameterEntry& entry : entries()) {
    const std::string header = fmt::format("{} {}\n", entry.name, to_string(entry.type));
    hash.update(std::as_bytes(std::span(header)));
    const std::span values(entry.value, static_cast<size_t>(entry.type.bytes()));
    hash.update(LittleEndian(values, size_of(entry.type.dtype)).bytes());
  }
  return hex(hash.digest());
}

int64_t Parameters::trainable_elements() const {
  int64_t count = 0;
  for (const ParameterEntry& entry : entries())
    count += entry.trainable() ? entry.elements() : 0;
  return count;
}

}  // namespace qtape
