#include "qtape/tools/qtape/random_inputs.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "qtape/integer/program/integer_node.h"

namespace qtape::tool {

InputRange range_of(const IntegerProgram& program, ProgramNodeId input) {
  const IntegerValue& value = program[input].value;
  const bool batch = std::get<integer::Input>(program[input].op).batch;
  if (value.type.dtype == DType::S32) {
    return {static_cast<double>(value.low), static_cast<double>(largest_index(program, input)),
            true, batch};
  }
  std::optional<InputRange> found;
  for (const IntegerNode& node : program.nodes()) {
    const auto* op = std::get_if<integer::Quantize>(&node.op);
    if (op == nullptr || node.operands[0] != input) continue;
    const CodeGrid& grid = op->grid;
    const double low = grid.scale * (grid.low - grid.zero_point);
    const double high = grid.scale * (grid.high - grid.zero_point);
    found = found ? InputRange{std::min(low, found->low), std::max(high, found->high)}
                  : InputRange{low, high};
  }
  const InputRange range = found.value_or(InputRange{0, 1});
  const double more = (range.high - range.low) / 2;
  return {range.low - more, range.high + more, false, batch};
}

void RandomSample::fill(const InputRange& range, std::span<float> x) {
  for (float& each : x) {
    const double value = range.low + (range.high - range.low) * random_.uniform(++drawn_);
    const bool kept = random_.uniform(++drawn_) < density_;
    each = kept ? static_cast<float>(value) : 0.0f;
  }
}

void RandomSample::fill(const InputRange& range, std::span<int32_t> x) {
  for (int32_t& each : x) {
    const double count = range.high - range.low + 1;
    const double index = range.low + std::floor(count * random_.uniform(++drawn_));
    const bool kept = random_.uniform(++drawn_) < density_;
    each = static_cast<int32_t>(kept ? std::min(index, range.high) : range.low);
  }
}

}  // namespace qtape::tool
