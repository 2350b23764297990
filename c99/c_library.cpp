#include "qtape/c99/c_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>

#include "qtape/c99/c_functions.h"
#include "qtape/core/error.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/io/files.h"
#include "qtape/programs/console/subprocess.h"

namespace qtape {
namespace {

/// C functions that run a program on its static memory, with arrays of pointers for inputs and
/// outputs.
std::string glue(const CUnit& unit) {
  const CProgram& c = unit.written;
  const size_t count = c.inputs.size() + c.outputs.size();
  std::string pointers;
  for (size_t i = 0; i < count; ++i) pointers += fmt::format(", p[{}]", i);
  std::string text = fmt::format(
      "#include \"{0}.h\"\n#define GLUE {0}_static_context()\n"
      "int32_t {0}_glue_begin(void **p);\nint32_t {0}_glue_step(int32_t step);\n"
      "void {0}_glue_end(void);\nconst void *{0}_glue_result(int32_t step);\n"
      "int32_t {0}_glue_begin(void **p) {{\n  (void)p;\n  return {0}_begin(GLUE{1});\n}}\n"
      "int32_t {0}_glue_step(int32_t step) {{ return {0}_step(GLUE, step); }}\n"
      "void {0}_glue_end(void) {{ {0}_end(GLUE); }}\n"
      "const void *{0}_glue_result(int32_t step) {{ return {0}_result(GLUE, step); }}\n",
      unit.name, pointers);
  if (!c.takes_codes) return text;
  return text + fmt::format(
                    "int32_t {0}_glue_run_codes(void **p);\n"
                    "int32_t {0}_glue_run_codes(void **p) {{\n"
                    "  return {0}_run_codes_in(GLUE{1});\n}}\n",
                    unit.name, pointers);
}

}  // namespace

std::vector<std::string> c_standard(const std::string& name) {
  std::vector<std::string> arguments = {"-std=" + name};
#if defined(__s390x__)
  arguments.emplace_back("-fexcess-precision=fast");
#endif
  return arguments;
}

CCompiler CCompiler::of_environment() {
  const std::vector<std::string> words = compiler_of_environment("CC", "CFLAGS", "cc");
  CCompiler compiler;
  compiler.command = words[0];
  compiler.flags.assign(words.begin() + 1, words.end());
  return compiler;
}

CLibrary::CLibrary(std::span<const CUnit> units, const CCompiler& compiler) {
  const std::string object = folder_.file("library.so");
  std::vector<std::string> arguments = c_standard(compiler.sources.empty() ? "c99" : "gnu99");
  arguments.insert(arguments.begin(), compiler.command);
  arguments.insert(arguments.end(), {"-shared", "-fPIC"});
  arguments.insert(arguments.end(), compiler.flags.begin(), compiler.flags.end());
  arguments.insert(arguments.end(), {"-o", object});
  for (const CUnit& unit : units) {
    write_file(folder_.file(unit.name + ".h"), unit.written.header);
    write_file(folder_.file(unit.name + ".c"), unit.written.source);
    write_file(folder_.file(unit.name + "_glue.c"), glue(unit));
    arguments.push_back(folder_.file(unit.name + ".c"));
    arguments.push_back(folder_.file(unit.name + "_glue.c"));
  }
  // Suppresses warnings of library sources.
  if (!compiler.sources.empty()) arguments.emplace_back("-w");
  arguments.insert(arguments.end(), compiler.sources.begin(), compiler.sources.end());
  const Finished finished = run_program(arguments);
  messages_ = finished.output;
  require_success(compiler.command, finished);
  handle_ = ::dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  require<Error>(handle_ != nullptr, "{}", handle_ == nullptr ? ::dlerror() : "");
  // The loaded library stays usable; a signal may end this process at any time, so files are
  // removed now.
  folder_.remove();
}

CLibrary::~CLibrary() {
  if (handle_ != nullptr) ::dlclose(handle_);
}

void* CLibrary::function(const std::string& name) const {
  void* found = ::dlsym(handle_, name.c_str());
  require<Error>(found != nullptr, "the library has no {}", name);
  return found;
}

namespace {

/// Returns the argument of a value. The program takes a null pointer for a missing one.
void* place(std::vector<std::byte>& bytes) {
  static std::byte none{};
  return bytes.empty() ? &none : bytes.data();
}

}  // namespace

CSession::CSession(const IntegerProgram& program, const CUnit& unit, const CLibrary& library)
    : values_(static_cast<size_t>(program.size())) {
  const auto bytes_of = [&](ProgramNodeId id) {
    return static_cast<size_t>(program[id].value.type.bytes());
  };
  const CProgram& c = unit.written;
  for (const CArgument& each : c.inputs) {
    inputs_.emplace_back(bytes_of(each.node));
    if (c.takes_codes) codes_.emplace_back(bytes_of(c_codes_of(program, c, each.node)));
  }
  for (const CArgument& each : c.outputs) outputs_.emplace_back(bytes_of(each.node));
  for (const CStep& step : c.steps) {
    steps_.push_back(step.node);
    values_[at(step.node)].resize(bytes_of(step.node));
  }
  for (auto& each : inputs_) arguments_.push_back(place(each));
  for (auto& each : codes_) code_arguments_.push_back(place(each));
  for (auto& each : outputs_) {
    arguments_.push_back(place(each));
    code_arguments_.push_back(place(each));
  }
  for (const ProgramNodeId id : ids(program)) {
    const IntegerNode& node = program[id];
    const bool view = values_[at(id)].empty() && !node.operands.empty() &&
                      placement_of(node.op) == Placement::View;
    shown_.push_back(view ? shown_[at(node.operands[0])] : at(id));
  }
  const std::string prefix = unit.name + "_glue";
  using Run = int32_t (*)(void**);
  begin_ = reinterpret_cast<Run>(library.function(prefix + "_begin"));
  if (c.takes_codes) {
    run_codes_ = reinterpret_cast<Run>(library.function(prefix + "_run_codes"));
  }
  step_ = reinterpret_cast<int32_t (*)(int32_t)>(library.function(prefix + "_step"));
  end_ = reinterpret_cast<void (*)()>(library.function(prefix + "_end"));
  result_ = reinterpret_cast<const void* (*)(int32_t)>(library.function(prefix + "_result"));
}

namespace {

void require_ok(int32_t status, const std::string& what) {
  require<GraphError>(status != 1, "an input contains NaN, which has no code");
  require<GraphError>(status != 6, "an index is outside of its table");
  require<Error>(status != 4, "CMSIS-NN is compiled for another requantization");
  require<Error>(status == 0, "{}: the compiled library returned status {}", what, status);
}

}  // namespace

void CSession::run() {
  require_ok(begin_(arguments_.data()), "begin");
  for (size_t i = 0; i < steps_.size(); ++i) {
    const auto number = static_cast<int32_t>(i);
    require_ok(step_(number), fmt::format("step {}", i));
    std::vector<std::byte>& to = values_[at(steps_[i])];
    if (!to.empty()) std::memcpy(to.data(), result_(number), to.size());
  }
  end_();
}

void CSession::run_codes() { require_ok(run_codes_(code_arguments_.data()), "run_codes"); }

std::span<const std::byte> CSession::value(ProgramNodeId id) const {
  return values_[shown_[at(id)]];
}

}  // namespace qtape
