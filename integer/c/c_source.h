// C99 of integer programs: what ops write of themselves.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qtape/core/requantization.h"
#include "qtape/integer/integer_value.h"

namespace qtape {

struct IntegerOp;

/// Values of the placeholders `@NAME` of a kernel's text.
using CParameters = std::vector<std::pair<std::string_view, std::string>>;

/// The type of an element: `int8_t`, `float`.
std::string_view c_type(DType dtype);
/// A constant that has the very value of `v`: `0x1.8p-3f`.
std::string c_float(double v);

/// `static const T name[n] = {...};`
template <class T>
std::string c_array(std::string_view name, std::span<const T> values);

/// The definitions of a C file: kernels, each once for each use of its own, and constants. All
/// are static and begin with the prefix.
class CSource {
 public:
  /// A constant array, for the sizes that a file tells.
  struct Array {
    std::string of;  ///< the node that it was written for
    int64_t bytes = 0;
  };

  /// `prefix` is a C identifier without the underscore behind it.
  explicit CSource(std::string prefix) : prefix_(std::move(prefix)) {}

  /// The name of kernel `name` of integer/c/kernels with these parameters, written when it is
  /// first asked for. `variant` tells it from the same kernel with others.
  std::string kernel(std::string_view name, std::string_view variant,
                     const CParameters& parameters = {});
  /// The text of that kernel with these parameters, for a part of another one.
  std::string text(std::string_view name, const CParameters& parameters) const;
  /// The name of an array of constants of node `of`.
  template <class T>
  std::string array(std::string_view of, std::string_view name, std::span<const T> values);
  /// The name of a constant of a struct that a kernel defines.
  std::string constant(std::string_view of, std::string_view name, std::string_view type,
                       std::string_view initializer, int64_t bytes);

  /// The name of an array of such structs.
  std::string table(std::string_view of, std::string_view name, std::string_view type,
                    std::string_view initializer, int64_t bytes);

  const std::string& prefix() const { return prefix_; }
  const std::string& kernels() const { return kernels_; }
  const std::string& constants() const { return constants_; }
  const std::vector<Array>& arrays() const { return arrays_; }

 private:
  std::string prefix_;
  std::map<std::string, std::string> texts_;  // of kernels, by name
  std::string kernels_;
  std::string constants_;
  std::vector<Array> arrays_;
};

/// What becomes of each sum: a C function `type function(sum, const to *, channel)`.
struct CStore {
  std::string function;
  std::string type;
  std::string to;
  std::string argument;
};

/// One node, while its op writes itself.
struct CNode {
  CSource& source;
  std::string name;  ///< a C identifier, unique in the program
  Requantization requantization = Requantization::FloatMultiply;
  std::vector<const IntegerValue*> inputs = {};
  const IntegerValue* output = nullptr;
  std::vector<std::string> operands = {};  ///< expressions of pointers to their elements
  std::string result = {};                 ///< the same; of what `next` gives where it is set
  std::string scratch = {};                ///< bytes, as many as the op asked for
  const IntegerOp* next = nullptr;         ///< the op that takes the sums
  bool wide_sums = false;                  ///< whether sums are added in 64 bits
  std::string code = {};                   ///< statements, each with its line

  const IntegerValue& in(size_t i) const { return *inputs[i]; }
  const IntegerValue& out() const { return *output; }
  /// Where sums go: to `next`, or as they are. `sum` is the C type they are added in.
  CStore store(std::string_view sum);
  /// Writes an op that makes each element of operand 0 what `c_store` of it says.
  template <class Op>
  void write_each(const Op& op);
  /// Adds a call of a C function.
  void call(std::string_view function, std::span<const std::string> arguments);
  template <class... T>
  void call(std::string_view function, const T&... arguments) {
    const std::vector<std::string> all = {text(arguments)...};
    call(function, std::span<const std::string>(all));
  }

  /// The same of one that returns 1 for data without codes, which ends the run.
  template <class... T>
  void call_checked(std::string_view function, const T&... arguments) {
    const std::string before = std::move(code);
    code.clear();
    call(function, arguments...);
    code = before + "if (" + code.substr(0, code.size() - 2) + " != 0) return 1;\n";
  }

 private:
  void call_each(const CStore& store);
  static std::string text(const std::string& v) { return v; }
  static std::string text(int64_t v) { return std::to_string(v); }
};

template <class Op>
void CNode::write_each(const Op& op) {
  const std::string sum = in(0).type.dtype == DType::S64 ? "int64_t" : "int32_t";
  call_each(op.c_store(*this, in(0), sum));
}

}  // namespace qtape
