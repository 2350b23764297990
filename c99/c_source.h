// C99 of integer programs: what ops write of themselves.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qtape/core/requantization.h"
#include "qtape/c99/c_kernels.h"
#include "qtape/integer/integer_value.h"

namespace qtape {

struct IntegerOp;

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

/// A member of 32 bits of a constant: its text and its bits.
struct CWord {
  std::string text;
  uint32_t bits = 0;

  static CWord of(int64_t v);  ///< an int32_t
  static CWord of_float(double v);
};
/// Words of integers, by the members of a struct.
template <class... T>
std::vector<CWord> c_words_of(T... v) {
  return {CWord::of(v)...};
}

/// A constant struct: pointers to constants, and behind them members of 32 bits.
struct CConstant {
  std::string type;
  std::vector<std::string> pointers = {};
  std::string first = {};  ///< the name of the first member that is no pointer
  std::vector<CWord> words = {};
};

/// `static const T name[n] = {...};`
template <class T>
std::string c_array(std::string_view name, std::span<const T> values);

/// The definitions of a C file: kernels, each once for each use of its own, and constants. All
/// are static and begin with the prefix.
class CSource {
 public:
  /// A constant, for the sizes that a file states and for self-tests.
  struct Array {
    std::string of;      ///< the node that it was written for
    int64_t bytes = 0;   ///< on a processor of 32 bits
    std::string name;    ///< in C
    std::string hashed;  ///< arguments of NAME_hash: where its elements begin, count, size
    uint32_t hash = 0;   ///< of these elements
    bool helium_only = false;
    bool is_weights = false;
  };

  /// `prefix` is a C identifier without the underscore behind it.
  explicit CSource(std::string prefix) : prefix_(std::move(prefix)) {}

  /// The name of kernel `name` of c99/kernels with these parameters, written when it is
  /// first asked for. `variant` tells it from the same kernel with others.
  std::string kernel(std::string_view name, std::string_view variant,
                     const CParameters& parameters = {});
  /// The text of that kernel with these parameters, for a part of another one.
  std::string text(std::string_view name, const CParameters& parameters) const;
  /// The name of an array of constants of node `of`, or of an equal one that is there already,
  /// as with all constants.
  template <class T>
  std::string array(std::string_view of, std::string_view name, std::span<const T> values);
  /// The name of an array of weights, counted as such.
  template <class T>
  std::string weights(std::string_view of, std::span<const T> values);
  /// The name of a constant struct.
  std::string constant(std::string_view of, std::string_view name, const CConstant& value);
  /// The name of an array of structs of `members` words each.
  std::string table(std::string_view of, std::string_view name, std::string_view type,
                    std::span<const CWord> words, size_t members);

  /// The same, of which there is none but on Helium.
  std::string helium_array(std::string_view of, std::string_view name,
                           std::span<const int32_t> values);
  /// Asks for memory that CMSIS-NN is lent, by what a processor has.
  void lend(const CBuffer& buffer);
  const CBuffer& buffer() const { return buffer_; }
  /// Asks for a check of how CMSIS-NN rounds, by kernel `name` with `function`. The first one
  /// that is asked for is made.
  void check_rounding(std::string_view name, std::string_view function, bool single_rounding);
  /// The C function of that check; empty where nothing depends on it.
  const std::string& rounding_check() const { return rounding_check_; }

  const std::string& prefix() const { return prefix_; }
  const std::string& kernels() const { return kernels_; }
  const std::string& constants() const { return constants_; }
  const std::vector<Array>& arrays() const { return arrays_; }

 private:
  template <class T>
  static Array array_of(std::string_view of, std::span<const T> values);
  /// The name of a constant `name` of node `array.of`: of the definition `before` name `after`,
  /// or of an equal one. `@` in array.hashed stands for it.
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
  std::string values = {};                 ///< the arena, as a C expression
  std::string buffer = {};                 ///< the memory lent to CMSIS-NN, the same
  std::optional<int64_t> scratch = {};     ///< bytes from the start of `values`
  const IntegerOp* next = nullptr;         ///< the op that takes the sums
  bool wide_sums = false;                  ///< whether sums are added in 64 bits
  std::string code = {};                   ///< statements, each with its line
  std::string library = {};                ///< the function of CMSIS-NN that is called, or none
  std::string own_because = {};            ///< why none is; empty where there is none for it

  const IntegerValue& in(size_t i) const { return *inputs[i]; }
  const IntegerValue& out() const { return *output; }
  /// The grid of the codes that sums become, or null where they become none.
  const CodeGrid* grid() const;
  CUse use() const { return {kernels, inputs[0], output, grid()}; }
  /// Where sums go: to `next`, or as they are. `sum` is the C type they are added in.
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

  /// The same of one that returns 0 unless it fails: the step returns `failure` then, the end
  /// of a macro of the program.
  template <class... T>
  void call_checked(std::string_view failure, std::string_view function,
                    const T&... arguments) {
    const std::string before = std::move(code);
    code.clear();
    call(function, arguments...);
    code.resize(code.size() - 2);
    code = before + "if (" + code + " != 0) return " + macro(failure) + ";\n";
  }
  /// The same of a kernel that calls `function` of CMSIS-NN.
  template <class... T>
  void call_library(std::string_view function, std::string_view kernel,
                    const T&... arguments) {
    library = std::string(function);
    call_checked("REFUSED", source.kernel(kernel, ""), arguments...);
  }
  /// `NET_end` of the program `net`.
  std::string macro(std::string_view end) const;
  /// The scratch as a pointer to elements of a C type.
  std::string scratch_of(DType dtype) const;

 private:
  static std::string text(const std::string& v) { return v; }
  static std::string text(int64_t v) { return std::to_string(v); }
};

}  // namespace qtape
