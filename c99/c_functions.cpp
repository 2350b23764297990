#include "qtape/c99/c_functions.h"

#include <fmt/format.h>

#include <algorithm>

#include "qtape/c99/c_hash.h"
#include "qtape/c99/c_header.h"
#include "qtape/c99/c_names.h"
#include "qtape/integer/program/integer_node.h"

namespace qtape {
namespace {

/// Returns `text` with each line indented.
std::string indented(std::string_view text, int columns) {
  std::string all;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    all += fmt::format("{:{}}{}\n", "", columns, text.substr(begin, end - begin));
    begin = end + 1;
  }
  return all;
}

class Functions {
 public:
  explicit Functions(const CFunctions& f) : f_(f), name_(f.name), macro_(c_macro(f.name)) {}

  std::string run() const {
    return compute() + step(false) + (codes() ? step(true) : "") + begin(false) +
           (codes() ? begin(true) : "") + end() + result() + runs(false) +
           (codes() ? runs(true) : "") + version() + fixed();
  }

 private:
  bool codes() const { return f_.written.takes_codes; }
  bool is_indices(size_t input) const {
    return f_.program[f_.written.inputs[input].node].value.type.dtype == DType::S32;
  }
  const std::vector<CStep>& steps() const { return f_.written.steps; }

  std::string parameters(bool codes) const {
    const std::string all = c_parameters(f_.program, f_.written, codes);
    return all.empty() ? "" : ", " + all;
  }
  /// Returns the names of inputs and outputs, each preceded by a comma.
  std::string arguments() const {
    std::string names;
    for (const auto* all : {&f_.written.inputs, &f_.written.outputs}) {
      for (const CArgument& each : *all) names += ", " + each.name;
    }
    return names;
  }

  std::string one_case(size_t i, std::string_view body) const {
    return fmt::format("    case {}: /* {} */\n{}      return {}_OK;\n", i,
                       c_comment(f_.program.describe(steps()[i].node)), indented(body, 6),
                       macro_);
  }

  /// Returns NAME_compute, which runs the steps other than the quantization of inputs.
  std::string compute() const {
    std::string cases;
    for (size_t i = 0; i < steps().size(); ++i) {
      if (!steps()[i].is_input) cases += one_case(i, f_.bodies[i]);
    }
    return fmt::format(
        "static int32_t {0}_compute({0}_context *context, int32_t step) {{\n  (void)context;\n"
        "  switch (step) {{\n{1}    default:\n      return {2}_NO_STEP;\n  }}\n}}\n\n",
        name_, cases, macro_);
  }

  /// Returns the index of the input from which a step computes codes.
  size_t input_of(const CStep& step) const {
    const ProgramNodeId x = f_.program[step.node].operands[0];
    const auto found = std::ranges::find(f_.written.inputs, x, &CArgument::node);
    return static_cast<size_t>(found - f_.written.inputs.begin());
  }

  /// Returns the check that all inputs were given, as floats or as codes.
  std::string begun() const {
    std::string text;
    for (size_t i = 0; i < f_.written.inputs.size(); ++i) {
      const bool both = codes() && !is_indices(i);
      text += fmt::format("  if ({} == 0{}) return {}_NOT_BEGUN;\n", c_in_pointer(i),
                          both ? fmt::format(" && {} == 0", c_codes_pointer(i)) : "", macro_);
    }
    return text;
  }

  std::string step(bool codes) const {
    std::string cases;
    for (size_t i = 0; i < steps().size(); ++i) {
      const CStep& step = steps()[i];
      if (!step.is_input) continue;
      const size_t input = input_of(step);
      const std::string from = codes ? c_codes_pointer(input) : c_in_pointer(input);
      // Without codes the check of all inputs is the same.
      std::string body =
          this->codes() ? fmt::format("if ({} == 0) return {}_NOT_BEGUN;\n", from, macro_) : "";
      body += codes ? fmt::format("memcpy({}, {}, {});\n", f_.places[at(step.node)], from,
                                  f_.program[step.node].value.type.bytes())
                    : f_.bodies[i];
      cases += one_case(i, body);
    }
    return fmt::format(
        "int32_t {0}_step{1}({0}_context *context, int32_t step) {{\n{3}  switch (step) {{\n{2}"
        "    default:\n      return {0}_compute(context, step);\n  }}\n}}\n\n",
        name_, codes ? "_codes" : "", cases, begun());
  }

  std::string begin(bool codes) const {
    std::string text = fmt::format("int32_t {0}_begin{1}({0}_context *context{2}) {{\n", name_,
                                   codes ? "_codes" : "", parameters(codes));
    for (size_t i = 0; i < f_.written.inputs.size(); ++i) {
      const std::string& given = f_.written.inputs[i].name;
      const bool indices = is_indices(i);
      text += fmt::format("  {} = {};\n", c_in_pointer(i), codes && !indices ? "0" : given);
      if (this->codes() && !indices) {
        text += fmt::format("  {} = {};\n", c_codes_pointer(i), codes ? given : "0");
      }
    }
    for (size_t i = 0; i < f_.written.outputs.size(); ++i) {
      text += fmt::format("  {} = {};\n", c_out_pointer(i), f_.written.outputs[i].name);
    }
    if (arguments().empty()) text += "  (void)context;\n";
    return text + fmt::format("  return {};\n}}\n\n", f_.rounding_check.empty()
                                                          ? macro_ + "_OK"
                                                          : f_.rounding_check + "(context)");
  }

