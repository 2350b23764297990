#include "qtape/c99/c_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "qtape/c99/c_functions.h"
#include "qtape/c99/c_names.h"
#include "qtape/integer/program/integer_node.h"

namespace qtape {
namespace {

constexpr std::string_view statuses = R"(/* The status that functions return. */
#define {0}_OK 0
#define {0}_NAN 1            /* an input has NaN; outputs are undefined */
#define {0}_REFUSED 2        /* CMSIS-NN refuses a step; outputs are undefined */
#define {0}_NO_STEP 3        /* there is no step of that number */
#define {0}_OTHER_ROUNDING 4 /* CMSIS-NN is compiled for another requantization */
#define {0}_NOT_BEGUN 5      /* {1}_begin was not called, or for codes instead of floats, or {1}_end was */
#define {0}_INDEX 6          /* an index is outside of its table; outputs are undefined */

)";

constexpr std::string_view instance =
    R"(/* One instance: its memory, which the caller gives, and the run that has begun. Instances share
 * nothing: each may run in a thread of its own. */
typedef struct {{
  {0}_arena *arena;
{1}}} {0}_context;

/* {0}_run and {0}_run_codes run one instance in static memory, {0}_static_context(): not for use
 * by two threads at once. The functions that end in _in run the instance that is given. All take
 * inputs in the order of the network, then outputs, and return a status. Compiled with
 * -D{2}_NO_STATIC, {0}.c and {0}_test.c have no static instance and nothing that uses it.
)";

constexpr std::string_view parts_text =
    R"(/* A run in parts, to do other work in between: {0}_begin, then {0}_step for the steps 0 to {1}
 * in this order, until one does not return {2}_OK, then {0}_end. After step i, {0}_result(context,
 * i) is where its result lies. */
)";

constexpr std::string_view test_text =
    R"(/* The self-test, {0}_test.c: returns the number of mismatches, 0 where all is as expected. It
 * calls `report`, unless that is 0, for each:
 *   "constant", -1, n, hash, hash: constant n of {0}_constant_hash; nothing is run then;
 *   a step or output, -1, -1, hash, hash: over all inputs that the test makes;
 *   a step or output, sample, element, integer, integer: the first element of a stored sample that
 *     differs; of floats their bits;
 *   "status", sample, step, {2}_OK, status: a step that fails. */
typedef void (*{0}_report)(const char *step, int32_t sample, int32_t index, int64_t expected,
{1:{3}}int64_t got);
int32_t {0}_test_in({0}_context *context, {0}_report report);
int32_t {0}_test({0}_report report);

/* For it: a hash of elements of `size` bytes, the same in any byte order, and that of a constant.
 * Compiled with -D{2}_NO_TEST, {0}.c has neither. */
uint32_t {0}_hash(uint32_t hash, const void *elements, int32_t count, int32_t size);
uint32_t {0}_constant_hash(int32_t constant);

)";

class Header {
 public:
  Header(const IntegerProgram& program, const CProgram& written, const CHeaderParts& parts)
      : program_(program),
        written_(written),
        parts_(parts),
        name_(parts.name),
        macro_(c_macro(parts.name)) {}

  std::string run() const {
    std::string text = fmt::format(
        "/* {0}: a network in integers, written by qtape; see {0}.c.\n"
        " * SPDX-License-Identifier: Apache-2.0, that of qtape, for all but the constants. */\n"
        "#ifndef {1}_H\n#define {1}_H\n\n#include <stdint.h>\n\n"
        "#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n",
        name_, macro_);
    text += origin();
    text += fmt::format("#define {0}_STEPS {1}\n#define {0}_CONSTANTS {2}\n", macro_,
                        written_.steps.size(), written_.constants.size());
    text += fmt::format(
        "#define {0}_CONSTANT_BYTES {1}\n#define {0}_ARENA_BYTES {2} /* of values */\n", macro_,
        written_.constant_bytes, written_.arena_bytes);
    text += buffer() + "\n";
    for (size_t i = 0; i < written_.inputs.size(); ++i) text += input(i);
    for (size_t i = 0; i < written_.outputs.size(); ++i) text += output(i);
    text += fmt::format(statuses, macro_, name_) + arena() + context() + functions();
    return text + fmt::format("#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {}_H */\n", macro_);
  }

 private:
  const IntegerValue& value(ProgramNodeId id) const { return program_[id].value; }

  std::string origin() const {
    return fmt::format(
        "#define {0}_NAME \"{1}\"\n#define {0}_QTAPE_VERSION \"{2}\"\n"
        "#define {0}_LICENSE \"Apache-2.0\"\n#define {0}_PROGRAM_SHA256 \\\n  \"{3}\"\n"
        "#define {0}_EXPORT 0x{4}u /* the same in all files of an export */\n\n",
        macro_, name_, c_writer_version(), parts_.sha256,
        written_.id.empty() ? "0" : written_.id);
  }

