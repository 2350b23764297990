// C99 of integer programs: what ops write of themselves.
#pragma once

#include <array>
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

/// Whose kernels a C program calls.
enum class CKernels : uint8_t {
  Portable,  ///< its own
  CmsisNn    ///< those of CMSIS-NN for products, max-pooling and sums of s8 codes
};
template <>
inline constexpr auto enum_names<CKernels> =
    std::array<std::string_view, 2>{"portable", "cmsis-nn"};

/// Values of the placeholders `@NAME` of a kernel's text.
using CParameters = std::vector<std::pair<std::string_view, std::string>>;

/// The type of an element: `int8_t`, `float`.
std::string_view c_type(DType dtype);
/// A constant that has the very value of `v`: `0x1.8p-3f`.
std::string c_float(double v);

/// Bytes that CMSIS-NN needs beside operands and result.
struct CBuffer {
  int64_t plain = 0;
  int64_t dsp = 0;
  int64_t helium = 0;
};

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
  /// The name of an array of constants of node `of`, or of an equal one that is there already,
  /// as with all constants.
  template <class T>
  std::string array(std::string_view of, std::string_view name, std::span<const T> values);
  /// The name of a constant of a struct that a kernel defines.
  std::string constant(std::string_view of, std::string_view name, std::string_view type,
                       std::string_view initializer, int64_t bytes);

  /// The name of an array of such structs.
  std::string table(std::string_view of, std::string_view name, std::string_view type,
                    std::string_view initializer, int64_t bytes);

  /// The same, of which there is none but on Helium.
  std::string helium_array(std::string_view of, std::string_view name,
                           std::span<const int32_t> values);
  /// Asks for memory that CMSIS-NN is lent, by what a processor has.
  void lend(const CBuffer& buffer);
  const CBuffer& buffer() const { return buffer_; }

  const std::string& prefix() const { return prefix_; }
  const std::string& kernels() const { return kernels_; }
  const std::string& constants() const { return constants_; }
  const std::vector<Array>& arrays() const { return arrays_; }

 private:
  /// The name of a constant: of the definition `before` name `after`, or of an equal one.
  std::string define(std::string_view of, std::string_view name, std::string_view before,
                     std::string_view after, int64_t bytes);

  std::string prefix_;
  std::map<std::string, std::string> texts_;   // of kernels, by name
  std::map<std::string, std::string> shared_;  // names of constants, by definition
  std::string kernels_;
  std::string constants_;
  std::vector<Array> arrays_;
  CBuffer buffer_;
};

/// What the C of an op depends on beside its attributes.
struct CUse {
  CKernels kernels = CKernels::Portable;
  const IntegerValue* x = nullptr;       ///< operand 0
  const IntegerValue* output = nullptr;  ///< what the op gives, sums for instance
  const CodeGrid* grid = nullptr;        ///< of the codes that sums become; null: they do not
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
  CKernels kernels = CKernels::Portable;
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
  /// The grid of the codes that sums become, or null where they become none.
  const CodeGrid* grid() const;
  CUse use() const { return {kernels, inputs[0], output, grid()}; }
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

  /// The same of one that returns 0 unless it fails: the step returns `failure` then.
  template <class... T>
  void call_checked(int failure, std::string_view function, const T&... arguments) {
    const std::string before = std::move(code);
    code.clear();
    call(function, arguments...);
    code.resize(code.size() - 2);
    code = before + "if (" + code + " != 0) return " + std::to_string(failure) + ";\n";
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