  /// Returns NAME_end, which writes the outputs that steps have not written in place, and
  /// forgets the inputs.
  std::string end() const {
    std::string text =
        fmt::format("void {0}_end({0}_context *context) {{\n  (void)context;\n", name_);
    for (size_t i = 0; i < f_.written.outputs.size(); ++i) {
      const ProgramNodeId id = f_.written.outputs[i].node;
      if (f_.places[at(id)] == c_out_pointer(i)) continue;
      text += fmt::format("  memcpy({}, {}, {});\n", c_out_pointer(i), f_.places[at(id)],
                          f_.program[id].value.type.bytes());
    }
    for (size_t i = 0; i < f_.written.inputs.size(); ++i) {
      text += fmt::format("  {} = 0;\n", c_in_pointer(i));
      if (this->codes() && !is_indices(i))
        text += fmt::format("  {} = 0;\n", c_codes_pointer(i));
    }
    return text + "}\n\n";
  }

  std::string result() const {
    std::string text = fmt::format(
        "const void *{0}_result(const {0}_context *context, int32_t step) {{\n"
        "  (void)context;\n  switch (step) {{\n",
        name_);
    for (size_t i = 0; i < steps().size(); ++i) {
      text +=
          fmt::format("    case {}:\n      return {};\n", i, f_.places[at(steps()[i].node)]);
    }
    return text + "    default:\n      return 0;\n  }\n}\n\n";
  }

  std::string runs(bool codes) const {
    const std::string_view suffix = codes ? "_codes" : "";
    return fmt::format(
        "int32_t {0}_run{1}_in({0}_context *context{2}) {{\n"
        "  int32_t step, status = {0}_begin{1}(context{3});\n"
        "  for (step = 0; step < {4}_STEPS && status == {4}_OK; ++step) {{\n"
        "    status = {0}_step{1}(context, step);\n  }}\n"
        "  if (status == {4}_OK) {0}_end(context);\n  return status;\n}}\n\n",
        name_, suffix, parameters(codes), arguments(), macro_);
  }

  std::string version() const {
    return fmt::format(
        "const char *{0}_version(void) {{\n  return {1}_NAME \": qtape \" {1}_QTAPE_VERSION "
        "\", "
        "program \" {1}_PROGRAM_SHA256;\n}}\n\n",
        name_, macro_);
  }

  /// Returns the static variant: the functions on static memory.
  std::string fixed() const {
    std::string text = fmt::format(
        "#ifndef {1}_NO_STATIC\nstatic {0}_arena {0}_static_arena;\n"
        "static {0}_context {0}_static;\n\n{0}_context *{0}_static_context(void) {{\n"
        "  {0}_static.arena = &{0}_static_arena;\n  return &{0}_static;\n}}\n",
        name_, macro_);
    for (bool codes : {false, true}) {
      if (codes && !this->codes()) continue;
      const std::string all = c_parameters(f_.program, f_.written, codes);
      text += fmt::format(
          "\nint32_t {0}_run{1}({2}) {{\n  return "
          "{0}_run{1}_in({0}_static_context(){3});\n}}\n",
          name_, codes ? "_codes" : "", all.empty() ? "void" : all, arguments());
    }
    return text + "#endif\n";
  }

  const CFunctions& f_;
  std::string name_;
  std::string macro_;
};

}  // namespace

std::string c_in_pointer(size_t i) { return fmt::format("context->in{}", i); }
std::string c_codes_pointer(size_t i) { return fmt::format("context->codes{}", i); }
std::string c_out_pointer(size_t i) { return fmt::format("context->out{}", i); }

std::string c_functions(const CFunctions& functions) { return Functions(functions).run(); }

std::string c_constant_hash(std::string_view name, const std::vector<CSource::Array>& arrays) {
  std::string rows;
  for (const CSource::Array& each : arrays) {
    const std::string row = fmt::format("    {{{}}},\n", each.hashed);
    // On other processors the row holds the hash itself and no elements.
    rows += each.helium_only ? fmt::format(
                                   "#if defined(ARM_MATH_MVEI)\n{}#else\n"
                                   "    {{0, (int32_t){}u, 0}},\n#endif\n",
                                   row, each.hash)
                             : row;
  }
  return fmt::format(
      "static const struct {{\n  const void *elements;\n  int32_t count;\n  int32_t size;\n"
      "}} {0}_hashed[] = {{\n{1}}};\n\n"
      "uint32_t {0}_constant_hash(int32_t constant) {{\n"
      "  if (constant < 0 || constant >= {2}_CONSTANTS) return 0;\n"
      "  if ({0}_hashed[constant].size == 0) return (uint32_t){0}_hashed[constant].count;\n"
      "  return {0}_hash({3}u, {0}_hashed[constant].elements, {0}_hashed[constant].count,\n"
      "{4:{5}}{0}_hashed[constant].size);\n}}\n",
      name, rows.empty() ? "    {0, 0, 0},\n" : rows, c_macro(name), c_hash_start, "",
      15 + name.size());
}

ProgramNodeId c_codes_of(const IntegerProgram& program, const CProgram& written,
                         ProgramNodeId input) {
  for (const CStep& step : written.steps) {
    if (step.is_input && program[step.node].operands[0] == input) return step.node;
  }
  return input;
}

}  // namespace qtape