  std::string define(std::string_view argument, std::string_view what,
                     std::string_view is) const {
    return fmt::format("#define {}_{}_{} {}\n", macro_, argument, what, is);
  }
  std::string define(std::string_view argument, std::string_view what, int64_t is) const {
    return define(argument, what, fmt::format("{}", is));
  }

  std::string codes(std::string_view argument, std::string_view type,
                    const IntegerValue& v) const {
    return define(argument, type, c_type(v.type.dtype)) +
           define(argument, "SCALE", c_decimal(v.scales[0])) +
           define(argument, "ZERO_POINT", v.zero_point) + define(argument, "LOW", v.low) +
           define(argument, "HIGH", v.high);
  }

  std::string shape(std::string_view argument, const Shape& shape) const {
    return define(argument, "ELEMENTS", shape.elements()) +
           define(argument, "RANK", shape.rank()) +
           define(argument, "SHAPE", fmt::format("{{{}}}", fmt::join(shape.extents(), ", ")));
  }

  /// Returns the formula of the codes of a quantizer.
  std::string code_text(ProgramNodeId id) const {
    const auto& op = std::get<integer::Quantize>(program_[id].op);
    const std::string_view scaled =
        op.division == Division::Exact ? "x / SCALE" : "x * (1 / SCALE)";
    const std::string_view halves = op.rounding == Rounding::HalfEven   ? "to even"
                                    : op.rounding == Rounding::HalfAway ? "away from 0"
                                                                        : "upwards";
    const bool first = op.zero_point == ZeroPoint::BeforeRounding;
    return fmt::format("round({}{}){}, in floats, halves {}", scaled,
                       first ? " + ZERO_POINT" : "", first ? "" : " + ZERO_POINT", halves);
  }

  /// Returns the macros of input `i`, and those of its codes if the program accepts codes.
  std::string input(size_t i) const {
    const CArgument& each = written_.inputs[i];
    const std::string argument = fmt::format("INPUT{}", i);
    std::string text =
        fmt::format("/* Input {}, {}: {}", i, each.name, to_string(value(each.node).type));
    const ProgramNodeId id = c_codes_of(program_, written_, each.node);
    const bool takes_codes = written_.takes_codes && id != each.node;
    if (takes_codes) text += "; codes q = " + code_text(id) + ", LOW to HIGH";
    const bool indices = value(each.node).type.dtype == DType::S32;
    if (indices) text += fmt::format(": indices, 0 to {}", value(each.node).high);
    text += ". */\n" + define(argument, "TYPE", c_type(value(each.node).type.dtype)) +
            shape(argument, value(each.node).type.shape);
    if (takes_codes) text += codes(argument, "CODE_TYPE", value(id));
    return text + "\n";
  }

  std::string output(size_t i) const {
    const CArgument& each = written_.outputs[i];
    const std::string argument = fmt::format("OUTPUT{}", i);
    const IntegerValue& v = value(each.node);
    std::string text = fmt::format("/* Output {}, {}: {}", i, each.name, to_string(v.type));
    if (v.is_codes()) text += ": codes q of the values (q - ZERO_POINT) SCALE, LOW to HIGH";
    const bool index = std::holds_alternative<integer::ArgMax>(program_[each.node].op);
    if (index) text += fmt::format(": indices, 0 to {}", v.high);
    if (v.is_accumulators() && !index) text += accumulators_text(v);
    text += ". */\n";
    if (v.is_codes())
      return text + codes(argument, "TYPE", v) + shape(argument, v.type.shape) + "\n";
    text += define(argument, "TYPE", c_type(v.type.dtype)) + shape(argument, v.type.shape);
    if (v.is_accumulators()) text += scales(argument, v);
    return text + "\n";
  }

  static std::string accumulators_text(const IntegerValue& v) {
    if (v.scales.size() == 1) return ": sums, of the values q SCALE";
    std::string text = fmt::format(
        ": sums, of the values q[i] SCALES[i % {0}].\n * The {0} channels have scales of their "
        "own: the largest sum need not be the largest value",
        v.scales.size());
    if (v.type.dtype != DType::S32) return text;
    return text +
           fmt::format(
               ". For an\n * arg-max compare (int64_t)q[i] * RATIOS[i % {}], which is in "
               "proportion to the value; ratios\n * are rounded to 31 bits",
               v.scales.size());
  }

  std::string scales(std::string_view argument, const IntegerValue& v) const {
    if (v.scales.size() == 1) {
      return define(argument, "SCALE", c_decimal(v.scales[0])) +
             define(argument, "ZERO_POINT", 0);
    }
    const double most = *std::ranges::max_element(v.scales);
    std::vector<std::string> scales;
    std::vector<int64_t> ratios;
    for (double each : v.scales) {
      scales.push_back(c_decimal(each));
      ratios.push_back(static_cast<int64_t>(std::llround(each / most * 2147483647.0)));
    }
    std::string text =
        define(argument, "ZERO_POINT", 0) +
        define(argument, "SCALES", fmt::format("{{{}}}", fmt::join(scales, ", ")));
    if (v.type.dtype != DType::S32) return text;
    return text + define(argument, "RATIOS", fmt::format("{{{}}}", fmt::join(ratios, ", ")));
  }

