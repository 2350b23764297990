// Generation of C99 from integer programs: the interface by which ops write themselves.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qtape/c99/c_kernels.h"
#include "qtape/core/requantization.h"
#include "qtape/integer/core/integer_value.h"

namespace qtape {

struct IntegerOp;

/// Values of the placeholders `@NAME` in the text of a kernel.
using CParameters = std::vector<std::pair<std::string_view, std::string>>;

/// Returns the C type of an element: `int8_t`, `float`.
std::string_view c_type(DType dtype);
/// Returns a C constant with exactly the value `v`: `0x1.8p-3f`.
std::string c_float(double v);
/// Returns the same in decimal digits, for headers: C++ before C++17 reads no others.
std::string c_decimal(double v);

/// Bytes of buffer that CMSIS-NN needs in addition to operands and result, by processor type.
struct CBuffer {
  int64_t plain = 0;
  int64_t dsp = 0;
  int64_t helium = 0;
};

/// A 32-bit member of a constant: its text and its bits.
struct CWord {
  std::string text;
  uint32_t bits = 0;

  static CWord of(int64_t v);  ///< an int32_t
  static CWord of_float(double v);
};
/// Returns words of integers, in the order of the struct members.
template <class... T>
std::vector<CWord> c_words_of(T... v) {
  return {CWord::of(v)...};
}

/// A constant struct: pointers to constants, followed by 32-bit members.
struct CConstant {
  std::string type;
  std::vector<std::string> pointers = {};
  std::string first = {};  ///< name of the first member that is not a pointer
  std::vector<CWord> words = {};
};

/// Returns `static const T name[n] = {...};`.
template <class T>
std::string c_array(std::string_view name, std::span<const T> values);

/// The definitions of a C file: kernels, each once per set of parameters, and constants. All
/// are static and begin with the prefix.
class CSource {
 public:
  /// A constant, recorded for size statistics and self-tests.
  struct Array {
    std::string of;      ///< the node for which it was written
    int64_t bytes = 0;   ///< on a 32-bit processor
    std::string name;    ///< name in C
    std::string hashed;  ///< arguments of NAME_hash: address of the elements, count, size
    uint32_t hash = 0;   ///< hash of these elements
    bool helium_only = false;
    bool is_weights = false;
  };

  /// `prefix` is a C identifier without trailing underscore.
  explicit CSource(std::string prefix) : prefix_(std::move(prefix)) {}

  /// The name of kernel `name` of c99/kernels with these parameters, written when it is
  /// first asked for. `variant` distinguishes it from the same kernel with other parameters.
  std::string kernel(std::string_view name, std::string_view variant,
                     const CParameters& parameters = {});
  /// Returns the text of that kernel with these parameters, for inclusion in another kernel.
  std::string text(std::string_view name, const CParameters& parameters) const;
  /// Returns the name of a new array of constants of node `of`, or of an existing equal one.
  /// All constants are shared like this.
  template <class T>
  std::string array(std::string_view of, std::string_view name, std::span<const T> values);
  /// Returns the name of an array of weights, counted as weights in the statistics.
  template <class T>
  std::string weights(std::string_view of, std::span<const T> values);
  /// Returns the name of a constant struct.
  std::string constant(std::string_view of, std::string_view name, const CConstant& value);
  /// Returns the name of an array of structs with `members` words each.
  std::string table(std::string_view of, std::string_view name, std::string_view type,
                    std::span<const CWord> words, size_t members);

  /// Returns the name of an array that exists only on Helium.
  std::string helium_array(std::string_view of, std::string_view name,
                           std::span<const int32_t> values);
  /// Requests buffer memory for CMSIS-NN, by processor type.
  void lend(const CBuffer& buffer);
  const CBuffer& buffer() const { return buffer_; }
  /// Requests a check of how CMSIS-NN rounds, by kernel `name` with `function`. Only the first
  /// request takes effect.
  void check_rounding(std::string_view name, std::string_view function, bool single_rounding);
  /// Returns the C function of that check; empty if none was requested.
  const std::string& rounding_check() const { return rounding_check_; }

  const std::string& prefix() const { return prefix_; }
  const std::string& kernels() const { return kernels_; }
  const std::string& constants() const { return constants_; }
  const std::vector<Array>& arrays() const { return arrays_; }

