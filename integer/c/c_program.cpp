#include "qtape/integer/c/c_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "qtape/core/sha256.h"
#include "qtape/engine/plan.h"
#include "qtape/integer/c/c_grid.h"
#include "qtape/integer/c/c_header.h"
#include "qtape/integer/c/c_names.h"
#include "qtape/integer/c/c_source.h"

namespace qtape {
namespace {

size_t at(NodeId id) { return static_cast<size_t>(id.index); }

/// Member of the arena's union that has elements of `dtype`.
std::string_view member_of(DType dtype) { return to_string_view(dtype); }

/// `text` with each line indented.
std::string indented(std::string_view text, int columns) {
  std::string all;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    all += fmt::format("{:{}}{}\n", "", columns, text.substr(begin, end - begin));
    begin = end + 1;
  }
  return all;
}

constexpr std::string_view checks =
    R"(#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || \
    defined(__RECIPROCAL_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0)
#error "codes need IEEE arithmetic: compile without -ffast-math and what it consists of"
#endif
#if defined(__clang_major__) && __clang_major__ >= 12
#pragma clang fp contract(off)
#pragma clang fp reassociate(off)
#endif
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0 && __FLT_EVAL_METHOD__ != 16
#error "codes need float operations that are rounded to float, on x86 -mfpmath=sse"
#endif
)";

class Writer {
 public:
  Writer(const IntegerProgram& program, std::string name, CKernels kernels, std::string sha256)
      : program_(program),
        kernels_(kernels),
        sha256_(std::move(sha256)),
        plan_(plan_c_program(program, kernels)),
        name_(std::move(name)),
        source_(name_),
        names_(static_cast<size_t>(program.size())),
        places_(names_.size()) {}

  CProgram run() {
    result_.arena_bytes = plan_.arena_bytes;
    name_nodes();
    for (int32_t i = 0; i < program_.size(); ++i) place(NodeId{i});
    for (int32_t i = 0; i < program_.size(); ++i) write(NodeId{i});
    for (const CSource::Array& array : source_.arrays()) {
      result_.constant_bytes += array.bytes;
      for (CStep& step : result_.steps) {
        if (step.name == array.of) step.constant_bytes += array.bytes;
      }
    }
    for (const CStep& step : result_.steps) {
      result_.live_bytes = std::max(result_.live_bytes, step.live_bytes);
    }
    const CBuffer& buffer = source_.buffer();
    result_.buffer_bytes = std::max({buffer.plain, buffer.dsp, buffer.helium});
    result_.takes_codes = takes_codes();
    result_.header = c_header(program_, result_, name_);
    result_.source = source();
    return std::move(result_);
  }

 private:
  const ProgramPlan::Value& value(NodeId id) const { return plan_.values[at(id)]; }
  bool is_input(NodeId id) const {
    return std::holds_alternative<integer::Input>(program_[id].op);
  }

  void name_nodes() {
    // Parameters, beside what functions call and declare.
    CIdentifiers inputs({"step", "status", "memcpy", "memset", "size_t", "int8_t", "uint8_t",
                         "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t", name_},
                        name_ + "_");
    CIdentifiers nodes;
    for (int32_t i = 0; i < program_.size(); ++i) {
      const NodeId id{i};
      names_[at(id)] = (is_input(id) ? inputs : nodes).of(program_[id].label, i);
      if (is_input(id)) result_.inputs.push_back({id, names_[at(id)]});
    }
    for (NodeId id : program_.outputs()) {
      result_.outputs.push_back({id, inputs.of(program_[id].label, id.index)});
    }
  }

  std::string in_pointer(size_t i) const { return fmt::format("{}_in{}", name_, i); }
  std::string out_pointer(size_t i) const { return fmt::format("{}_out{}", name_, i); }

  /// Says where the value lies.
  void place(NodeId id) {
    const DType dtype = program_[id].value.type.dtype;
    if (const auto offset = value(id).offset) {
      const int64_t index = *offset / size_of(dtype);
      places_[at(id)] = fmt::format("{}_arena.{}", name_, member_of(dtype));
      if (index != 0) places_[at(id)] += fmt::format(" + {}", index);
      return;
    }
    for (size_t i = 0; i < result_.inputs.size(); ++i) {
      if (result_.inputs[i].node == id) places_[at(id)] = in_pointer(i);
    }
    for (size_t i = result_.outputs.size(); i-- > 0;) {
      if (result_.outputs[i].node == id && !is_input(id)) places_[at(id)] = out_pointer(i);
    }
  }