  /// Returns the buffer sizes for CMSIS-NN, by processor type.
  std::string buffer() const {
    if (written_.buffer_bytes == 0) return {};
    const auto whole = [](int64_t bytes) { return std::max<int64_t>(4, (bytes + 3) / 4 * 4); };
    return fmt::format(
        "/* Buffer memory for CMSIS-NN, in addition to inputs and outputs. */\n"
        "#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 1)\n"
        "#define {0}_BUFFER_BYTES {1}\n#elif defined(__ARM_FEATURE_DSP) && __ARM_FEATURE_DSP "
        "== "
        "1\n#define {0}_BUFFER_BYTES {2}\n#else\n#define {0}_BUFFER_BYTES {3}\n#endif\n",
        macro_, whole(parts_.buffer.helium), whole(parts_.buffer.dsp),
        whole(parts_.buffer.plain));
  }

  std::string arena() const {
    std::string members;
    for (DType dtype : parts_.arena) {
      const int64_t count = (written_.arena_bytes + size_of(dtype) - 1) / size_of(dtype);
      members += fmt::format("    {} {}[{}];\n", c_type(dtype), to_string_view(dtype),
                             std::max<int64_t>(1, count));
    }
    std::string text = fmt::format(
        "/* Memory of a run. It holds nothing between runs. */\ntypedef struct {{\n  union {{\n"
        "{}    int64_t alignment;\n  }} values;\n",
        members);
    if (written_.buffer_bytes > 0) {
      text += fmt::format("  int32_t buffer[{}_BUFFER_BYTES / 4];\n", macro_);
    }
    return text + fmt::format("}} {}_arena;\n\n", name_);
  }

  std::string context() const {
    std::string members;
    for (size_t i = 0; i < written_.inputs.size(); ++i) {
      const ProgramNodeId id = written_.inputs[i].node;
      const ProgramNodeId quantized = c_codes_of(program_, written_, id);
      members += fmt::format("  const {} *in{};\n", c_type(value(id).type.dtype), i);
      if (written_.takes_codes && value(id).type.dtype == DType::F32) {
        members +=
            fmt::format("  const {} *codes{};\n", c_type(value(quantized).type.dtype), i);
      }
    }
    for (size_t i = 0; i < written_.outputs.size(); ++i) {
      members +=
          fmt::format("  {} *out{};\n", c_type(value(written_.outputs[i].node).type.dtype), i);
    }
    return fmt::format(instance, name_, members, macro_);
  }

  std::string functions() const {
    const auto with_context = [&](bool codes) {
      const std::string all = c_parameters(program_, written_, codes);
      return fmt::format("{}_context *context{}{}", name_, all.empty() ? "" : ", ", all);
    };
    std::string text = " */\n";
    for (bool codes : {false, true}) {
      if (codes && !written_.takes_codes) continue;
      const std::string all = c_parameters(program_, written_, codes);
      const std::string_view suffix = codes ? "_codes" : "";
      if (codes)
        text += "/* From the codes of the inputs: computes nothing in float for them. */\n";
      text += fmt::format("int32_t {0}_run{1}({2});\nint32_t {0}_run{1}_in({3});\n", name_,
                          suffix, all.empty() ? "void" : all, with_context(codes));
    }
    text += fmt::format("{0}_context *{0}_static_context(void);\n\n", name_);
    text += fmt::format(parts_text, name_, std::max<int64_t>(0, std::ssize(written_.steps) - 1),
                        macro_);
    for (bool codes : {false, true}) {
      if (codes && !written_.takes_codes) continue;
      const std::string_view suffix = codes ? "_codes" : "";
      text += fmt::format(
          "int32_t {0}_begin{1}({2});\nint32_t {0}_step{1}({0}_context *context, int32_t "
          "step);\n",
          name_, suffix, with_context(codes));
    }
    text += fmt::format(
        "void {0}_end({0}_context *context);\n"
        "const void *{0}_result(const {0}_context *context, int32_t step);\n\n"
        "/* Name, version of qtape and SHA-256 of the program, a string of the firmware. */\n"
        "const char *{0}_version(void);\n\n",
        name_);
    return text + fmt::format(test_text, name_, "", macro_, name_.size() + 24);
  }

  const IntegerProgram& program_;
  const CProgram& written_;
  const CHeaderParts& parts_;
  std::string name_;
  std::string macro_;
};

}  // namespace

std::string c_parameters(const IntegerProgram& program, const CProgram& written, bool codes) {
  std::string list;
  for (const CArgument& each : written.inputs) {
    const ProgramNodeId id = codes ? c_codes_of(program, written, each.node) : each.node;
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
                     const CHeaderParts& parts) {
  return Header(program, written, parts).run();
}

std::string c_include(std::string_view name, std::string_view id) {
  return fmt::format(
      "#include \"{0}.h\"\n\n#if {1}_EXPORT != 0x{2}u\n"
      "#error \"{0}.h comes from a different export than this file\"\n#endif\n\n",
      name, c_macro(name), id);
}

}  // namespace qtape
