// C programs compiled by a compiler of this machine and loaded.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "qtape/console/subprocess.h"
#include "qtape/c99/c_program.h"

namespace qtape {

/// A compiler and what it is told beside `-std=c99`.
struct CCompiler {
  std::string command = "cc";
  std::vector<std::string> flags = {"-O2"};
  std::vector<std::string> sources = {};  ///< of libraries, compiled as well

  /// What the environment's CC and CFLAGS say, words apart by spaces; else cc -O2.
  static CCompiler of_environment();
  bool operator==(const CCompiler&) const = default;
};

/// A C program and the integer program that it was made of.
struct CUnit {
  std::string name;
  CProgram written;
};

/// A shared object with the functions of C programs, in a temporary folder.
class CLibrary {
 public:
  /// Compiles and loads. Throws Error with what the compiler says where it fails, and where
  /// there is none.
  CLibrary(std::span<const CUnit> units, const CCompiler& compiler);
  CLibrary(const CLibrary&) = delete;
  CLibrary& operator=(const CLibrary&) = delete;
  ~CLibrary();

  /// The function `name`. Throws Error where there is none.
  void* function(const std::string& name) const;
  /// What the compiler said, which may be warnings.
  const std::string& messages() const { return messages_; }

 private:
  TemporaryFolder folder_;
  void* handle_ = nullptr;
  std::string messages_;
};

/// Runs one C program of a library, which must outlive it. Its memory is static, so there
/// is one at a time for each program.
class CSession {
 public:
  CSession(const IntegerProgram& program, const CUnit& unit, const CLibrary& library);

  /// The memory of input `which` as f32, for the caller to fill before a run.
  std::span<float> input(size_t which) { return inputs_[which]; }
  /// The codes of input `which`, where the program takes codes.
  std::span<std::byte> codes(size_t which) { return codes_[which]; }
  /// Throws GraphError for NaN.
  void run();
  /// Runs from codes; the values of steps are not taken over.
  void run_codes();
  /// What a step has computed, also of its views; nothing for nodes that no step gives.
  std::span<const std::byte> value(NodeId id) const;
  std::span<const std::byte> output(size_t which) const { return outputs_[which]; }

 private:
  std::vector<NodeId> steps_;
  std::vector<std::vector<float>> inputs_;
  std::vector<std::vector<std::byte>> codes_;
  std::vector<std::vector<std::byte>> outputs_;
  std::vector<std::vector<std::byte>> values_;  // by node
  std::vector<size_t> shown_;                   // by node: the one that it is or is a view of
  std::vector<void*> arguments_;                // of begin
  std::vector<void*> code_arguments_;           // of run_codes
  int32_t (*begin_)(void**) = nullptr;
  int32_t (*run_codes_)(void**) = nullptr;
  int32_t (*step_)(int32_t) = nullptr;
  void (*end_)() = nullptr;
  const void* (*result_)(int32_t) = nullptr;
};

}  // namespace qtape