  void write(NodeId id) {
    const IntegerNode& node = program_[id];
    if (is_input(id) || is_joined(id)) return;
    const auto next = value(id).next;
    const NodeId last = next.value_or(id);
    CNode c{.source = source_,
            .name = names_[at(id)],
            .requantization = program_.requantization(),
            .kernels = kernels_,
            .output = &node.value,
            .result = places_[at(last)],
            .next = next ? &program_[*next].op : nullptr};
    for (NodeId operand : node.operands) {
      c.inputs.push_back(&program_[operand].value);
      c.operands.push_back(places_[at(operand)]);
    }
    if (const auto scratch = value(id).scratch) {
      c.scratch = fmt::format("{}_arena.u8 + {}", name_, *scratch);
    }
    naming<GraphError>(program_.describe(id), [&] { write_c(node.op, c); });
    if (c.code.empty()) return;
    result_.has_wide_sums = result_.has_wide_sums || c.wide_sums;
    const auto* weights = weights_of(node.op);
    CStep step{
        .node = last,
        .name = names_[at(id)],
        .label = program_.name(id),
        .products = weights == nullptr ? 0 : node.value.type.elements() * weights->terms(),
        .live_bytes = live_at(id.index),
        .is_input = node.operands.size() == 1 && is_input(node.operands[0])};
    cases_ += fmt::format("    case {}: /* {} */\n{}      return 0;\n", result_.steps.size(),
                          c_comment(program_.describe(id)), indented(c.code, 6));
    result_.steps.push_back(std::move(step));
  }

  bool is_joined(NodeId id) const {
    const IntegerNode& node = program_[id];
    return !node.operands.empty() && value(node.operands[0]).next == id;
  }

  int64_t live_at(int64_t time) const {
    int64_t bytes = 0;
    for (const Lifetime& each : plan_.buffers) {
      if (each.begin <= time && time <= each.end) bytes += each.bytes;
    }
    return bytes;
  }

  /// Whether codes of all inputs can be given instead of floats.
  bool takes_codes() const {
    std::map<int32_t, int> readers;
    for (const IntegerNode& node : program_.nodes()) {
      for (NodeId operand : node.operands) {
        if (!is_input(operand)) continue;
        if (!std::holds_alternative<integer::Quantize>(node.op)) return false;
        ++readers[operand.index];
      }
    }
    return !result_.inputs.empty() &&
           std::ranges::all_of(
               result_.inputs,
               [&](const CArgument& each) { return readers[each.node.index] == 1; }) &&
           std::ranges::none_of(program_.outputs(), [&](NodeId id) { return is_input(id); });
  }

  std::string parameters(bool codes) const { return c_parameters(program_, result_, codes); }

  /// The table of steps and what the program takes.
  std::string description() const {
    std::string text =
        fmt::format("/* {}: a network in integers, written by qtape.\n *\n", name_);
    text += fmt::format(" * Requantization {}: {}.\n",
                        to_string_view(program_.requantization()), requantization_doc());
    text += fmt::format(" * SHA-256 of the program: {}\n *\n", sha256_);
    text += fmt::format(" * {:<32} {:>20} {:>14} {:>12} {:>10}\n", "step", "output",
                        "multiply-adds", "flash bytes", "RAM bytes");
    int64_t products = 0;
    for (const CStep& step : result_.steps) {
      products += step.products;
      text += fmt::format(" * {:<32} {:>20} {:>14} {:>12} {:>10}\n", c_comment(step.label),
                          to_string(program_[step.node].value.type), step.products,
                          step.constant_bytes, step.live_bytes);
    }
    text += fmt::format(" * {:<32} {:>20} {:>14} {:>12} {:>10}\n *\n", "all", "", products,
                        result_.constant_bytes, result_.arena_bytes);
    text +=
        " * Flash bytes are those of constants, RAM bytes those of the static arena: what a "
        "step\n * reads, writes and gathers; inputs and outputs in float are the "
        "caller's.\n *\n";
    for (const IntegerNode& node : program_.nodes()) {
      if (const QuantizedWeights* weights = weights_of(node.op)) {
        text += fmt::format(" * Certificate of {}: {}.\n", c_comment(node.label),
                            to_string(weights->certificate));
      }
    }
    return text + " */\n";
  }

