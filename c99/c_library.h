// C programs that are compiled by a compiler of this machine and loaded.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "qtape/c99/c_program.h"
#include "qtape/programs/console/subprocess.h"

namespace qtape {

/// Returns the arguments of a compiler that set the standard of exported C: `c99` or `gnu99`;
/// with one that this processor needs for floats without excess precision, if any.
std::vector<std::string> c_standard(const std::string& name = "c99");

/// A compiler and its arguments in addition to c_standard().
struct CCompiler {
  std::string command = "cc";
  std::vector<std::string> flags = {"-O2"};
  std::vector<std::string> sources = {};  ///< library sources that are compiled as well

  /// Returns the compiler of the environment variables CC and CFLAGS, split at spaces; cc -O2
  /// if they are unset.
  static CCompiler of_environment();
  bool operator==(const CCompiler&) const = default;
};

/// A C program and its name.
struct CUnit {
  std::string name;
  CProgram written;
};

/// A shared object with the functions of C programs, in a temporary folder.
class CLibrary {
 public:
  /// Compiles and loads the programs. Throws Error, with the compiler's output, if that fails
  /// or if there is no compiler.
  CLibrary(std::span<const CUnit> units, const CCompiler& compiler);
  CLibrary(const CLibrary&) = delete;
  CLibrary& operator=(const CLibrary&) = delete;
  ~CLibrary();

  /// Returns the function `name`. Throws Error if there is none.
  void* function(const std::string& name) const;
  /// Returns the output of the compiler, such as warnings.
  const std::string& messages() const { return messages_; }

 private:
  TemporaryFolder folder_;
  void* handle_ = nullptr;
  std::string messages_;
};

/// Runs one C program of a library, which must outlive the session. The program's memory is
/// static, so only one session per program can exist at a time.
class CSession {
 public:
  CSession(const IntegerProgram& program, const CUnit& unit, const CLibrary& library);

  /// Returns the memory of input `which`, to be filled before a run: of f32, or of int32_t for
  /// indices.
  template <class T = float>
  std::span<T> input(size_t which) {
    std::vector<std::byte>& bytes = inputs_[which];
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  /// Returns the codes of input `which`, or its indices, for programs that accept codes.
  std::span<std::byte> codes(size_t which) { return codes_[which]; }
  /// Runs the program. Throws GraphError for NaN and for an index of no row.
  void run();
  /// Runs the program from codes; the values of steps are not updated.
  void run_codes();
  /// Returns the value that a step computed, also for views of it; empty for nodes that no step
  /// computes.
  std::span<const std::byte> value(ProgramNodeId id) const;
  std::span<const std::byte> output(size_t which) const { return outputs_[which]; }

 private:
  std::vector<ProgramNodeId> steps_;
  std::vector<std::vector<std::byte>> inputs_;
  std::vector<std::vector<std::byte>> codes_;
  std::vector<std::vector<std::byte>> outputs_;
  std::vector<std::vector<std::byte>> values_;  // by node
  std::vector<size_t> shown_;                   // by node: the node itself, or the node of
                                                // which it is a view
  std::vector<void*> arguments_;                // arguments of begin
  std::vector<void*> code_arguments_;           // arguments of run_codes
  int32_t (*begin_)(void**) = nullptr;
  int32_t (*run_codes_)(void**) = nullptr;
  int32_t (*step_)(int32_t) = nullptr;
  void (*end_)() = nullptr;
  const void* (*result_)(int32_t) = nullptr;
};

}  // namespace qtape
