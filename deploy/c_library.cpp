#include "qtape/deploy/c_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "qtape/core/error.h"
#include "qtape/deploy/subprocess.h"
#include "qtape/engine/files.h"

namespace qtape {
namespace {

size_t at(NodeId id) { return static_cast<size_t>(id.index); }

/// Calls a C function of up to 16 pointers.
template <class Result>
Result call(void* function, std::vector<void*> p) {
  constexpr size_t most = 16;
  require<GraphError>(p.size() <= most, "C programs are run with {} inputs and outputs, got {}",
                      most, p.size());
  p.resize(most);
  using F = Result (*)(void*, void*, void*, void*, void*, void*, void*, void*, void*, void*,
                       void*, void*, void*, void*, void*, void*);
  return reinterpret_cast<F>(function)(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8],
                                       p[9], p[10], p[11], p[12], p[13], p[14], p[15]);
}

}  // namespace

std::string CCompiler::name() const {
  if (!command.empty()) return command;
  const char* named = std::getenv("CC");
  return named != nullptr && *named != 0 ? named : "cc";
}

CLibrary::CLibrary(std::span<const CUnit> units, const CCompiler& compiler)
    : folder_(make_temporary_folder()) {
  const std::string object = folder_ + "/library.so";
  std::vector<std::string> arguments = {compiler.name(), "-std=c99", "-shared", "-fPIC"};
  arguments.insert(arguments.end(), compiler.flags.begin(), compiler.flags.end());
  arguments.insert(arguments.end(), {"-o", object});
  for (const CUnit& unit : units) {
    write_file(folder_ + "/" + unit.name + ".h", unit.written.header);
    write_file(folder_ + "/" + unit.name + ".c", unit.written.source);
    arguments.push_back(folder_ + "/" + unit.name + ".c");
  }
  const Finished finished = run_program(arguments);
  messages_ = finished.output;
  require<Error>(finished.exit_code == 0, "{} ended with {}: {}", compiler.name(),
                 finished.exit_code, messages_.substr(0, 4000));
  handle_ = ::dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  require<Error>(handle_ != nullptr, "{}", handle_ == nullptr ? ::dlerror() : "");
}

CLibrary::~CLibrary() {
  if (handle_ != nullptr) ::dlclose(handle_);
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void* CLibrary::function(const std::string& name) const {
  void* found = ::dlsym(handle_, name.c_str());
  require<Error>(found != nullptr, "the library has no {}", name);
  return found;
}

CSession::CSession(const IntegerProgram& program, const CUnit& unit, const CLibrary& library)
    : values_(static_cast<size_t>(program.size())) {
  const IntegerProgram one = program.batch() ? program.with_batch(1) : program;
  const auto bytes_of = [&](NodeId id) {
    return static_cast<size_t>(one[id].value.type.bytes());
  };
  const CProgram& c = unit.written;
  for (const CArgument& each : c.inputs) {
    inputs_.emplace_back(bytes_of(each.node) / sizeof(float));
    if (!c.takes_codes) continue;
    for (const CStep& step : c.steps) {
      if (step.is_input && one[step.node].operands[0] == each.node) {
        codes_.emplace_back(bytes_of(step.node));
      }
    }
  }
  for (const CArgument& each : c.outputs) outputs_.emplace_back(bytes_of(each.node));
  for (const CStep& step : c.steps) {
    steps_.push_back(step.node);
    values_[at(step.node)].resize(bytes_of(step.node));
  }
  for (auto& each : inputs_) arguments_.push_back(each.data());
  for (auto& each : codes_) code_arguments_.push_back(each.data());
  for (auto& each : outputs_) {
    arguments_.push_back(each.data());
    code_arguments_.push_back(each.data());
  }
  begin_ = library.function(unit.name + "_begin");
  if (c.takes_codes) run_codes_ = library.function(unit.name + "_run_codes");
  step_ = reinterpret_cast<int32_t (*)(int32_t)>(library.function(unit.name + "_step"));
  end_ = reinterpret_cast<void (*)()>(library.function(unit.name + "_end"));
  result_ = reinterpret_cast<const void* (*)(int32_t)>(library.function(unit.name + "_result"));
}

void CSession::run() {
  call<void>(begin_, arguments_);
  for (size_t i = 0; i < steps_.size(); ++i) {
    const auto number = static_cast<int32_t>(i);
    require<GraphError>(step_(number) == 0, "an input has NaN, which has no code");
    std::vector<std::byte>& to = values_[at(steps_[i])];
    if (!to.empty()) std::memcpy(to.data(), result_(number), to.size());
  }
  end_();
}

void CSession::run_codes() { (void)call<int32_t>(run_codes_, code_arguments_); }

std::span<const std::byte> CSession::value(NodeId id) const { return values_[at(id)]; }

}  // namespace qtape
