#include "qtape/integer/rules/code_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "qtape/core/code_types.h"
#include "qtape/integer/rules/rule_table.h"
#include "qtape/kernels/quantize/quantize.h"

namespace qtape {

using namespace kernels;
namespace {

/// Returns the ops from the codes to x, in the order of application.
std::vector<const Op*> path_to(const Graph& graph, const IntegerAnalysis& analysis, NodeId x) {
  std::vector<const Op*> path;
  for (; !analysis[x].is_plain_codes(); x = graph[x].operands[0]) {
    if (!is_view(graph[x].op)) path.push_back(&graph[x].op);
  }
  std::ranges::reverse(path);
  return path;
}

}  // namespace

NodeId mapped_codes(const Graph& graph, const IntegerAnalysis& analysis, NodeId x) {
  while (!analysis[x].is_plain_codes()) x = graph[x].operands[0];
  return x;
}

CodeTable code_table(const Graph& graph, const IntegerAnalysis& analysis, NodeId x,
                     const Grid& input, const QParams<float>& input_q, const Grid& grid,
                     const QParams<float>& q) {
  const std::vector<const Op*> path = path_to(graph, analysis, x);
  CodeTable table{.codes = mapped_codes(graph, analysis, x), .values = {}, .undefined = {}};
  const DType dtype = code_dtype(grid.limits);
  dispatch_codes(code_dtype(input.limits), [&]<class X>() {
    dispatch_codes(dtype, [&]<class Code>() {
      std::vector<Code> codes;
      for (int32_t code = std::numeric_limits<X>::lowest();
           code <= std::numeric_limits<X>::max(); ++code) {
        float value = value_of(static_cast<float>(code), input_q);
        for (const Op* op : path) value = map_value(*op, value);
        const bool within = code >= input.limits.q_min && code <= input.limits.q_max;
        if (std::isnan(value) && within && !table.undefined) table.undefined = code;
        const float mapped = std::isnan(value) ? q.zero_point : code_of(value, q, grid);
        codes.push_back(static_cast<Code>(mapped));
      }
      table.values =
          Tensor::of<Code>({static_cast<int64_t>(codes.size())}, std::span<const Code>(codes));
    });
  });
  return table;
}

}  // namespace qtape