 private:
  template <class T>
  static Array array_of(std::string_view of, std::span<const T> values);
  /// Returns the name of a constant `name` of node `array.of` with the definition `before` NAME
  /// `after`, or of an existing equal one. `@` in array.hashed is replaced by the name.
  std::string define(Array array, std::string_view name, std::string_view before,
                     std::string_view after);

  std::string prefix_;
  std::map<std::string, std::string> texts_;   // of kernels, by name
  std::map<std::string, std::string> shared_;  // names of constants, by definition
  std::string kernels_;
  std::string constants_;
  std::vector<Array> arrays_;
  CBuffer buffer_;
  std::string rounding_check_;
};

/// Properties on which the C code of an op depends, in addition to its attributes.
struct CUse {
  CKernels kernels = CKernels::Portable;
  const IntegerValue* x = nullptr;       ///< operand 0
  const IntegerValue* output = nullptr;  ///< result of the op, for example sums
  const CodeGrid* grid = nullptr;        ///< grid of the codes to which sums are converted;
                                         ///< null if they are not
};

/// Destination of each sum: a C function `type function(sum, const to *, channel)`.
struct CStore {
  std::string function;
  std::string type;
  std::string to;
  std::string argument;
};

/// Context of one node while its op writes its C code.
struct CNode {
  CSource& source;
  std::string name;  ///< a C identifier, unique in the program
  Requantization requantization = Requantization::FloatMultiply;
  CKernels kernels = CKernels::Portable;
  std::vector<const IntegerValue*> inputs = {};
  const IntegerValue* output = nullptr;
  std::vector<std::string> operands = {};  ///< expressions of pointers to their elements
  std::string result = {};                 ///< expression of a pointer to the result, or to
                                           ///< that of `next` if set
  std::string values = {};                 ///< the arena, as a C expression
  std::string buffer = {};                 ///< the buffer lent to CMSIS-NN, as a C expression
  std::optional<int64_t> scratch = {};     ///< offset in bytes from the start of `values`
  const IntegerOp* next = nullptr;         ///< the op that receives the sums
  bool wide_sums = false;                  ///< true if sums are accumulated in 64 bits
  std::string code = {};                   ///< statements, each on its own line
  std::string library = {};                ///< the CMSIS-NN function that is called, or empty
  std::string own_because = {};            ///< why none is called; empty if CMSIS-NN has none
                                           ///< for this op

  const IntegerValue& in(size_t i) const { return *inputs[i]; }
  const IntegerValue& out() const { return *output; }
  /// Returns the grid of the codes to which sums are converted, or null if they are not.
  const CodeGrid* grid() const;
  CUse use() const { return {kernels, inputs[0], output, grid()}; }
  /// Returns the destination of sums: `next`, or memory as they are. `sum` is their C type.
  CStore store(std::string_view sum);
  /// Adds a call that makes each element of operand 0 an element of the result.
  void call_each(const CStore& store);
  /// Adds a call of a C function.
  void call(std::string_view function, std::span<const std::string> arguments);
  template <class... T>
  void call(std::string_view function, const T&... arguments) {
    const std::vector<std::string> all = {text(arguments)...};
    call(function, std::span<const std::string>(all));
  }

  /// Adds a call of a C function that returns 0 on success. On failure the step returns
  /// `failure`, the end of the name of a macro of the program.
  template <class... T>
  void call_checked(std::string_view failure, std::string_view function,
                    const T&... arguments) {
    const std::string before = std::move(code);
    code.clear();
    call(function, arguments...);
    code.resize(code.size() - 2);
    code = before + "if (" + code + " != 0) return " + macro(failure) + ";\n";
  }
  /// Adds a checked call of a kernel that calls `function` of CMSIS-NN.
  template <class... T>
  void call_library(std::string_view function, std::string_view kernel, const T&... arguments) {
    library = std::string(function);
    call_checked("REFUSED", source.kernel(kernel, ""), arguments...);
  }
  /// Returns the macro `NET_end` of the program `net`.
  std::string macro(std::string_view end) const;
  /// Returns a pointer to the scratch memory as elements of the C type of `dtype`.
  std::string scratch_of(DType dtype) const;

 private:
  static std::string text(const std::string& v) { return v; }
  static std::string text(int64_t v) { return std::to_string(v); }
};

}  // namespace qtape
