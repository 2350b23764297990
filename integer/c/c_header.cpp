#include "qtape/integer/c/c_header.h"

#include <fmt/format.h>

#include <algorithm>

#include "qtape/integer/c/c_names.h"

namespace qtape {
namespace {

/// The codes that a step makes of `input`.
NodeId codes_of(const IntegerProgram& program, const CProgram& written, NodeId input) {
  for (const CStep& step : written.steps) {
    if (step.is_input && program[step.node].operands[0] == input) return step.node;
  }
  return input;
}

std::string argument_text(const IntegerProgram& program, const CArgument& each, NodeId id) {
  const IntegerValue& v = program[id].value;
  std::string text = fmt::format(" *   {}: {}", each.name, to_string(v.type));
  if (v.is_codes()) {
    text += fmt::format(", value (q - {}) {}, codes {}..{}", v.zero_point, v.scales[0], v.low,
                        v.high);
  }
  if (v.is_accumulators() && v.scales.size() == 1) {
    text += fmt::format(", value q {}", v.scales[0]);
  }
  return text + "\n";
}

}  // namespace

std::string c_parameters(const IntegerProgram& program, const CProgram& written, bool codes) {
  std::string list;
  for (const CArgument& each : written.inputs) {
    const NodeId id = codes ? codes_of(program, written, each.node) : each.node;
    list += fmt::format("{}const {} *{}", list.empty() ? "" : ", ",
                        c_type(program[id].value.type.dtype), each.name);
  }
  for (const CArgument& each : written.outputs) {
    list += fmt::format("{}{} *{}", list.empty() ? "" : ", ",
                        c_type(program[each.node].value.type.dtype), each.name);
  }
  return list;
}

std::string c_header(const IntegerProgram& program, const CProgram& written,
                     std::string_view name) {
  const std::string guard = fmt::format("{}_H", name);
  std::string text = fmt::format(
      "/* {}: a network in integers, written by qtape; see {}.c. */\n"
      "#ifndef {}\n#define {}\n\n#include <stdint.h>\n\n"
      "#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n",
      name, name, guard, guard);
  text += fmt::format(
      "#define {}_STEPS {}\n#define {}_ARENA_BYTES {}\n#define "
      "{}_CONSTANT_BYTES {}\n\n",
      c_macro(name), written.steps.size(), c_macro(name), written.arena_bytes, c_macro(name),
      written.constant_bytes);
  text +=
      "/* Runs the network. Returns 0, 1 where an input has NaN, 2 where a library refuses;\n"
      " * outputs are undefined then. Memory is static: not for use by two threads at "
      "once.\n";
  for (const CArgument& each : written.inputs) text += argument_text(program, each, each.node);
  for (const CArgument& each : written.outputs) text += argument_text(program, each, each.node);
  text +=
      fmt::format(" */\nint32_t {}_run({});\n\n", name, c_parameters(program, written, false));
  if (written.takes_codes) {
    text += "/* The same from the codes of the inputs.\n";
    for (const CArgument& each : written.inputs) {
      text += argument_text(program, each, codes_of(program, written, each.node));
    }
    text += fmt::format(" */\nint32_t {}_run_codes({});\n\n", name,
                        c_parameters(program, written, true));
  }
  text += fmt::format(
      "/* A run in parts, for tests and to do other work in between: what {0}_run does is\n"
      " * {0}_begin, then the steps 0 to {1} in this order, until one does not return 0, "
      "then\n"
      " * {0}_end. After step i, {0}_result(i) is what it has computed. */\n"
      "void {0}_begin({2});\nint32_t {0}_step(int32_t step);\nvoid {0}_end(void);\n"
      "const void *{0}_result(int32_t step);\n\n",
      name, std::max<int64_t>(0, std::ssize(written.steps) - 1),
      c_parameters(program, written, false));
  return text + fmt::format("#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {} */\n", guard);
}

}  // namespace qtape
