#include "qtape/integer/rules/code_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "qtape/core/code_types.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/kernels/quantize/quantize.h"

namespace qtape {

using namespace kernels;
namespace {

/// A function of one code and perhaps of constants that differ by channel: elementwise nodes in
/// order, each with the positions of its operands. Position 0 is the code's value.
class CodeFunction {
 public:
  /// Collects the nodes from which `x` is computed, as far as the codes.
  CodeFunction(const Graph& graph, const IntegerAnalysis& analysis, NodeId x,
               const ConstantNumbers& numbers) {
    std::set<NodeId> nodes;
    std::vector<NodeId> open = {x};
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (analysis[id].is_plain_codes() || !nodes.insert(id).second) continue;
      open.insert(open.end(), graph[id].operands.begin(), graph[id].operands.end());
    }
    std::map<NodeId, size_t> positions;
    const auto position = [&](NodeId id) { return nodes.contains(id) ? positions.at(id) : 0; };
    for (const NodeId id : nodes) {
      const std::vector<NodeId>& operands = graph[id].operands;
      if (!operands.empty() && is_view(graph[id].op)) {
        positions[id] = position(operands[0]);
        continue;
      }
      positions[id] = values_.size();
      values_.push_back(0);
      if (operands.empty()) {
        constants_.push_back({positions[id], numbers(id)});
      } else {
        steps_.push_back(
            {&graph[id].op, position(operands[0]), position(operands.back()), positions[id]});
      }
    }
    last_ = position(x);
  }

  /// Number of different functions, by channel; 1 if all channels have the same.
  int64_t rows() const {
    int64_t rows = 1;
    for (const Numbers& each : constants_) {
      rows = std::max<int64_t>(rows, std::ssize(each.numbers));
    }
    return rows;
  }

  float operator()(float value, int64_t row) {
    values_[0] = value;
    for (const Numbers& each : constants_) {
      values_[each.position] =
          each.numbers[each.numbers.size() == 1 ? 0 : static_cast<size_t>(row)];
    }
    for (const Step& step : steps_) {
      const float operands[] = {values_[step.a], values_[step.b]};
      values_[step.y] = map_value(*step.op, operands);
    }
    return values_[last_];
  }

 private:
  struct Step {
    const Op* op;
    size_t a;
    size_t b;  ///< equals `a` for one operand
    size_t y;
  };
  struct Numbers {
    size_t position;
    std::vector<float> numbers;
  };
  std::vector<Step> steps_;
  std::vector<Numbers> constants_;
  std::vector<float> values_ = {0};
  size_t last_ = 0;
};

}  // namespace

CodeTable code_table(const Graph& graph, const IntegerAnalysis& analysis, NodeId x,
                     const Grid& input, const QParams<float>& input_q, const Grid& grid,
                     const QParams<float>& q, const ConstantNumbers& numbers) {
  CodeFunction function(graph, analysis, x, numbers);
  const int64_t rows = function.rows();
  CodeTable table;
  const auto value_at = [&](int32_t code, int64_t row) {
    const float operand = value_of(static_cast<float>(code), input_q);
    const float value = function(operand, row);
    const bool within = code >= input.limits.q_min && code <= input.limits.q_max;
    if (std::isnan(value) && within && !table.undefined) table.undefined = code;
    if (std::isnan(value) && within && operand >= 0) table.undefined_from_zero = true;
    return std::isnan(value) ? q.zero_point : code_of(value, q, grid);
  };
  dispatch_codes(code_dtype(input.limits), [&]<class X>() {
    dispatch_codes(code_dtype(grid.limits), [&]<class Code>() {
      std::vector<Code> codes;
      for (int64_t row = 0; row < rows; ++row) {
        for (int32_t code = std::numeric_limits<X>::lowest();
             code <= std::numeric_limits<X>::max(); ++code) {
          codes.push_back(static_cast<Code>(value_at(code, row)));
        }
      }
      const int64_t entries = std::ssize(codes) / rows;
      table.values = Tensor::of<Code>(rows == 1 ? Shape{entries} : Shape{rows, entries},
                                      std::span<const Code>(codes));
    });
  });
  return table;
}

}  // namespace qtape
