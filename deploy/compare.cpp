#include "qtape/deploy/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "qtape/core/printable.h"
#include "qtape/deploy/node_numbers.h"
#include "qtape/deploy/node_pairs.h"
#include "qtape/integer/core/integer_binding.h"
#include "qtape/integer/program/integer_node.h"

namespace qtape {
namespace {

SessionOptions keeping_all(const CompareOptions& options) {
  return {.threads = options.threads, .kept = KeptValues::All};
}

IntegerProgram batched(const IntegerProgram& program, const CompareOptions& options,
                       const std::string& name) {
  require<ArgumentError>(options.batch >= 1, "batch must be at least 1, got {}", options.batch);
  return naming<GraphError>(
      name, [&] { return program.batch() ? program.with_batch(options.batch) : program; });
}

/// True if the elements of two nodes have the same meaning.
bool are_comparable(const IntegerValue& a, const IntegerValue& b) {
  const bool floats_a = a.type.dtype == DType::F32;
  const bool floats_b = b.type.dtype == DType::F32;
  return a.type.shape == b.type.shape && floats_a == floats_b;
}

/// Elements of a value in memory, as numbers.
struct Elements {
  DType dtype;
  const std::byte* data;

  double operator[](int64_t i) const {
    if (dtype != DType::F32) {
      return dispatch_integers(dtype, [&]<class T>() { return static_cast<double>(at<T>(i)); });
    }
    return double{at<float>(i)};
  }
  template <class T>
  T at(int64_t i) const {
    T value;
    std::memcpy(&value, data + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  }
};

/// True if two numbers differ, or have another sign.
bool are_different(double a, double b) { return a != b || std::signbit(a) != std::signbit(b); }

}  // namespace

std::string to_string(const NumberDifference& d) {
  return fmt::format("{} {} against {}{}{}{}{}", d.what, d.a, d.b, d.where.empty() ? "" : " ",
                     d.where, d.cause.empty() ? "" : ": ", d.cause);
}

ProgramComparison::ProgramComparison(const IntegerProgram& a, const IntegerProgram& b,
                                     const CompareOptions& options)
    : options_(options),
      a_(batched(a, options, options.name_a), keeping_all(options)),
      b_(batched(b, options, options.name_b), keeping_all(options)) {
  NodePairs pairs = pair_nodes(program_a(), program_b(), options.name_a, options.name_b);
  for (const NodePair& each : pairs.others) {
    NodeComparison& node = nodes_.emplace_back(NodeComparison{each});
    const IntegerValue& value_a = program_a()[each.a].value;
    const IntegerValue& value_b = program_b()[each.b].value;
    node.comparable = are_comparable(value_a, value_b);
    node.shift = shift_of(value_a, value_b);
    node.numbers = differing_numbers({program_a(), each.a}, {program_b(), each.b});
  }
  inputs_ = std::move(pairs.inputs);
  only_a_ = std::move(pairs.only_a);
  only_b_ = std::move(pairs.only_b);
  judge();
}

void ProgramComparison::run(int64_t rows) {
  require<ArgumentError>(rows >= 0 && rows <= options_.batch, "rows must be in 0..{}, got {}",
                         options_.batch, rows);
  for (const NodePair& input : inputs_) {
    if (program_a()[input.a].value.type.dtype == DType::S32) {
      std::ranges::copy(a_.input<int32_t>(input.a), b_.input<int32_t>(input.b).begin());
    } else {
      std::ranges::copy(a_.input(input.a), b_.input(input.b).begin());
    }
  }
  naming<GraphError>(options_.name_a, [&] { a_.run(); });
  naming<GraphError>(options_.name_b, [&] { b_.run(); });
  for (NodeComparison& node : nodes_) {
    if (node.comparable) compare(node, rows);
  }
  samples_ += rows;
  judge();
}

void ProgramComparison::compare(NodeComparison& node, int64_t rows) const {
  const TensorType& type = program_a()[node.a].value.type;
  const bool constant = program_a()[node.a].operands.empty();
  if (constant && node.compared > 0) return;
  // Rows of a sample may be joined with the batch.
  const bool by_sample =
      !constant && type.shape.rank() > 0 && type.shape[0] % options_.batch == 0;
  const int64_t width = by_sample ? type.elements() / options_.batch : type.elements();
  const int64_t count = by_sample ? width * rows : width;
  const Elements a{type.dtype, a_.bytes(node.a).data()};
  const Elements b{program_b()[node.b].value.type.dtype, b_.bytes(node.b).data()};
  node.compared += count;
  for (int64_t i = 0; i < count; ++i) {
    const double one = a[i];
    const double other = b[i];
    const double moved = other - static_cast<double>(node.shift);
    if (!are_different(one, moved)) continue;
    ++node.differ;
    node.largest = std::max(node.largest, std::abs(one - moved));
    if (node.first) continue;
    const int64_t sample = by_sample ? samples_ + i / width : constant ? 0 : samples_;
    node.first = ElementDifference{sample, by_sample ? i % width : i, one, other};
  }
}

/// Returns, by node, true if a node that it depends on differs. A node without a counterpart
/// passes on the flags of its operands.
std::vector<bool> ProgramComparison::influenced(const IntegerProgram& program,
                                                bool first) const {
  const auto size = static_cast<size_t>(program.size());
  std::vector<bool> paired(size), differs(size), result(size);
  for (const NodeComparison& node : nodes_) {
    const size_t i = qtape::at(first ? node.a : node.b);
    paired[i] = true;
    differs[i] = !node.agrees();
  }
  for (const ProgramNodeId id : ids(program)) {
    for (const ProgramNodeId from : program[id].operands) {
      const size_t i = qtape::at(from);
      if (differs[i] || (!paired[i] && result[i])) result[qtape::at(id)] = true;
    }
  }
  return result;
}

void ProgramComparison::judge() {
  const std::vector<bool> in_a = influenced(program_a(), true);
  const std::vector<bool> in_b = influenced(program_b(), false);
  for (NodeComparison& node : nodes_) {
    node.inputs_agree = !in_a[qtape::at(node.a)] && !in_b[qtape::at(node.b)];
  }
}

int64_t ProgramComparison::differences() const {
  int64_t count = 0;
  for (const NodeComparison& node : nodes_) count += node.comparable ? node.differ : 1;
  return count;
}

const NodeComparison* ProgramComparison::first_difference() const {
  const auto found = std::ranges::find_if(
      nodes_, [](const NodeComparison& node) { return node.inputs_agree && !node.agrees(); });
  return found == nodes_.end() ? nullptr : &*found;
}

std::string ProgramComparison::reason(const NodeComparison& node) const {
  const NodeIn a{program_a(), node.a};
  const NodeIn b{program_b(), node.b};
  std::vector<NumberDifference> numbers = node.numbers;
  if (numbers.empty()) numbers = differing_operands(a, b);
  std::vector<std::string> reasons;
  for (const NumberDifference& each : numbers) reasons.push_back(to_string(each));
  if (reasons.empty()) {
    const auto operands = [](NodeIn of) {
      std::vector<std::string> names;
      for (const ProgramNodeId id : of.program[of.id].operands) {
        names.push_back(printable(of.program.name(id)));
      }
      return fmt::format("{}", fmt::join(names, " and "));
    };
    return fmt::format("it is computed from {} against {}", operands(a), operands(b));
  }
  return fmt::format("{}", fmt::join(reasons, "; "));
}

}  // namespace qtape