  std::string requantization_doc() const {
    return requantization::dispatch(program_.requantization(),
                                    []<class Each>() { return std::string(Each::doc); });
  }

  std::string arena() const {
    if (result_.arena_bytes == 0) return {};
    std::string members;
    std::set<DType> used = {DType::U8};
    for (int32_t i = 0; i < program_.size(); ++i) {
      if (value(NodeId{i}).offset) used.insert(program_[NodeId{i}].value.type.dtype);
      // Where windows are gathered, in either type.
      if (value(NodeId{i}).scratch) used.insert({DType::S16, DType::S32});
    }
    for (DType dtype : used) {
      members += fmt::format("  {} {}[{}];\n", c_type(dtype), member_of(dtype),
                             (result_.arena_bytes + size_of(dtype) - 1) / size_of(dtype));
    }
    return fmt::format("static union {{\n{}  int64_t alignment;\n}} {}_arena;\n\n", members,
                       name_);
  }

  std::string cmsis_checks() const {
    const bool single = cmsis_single_rounding(program_.requantization()).value();
    return fmt::format(
        "#include \"arm_nnfunctions.h\"\n#include \"arm_nnsupportfunctions.h\"\n\n"
        "#if {}defined(CMSIS_NN_USE_SINGLE_ROUNDING)\n"
        "#error \"{} needs CMSIS-NN compiled {} CMSIS_NN_USE_SINGLE_ROUNDING\"\n#endif\n",
        single ? "!" : "", to_string_view(program_.requantization()),
        single ? "with" : "without");
  }

  /// Memory that CMSIS-NN works in.
  std::string lent() const {
    const CBuffer& b = source_.buffer();
    if (result_.buffer_bytes == 0) return {};
    const auto words = [](int64_t bytes) { return std::max<int64_t>(1, (bytes + 3) / 4); };
    return fmt::format(
        "#if defined(ARM_MATH_MVEI)\nstatic int32_t {0}_buffer[{1}];\n"
        "#elif defined(ARM_MATH_DSP)\nstatic int32_t {0}_buffer[{2}];\n"
        "#else\nstatic int32_t {0}_buffer[{3}];\n#endif\n\n",
        name_, words(b.helium), words(b.dsp), words(b.plain));
  }

  std::string pointers() const {
    std::string text;
    for (size_t i = 0; i < result_.inputs.size(); ++i) {
      text += fmt::format("static const float *{};\n", in_pointer(i));
    }
    for (size_t i = 0; i < result_.outputs.size(); ++i) {
      text += fmt::format("static {} *{};\n",
                          c_type(program_[result_.outputs[i].node].value.type.dtype),
                          out_pointer(i));
    }
    return text + "\n";
  }

  std::string begin_text() const {
    std::string text = fmt::format("void {}_begin({}) {{\n", name_, parameters(false));
    for (size_t i = 0; i < result_.inputs.size(); ++i) {
      text += fmt::format("  {} = {};\n", in_pointer(i), result_.inputs[i].name);
    }
    for (size_t i = 0; i < result_.outputs.size(); ++i) {
      text += fmt::format("  {} = {};\n", out_pointer(i), result_.outputs[i].name);
    }
    return text + "}\n\n";
  }

  /// Outputs that steps have not written where they belong.
  std::string end_text() const {
    std::string text = fmt::format("void {}_end(void) {{\n", name_);
    for (size_t i = 0; i < result_.outputs.size(); ++i) {
      const NodeId id = result_.outputs[i].node;
      if (places_[at(id)] == out_pointer(i)) continue;
      text += fmt::format("  memcpy({}, {}, {});\n", out_pointer(i), places_[at(id)],
                          program_[id].value.type.bytes());
    }
    return text + "}\n\n";
  }

  std::string step_text() const {
    std::string text = fmt::format(
        "int32_t {}_step(int32_t step) {{\n  switch (step) {{\n{}"
        "    default:\n      return 1;\n  }}\n}}\n\n",
        name_, cases_);
    text += fmt::format("const void *{}_result(int32_t step) {{\n  switch (step) {{\n", name_);
    for (size_t i = 0; i < result_.steps.size(); ++i) {
      text += fmt::format("    case {}:\n      return {};\n", i,
                          places_[at(result_.steps[i].node)]);
    }
    return text + "    default:\n      return 0;\n  }\n}\n\n";
  }

