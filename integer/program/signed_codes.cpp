#include "qtape/integer/program/signed_codes.h"

#include "qtape/engine/rewrite.h"
#include "qtape/integer/program/integer_node.h"

namespace qtape {
namespace {

DType signed_dtype(DType dtype) {
  if (dtype == DType::U8) return DType::S8;
  return dtype == DType::U16 ? DType::S16 : dtype;
}

CodeGrid shifted(CodeGrid grid) {
  const auto offset = static_cast<int32_t>(signed_offset(grid.dtype));
  grid.dtype = signed_dtype(grid.dtype);
  grid.zero_point -= offset;
  grid.low -= offset;
  grid.high -= offset;
  return grid;
}

/// Returns codes with signed_offset subtracted.
Tensor shifted(const Tensor& table) {
  const int64_t offset = signed_offset(table.type.dtype);
  if (offset == 0) return table;
  const TensorType type{signed_dtype(table.type.dtype), table.type.shape};
  return dispatch_codes(table.type.dtype, [&]<class From>() {
    return dispatch_codes(type.dtype, [&]<class To>() {
      std::vector<To> all;
      const auto* from = reinterpret_cast<const From*>(table.data.data());
      for (int64_t i = 0; i < type.elements(); ++i) {
        all.push_back(static_cast<To>(from[i] - offset));
      }
      return Tensor::of<To>(type.shape, all);
    });
  });
}

class Rewriter {
 public:
  explicit Rewriter(const IntegerProgram& program)
      : from_(program), result_{IntegerProgram(program.requantization()), {}} {}

  RewrittenProgram run() {
    result_.nodes =
        rewrite(from_, result_.program,
                [&](ProgramNodeId id, const std::vector<ProgramNodeId>& operands) {
                  operands_ = operands;
                  const IntegerNode& node = from_[id];
                  return std::visit([&](const auto& op) { return add(op, node); }, node.op);
                });
    return std::move(result_);
  }

 private:
  ProgramNodeId append(IntegerOp op, const std::string& label) {
    return result_.program.add(std::move(op), operands_, label);
  }

  template <class Op>
  ProgramNodeId add(Op op, const IntegerNode& node) {
    if constexpr (requires { op.weights; }) {
      const IntegerValue& x = result_.program[operands_[0]].value;
      op.weights.certificate =
          certify(op.weights.unpacked(), op.weights.outputs(), op.weights.terms(),
                  op.weights.biases(), factors_of(op, x));
    }
    if constexpr (requires { op.grid; }) op.grid = shifted(op.grid);
    if constexpr (requires { op.table; }) op.table = shifted(op.table);
    if constexpr (std::is_same_v<Op, integer::Constant>) op.codes = shifted(op.codes);
    return append(std::move(op), node.label);
  }

  ProgramNodeId add(integer::Pad op, const IntegerNode& node) {
    op.code -= static_cast<int32_t>(signed_offset(node.value.type.dtype));
    return append(op, node.label);
  }

  /// Halves are rounded away from the unsigned code 0: means keep their unsigned codes.
  ProgramNodeId add(const integer::MeanPool& op, const IntegerNode& node) {
    if (signed_offset(node.value.type.dtype) == 0) return append(op, node.label);
    const CodeGrid grid{node.value.type.dtype, node.value.scales[0], node.value.zero_point,
                        static_cast<int32_t>(node.value.low),
                        static_cast<int32_t>(node.value.high)};
    operands_ = {append(integer::Requantize{grid}, {})};
    operands_ = {append(op, {})};
    return append(integer::Requantize{shifted(grid)}, node.label);
  }

  ProgramNodeId add(integer::Quantize op, const IntegerNode& node) {
    const bool exact = op.zero_point == ZeroPoint::AfterRounding;
    if (!exact && signed_offset(op.grid.dtype) != 0) {
      operands_ = {append(op, {})};
      return append(integer::Requantize{shifted(op.grid)}, node.label);
    }
    op.grid = shifted(op.grid);
    return append(op, node.label);
  }

  const IntegerProgram& from_;
  RewrittenProgram result_;
  std::vector<ProgramNodeId> operands_;
};

}  // namespace

int64_t signed_offset(DType dtype) {
  if (dtype == DType::U8) return 128;
  return dtype == DType::U16 ? 32768 : 0;
}

RewrittenProgram with_signed_codes(const IntegerProgram& program) {
  return Rewriter(program).run();
}

}  // namespace qtape
