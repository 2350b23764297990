// Integer ops in C99: one overload of `write` for each op, in ops/.
#pragma once

#include <cstdint>
#include <string_view>

#include "qtape/c99/c_source.h"
#include "qtape/integer/ops/integer_ops.h"

namespace qtape {

// Each adds the statements that compute the op to `node.code`.
inline void write(const integer::Input&, CNode&) {}
void write(const integer::Quantize& op, CNode& node);
void write(const integer::Requantize& op, CNode& node);
void write(const integer::Dequantize& op, CNode& node);
void write(const integer::Lookup& op, CNode& node);
void write(const integer::Add& op, CNode& node);
void write(const integer::Sub& op, CNode& node);
void write(const integer::Mul& op, CNode& node);
void write(const integer::Linear& op, CNode& node);
void write(const integer::Conv& op, CNode& node);
void write(const integer::Structure<MaxPool>& op, CNode& node);
void write(const integer::AvgPool& op, CNode& node);
void write(const integer::Structure<Upsample>& op, CNode& node);
void write(const integer::Pad& op, CNode& node);
void write(const integer::Concat& op, CNode& node);
void write(const integer::Slice& op, CNode& node);
void write(const integer::Reshape& op, CNode& node);
void write(const integer::Max& op, CNode& node);
void write(const integer::Sum& op, CNode& node);

/// Bytes of memory that the C of an op needs beside operands and result; 0 of ops without an
/// overload.
int64_t scratch(const integer::Conv& op, const CUse& use);

// Conversion of one sum of the accumulators `x`, which are added in the C type `sum`: of every
// op with an epilogue.
CStore store(const integer::Requantize& op, CNode& node, const IntegerValue& x,
             std::string_view sum);
CStore store(const integer::Dequantize& op, CNode& node, const IntegerValue& x,
             std::string_view sum);

/// An integer op that C99 is written of.
template <class X>
concept WritesC = requires(const X& op, CNode& node) {
  write(op, node);
};

/// Adds the statements of any op to `node.code`.
void write_c(const IntegerOp& op, CNode& node);
/// Returns the bytes of scratch that the C of an op needs.
int64_t c_scratch(const IntegerOp& op, const CUse& use);
/// Returns the conversion of one sum by an op that has an epilogue. Throws GraphError for
/// others.
CStore c_store(const IntegerOp& op, CNode& node, const IntegerValue& x, std::string_view sum);

}  // namespace qtape