  std::string run_text() const {
    std::string names;
    for (const auto* all : {&result_.inputs, &result_.outputs}) {
      for (const CArgument& each : *all) {
        names += fmt::format("{}{}", names.empty() ? "" : ", ", each.name);
      }
    }
    std::string text = fmt::format(
        "int32_t {0}_run({1}) {{\n  int32_t step;\n  {0}_begin({2});\n"
        "  for (step = 0; step < {3}; ++step) {{\n    const int32_t status = {0}_step(step);\n "
        "   if (status != 0) return status;\n  "
        "}}\n"
        "  {0}_end();\n  return 0;\n}}\n",
        name_, parameters(false), names, result_.steps.size());
    if (!result_.takes_codes) return text;
    const bool computes =
        std::ranges::any_of(result_.steps, [](const CStep& each) { return !each.is_input; });
    text += fmt::format("\nint32_t {}_run_codes({}) {{\n{}", name_, parameters(true),
                        computes ? "  int32_t status;\n" : "");
    for (size_t i = 0; i < result_.outputs.size(); ++i) {
      text += fmt::format("  {} = {};\n", out_pointer(i), result_.outputs[i].name);
    }
    // In the order of steps: memory of one input may be used again before another's.
    for (size_t i = 0; i < result_.steps.size(); ++i) {
      const CStep& step = result_.steps[i];
      text += step.is_input
                  ? fmt::format("  memcpy({}, {}, {});\n", places_[at(step.node)],
                                names_[at(program_[step.node].operands[0])],
                                program_[step.node].value.type.bytes())
                  : fmt::format("  status = {}_step({});\n  if (status != 0) return status;\n",
                                name_, i);
    }
    return text + fmt::format("  {}_end();\n  return 0;\n}}\n", name_);
  }

  std::string source() const {
    const std::string steps = begin_text() + step_text() + end_text() + run_text();
    std::string text = description();
    text +=
        fmt::format("#include \"{}.h\"\n\n#include <stddef.h>\n#include <string.h>\n\n", name_);
    if (source_.kernels().find("float") != std::string::npos) {
      text += checks;
      text += '\n';
    }
    if (kernels_ == CKernels::CmsisNn) text += cmsis_checks() + "\n";
    return text + source_.kernels() + source_.constants() + arena() + lent() + pointers() +
           steps;
  }

  const IntegerProgram& program_;
  CKernels kernels_;
  std::string sha256_;
  ProgramPlan plan_;
  std::string name_;
  CSource source_;
  std::vector<std::string> names_;   // by node
  std::vector<std::string> places_;  // by node: an expression of a pointer to its elements
  std::string cases_;
  CProgram result_;
};

/// C counts elements and bytes in 32 bits.
void check_counts(const IntegerProgram& program) {
  constexpr int64_t most = 2147483647;
  for (int32_t i = 0; i < program.size(); ++i) {
    const TensorType& type = program[NodeId{i}].value.type;
    require<GraphError>(type.bytes() <= most, "{}: C counts bytes in 32 bits, it takes {}",
                        program.describe(NodeId{i}), type.bytes());
  }
}

}  // namespace

std::string sha256_of(const IntegerProgram& program) {
  const std::string json = to_json(program);
  return sha256_hex(std::as_bytes(std::span(json)));
}

CProgram write_c_program(const IntegerProgram& program, std::string_view name, CKernels kernels,
                         std::string sha256) {
  const std::string refused = refused_c_name(name);
  require<ArgumentError>(refused.empty(), "'{}' is no C identifier: {}", c_comment(name),
                         refused);
  check_counts(program);
  const auto single = cmsis_single_rounding(program.requantization());
  require<GraphError>(kernels != CKernels::CmsisNn || single.has_value(),
                      "CMSIS-NN does not compute {}: convert to another requantization",
                      to_string_view(program.requantization()));
  if (sha256.empty()) sha256 = sha256_of(program);
  return Writer(program, std::string(name), kernels, std::move(sha256)).run();
}

}  // namespace qtape
