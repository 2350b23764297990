#include "qtape/c99/c_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "qtape/c99/c_functions.h"
#include "qtape/c99/c_grid.h"
#include "qtape/c99/c_header.h"
#include "qtape/c99/c_names.h"
#include "qtape/c99/c_source.h"
#include "qtape/c99/c_writers.h"
#include "qtape/engine/plan.h"
#include "qtape/integer/program/output_names.h"
#include "qtape/integer/program/program_plan.h"
#include "qtape/integer/program/signed_codes.h"
#include "qtape/io/sha256.h"

namespace qtape {
namespace {

constexpr std::string_view arena_values = "context->arena->values";

ProgramPlan plan_c_program(const IntegerProgram& program, CKernels kernels) {
  const auto scratch = [&](const IntegerNode& node, const CodeGrid* grid) {
    return c_scratch(node.op, {kernels, &program[node.operands[0]].value, &node.value, grid});
  };
  return plan_program(program, {.alignment = c_alignment, .scratch = scratch});
}

constexpr std::string_view checks =
    R"(#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || \
    defined(__RECIPROCAL_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0)
#error "codes need IEEE arithmetic: compile without -ffast-math and the options that it implies"
#endif
#if defined(__clang_major__) && __clang_major__ >= 12
#pragma clang fp contract(off)
#pragma clang fp reassociate(off)
#endif
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0 && __FLT_EVAL_METHOD__ != 16
#if defined(__i386__) || defined(__x86_64__)
#error "codes need float operations that are rounded to float: compile with -mfpmath=sse"
#else
#error "codes need float operations that are rounded to float: compile with -fexcess-precision=fast"
#endif
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
    for (const ProgramNodeId id : ids(program_)) place(id);
    for (const ProgramNodeId id : ids(program_)) write(id);
    count_constants();
    for (const CStep& step : result_.steps) {
      result_.live_bytes = std::max(result_.live_bytes, step.live_bytes);
    }
    const CBuffer& buffer = source_.buffer();
    result_.buffer_bytes = std::max({buffer.plain, buffer.dsp, buffer.helium});
    result_.takes_codes = takes_codes();
    const std::string body = source();
    CHeaderParts parts{
        .name = name_, .sha256 = sha256_, .arena = arena_members(), .buffer = source_.buffer()};
    // Hash of all texts except the id itself.
    const std::string all = c_header(program_, result_, parts) + body;
    result_.id = sha256_hex(std::as_bytes(std::span(all))).substr(0, 16);
    result_.header = c_header(program_, result_, parts);
    result_.source = description() + c_include(name_, result_.id) + body;
    return std::move(result_);
  }

 private:
  const ProgramPlan::Value& value(ProgramNodeId id) const { return plan_.values[at(id)]; }
  bool is_input(ProgramNodeId id) const {
    return std::holds_alternative<integer::Input>(program_[id].op);
  }
  bool is_float_input(ProgramNodeId id) const {
    return is_input(id) && program_[id].value.type.dtype == DType::F32;
  }

  void name_nodes() {
    // Parameters must differ from the identifiers that the functions use and declare.
    CIdentifiers inputs(
        {"context", "step", "status", "memcpy", "memset", "size_t", "int8_t", "uint8_t",
         "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t", name_},
        name_ + "_");
    CIdentifiers nodes;
    for (const ProgramNodeId id : ids(program_)) {
      names_[at(id)] = (is_input(id) ? inputs : nodes).of(program_[id].label, id.index);
      if (is_input(id)) result_.inputs.push_back({id, names_[at(id)]});
    }
    for (ProgramNodeId id : program_.outputs()) {
      result_.outputs.push_back({id, inputs.of(output_label(program_, id), id.index)});
    }
  }

  /// Determines the C expression of the location of the value.
  void place(ProgramNodeId id) {
    const DType dtype = program_[id].value.type.dtype;
    if (const auto offset = value(id).offset) {
      const int64_t index = *offset / size_of(dtype);
      places_[at(id)] = fmt::format("{}.{}", arena_values, to_string_view(dtype));
      if (index != 0) places_[at(id)] += fmt::format(" + {}", index);
      return;
    }
    for (size_t i = 0; i < result_.inputs.size(); ++i) {
      if (result_.inputs[i].node == id) places_[at(id)] = c_in_pointer(i);
    }
    for (size_t i = result_.outputs.size(); i-- > 0;) {
      if (result_.outputs[i].node == id && !is_input(id)) places_[at(id)] = c_out_pointer(i);
    }
  }

  void write(ProgramNodeId id) {
    const IntegerNode& node = program_[id];
    if (is_input(id) || is_joined(id)) return;
    const auto next = value(id).next;
    const ProgramNodeId last = next.value_or(id);
    CNode c{.source = source_,
            .name = names_[at(id)],
            .requantization = program_.requantization(),
            .kernels = kernels_,
            .output = &node.value,
            .result = places_[at(last)],
            .values = std::string(arena_values),
            .buffer = "context->arena->buffer",
            .scratch = value(id).scratch,
            .next = next ? &program_[*next].op : nullptr};
    for (ProgramNodeId operand : node.operands) {
      c.inputs.push_back(&program_[operand].value);
      c.operands.push_back(places_[at(operand)]);
    }
    naming<GraphError>(program_.describe(id), [&] { write_c(node.op, c); });
    places_[at(last)] = c.result;  // a constant lies where it is defined
    if (c.code.empty()) return;
    result_.has_wide_sums = result_.has_wide_sums || c.wide_sums;
    const auto* weights = weights_of(node.op);
    CStep step{
        .node = last,
        .name = names_[at(id)],
        .label = program_.name(id),
        .products = weights == nullptr ? 0 : node.value.type.elements() * weights->terms(),
        .live_bytes = live_at(id.index),
        .is_input = node.operands.size() == 1 && is_float_input(node.operands[0]),
        .library = c.library};
    if (kernels_ == CKernels::CmsisNn && c.library.empty()) {
      step.own_because = c.own_because.empty()
                             ? fmt::format("CMSIS-NN is not called for {}", name_of(node.op))
                             : c.own_because;
    }
    bodies_.push_back(c.code);
    result_.steps.push_back(std::move(step));
  }

  void count_constants() {
    for (const CSource::Array& array : source_.arrays()) {
      result_.constant_bytes += array.bytes;
      if (array.is_weights) result_.weight_bytes += array.bytes;
      result_.constants.push_back({array.name, array.of, array.hash});
      for (CStep& step : result_.steps) {
        if (step.name == array.of) step.constant_bytes += array.bytes;
      }
    }
  }

  bool is_joined(ProgramNodeId id) const {
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

  /// True if codes can be given instead of floats, of all inputs of floats.
  bool takes_codes() const {
    std::map<int32_t, int> readers;
    for (const IntegerNode& node : program_.nodes()) {
      for (ProgramNodeId operand : node.operands) {
        if (!is_float_input(operand)) continue;
        if (!std::holds_alternative<integer::Quantize>(node.op)) return false;
        ++readers[operand.index];
      }
    }
    return !readers.empty() && std::ranges::all_of(result_.inputs, [&](const CArgument& each) {
      return !is_float_input(each.node) || readers[each.node.index] == 1;
    }) && std::ranges::none_of(program_.outputs(), [&](ProgramNodeId id) {
      return is_input(id);
    });
  }

  /// Returns the comment with the table of steps and the memory requirements.
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
        " * Flash bytes are those of constants, RAM bytes those of the arena: what a "
        "step\n * reads, writes and gathers; inputs and outputs in float are the "
        "caller's.\n *\n";
    for (const IntegerNode& node : program_.nodes()) {
      if (const QuantizedWeights* weights = weights_of(node.op)) {
        text += fmt::format(" * Certificate of {}: {}.\n", c_comment(node.label),
                            to_string(weights->certificate));
      }
    }
    if (kernels_ == CKernels::CmsisNn) text += " *\n";
    for (const CStep& step : result_.steps) {
      if (kernels_ != CKernels::CmsisNn) break;
      text += fmt::format(" * {}: {}.\n", c_comment(step.label), c_kernel_text(step));
    }
    return text + " */\n";
  }

  std::string requantization_doc() const {
    return requantization::dispatch(program_.requantization(),
                                    []<class Each>() { return std::string(Each::doc); });
  }

  /// Returns the member types of the union that holds values.
  std::vector<DType> arena_members() const {
    std::set<DType> used = {DType::U8};
    for (const ProgramNodeId id : ids(program_)) {
      if (value(id).offset) used.insert(program_[id].value.type.dtype);
      // Gathered windows have either type.
      if (value(id).scratch) used.insert({DType::S16, DType::S32});
    }
    return {used.begin(), used.end()};
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

  /// Returns everything that follows the inclusion of the header.
  std::string source() const {
    std::string text = "#include <stddef.h>\n#include <string.h>\n\n";
    if (source_.kernels().find("float") != std::string::npos) {
      text += checks;
      text += '\n';
    }
    if (kernels_ == CKernels::CmsisNn) text += cmsis_checks() + "\n";
    text += source_.kernels() + source_.constants();
    text += c_functions({.program = program_,
                         .written = result_,
                         .name = name_,
                         .places = places_,
                         .bodies = bodies_,
                         .rounding_check = source_.rounding_check()});
    return text + fmt::format("\n#ifndef {}_NO_TEST\n{}\n{}#endif\n", c_macro(name_),
                              source_.text("hash", {}),
                              c_constant_hash(name_, source_.arrays()));
  }

  const IntegerProgram& program_;
  CKernels kernels_;
  std::string sha256_;
  ProgramPlan plan_;
  std::string name_;
  CSource source_;
  std::vector<std::string> names_;   // by node
  std::vector<std::string> places_;  // by node: an expression of a pointer to its elements
  std::vector<std::string> bodies_;  // by step: statements
  CProgram result_;
};

/// Throws GraphError if elements or bytes exceed 32 bits, in which C counts them.
void check_counts(const IntegerProgram& program) {
  constexpr int64_t most = 2147483647;
  for (const ProgramNodeId id : ids(program)) {
    const TensorType& type = program[id].value.type;
    require<GraphError>(type.bytes() <= most, "{}: C counts bytes in 32 bits, and it takes {}",
                        program.describe(id), type.bytes());
  }
}

}  // namespace

std::string c_kernel_text(const CStep& step) {
  if (!step.library.empty()) return step.library;
  return step.own_because.empty() ? "own C" : fmt::format("own C: {}", step.own_because);
}

std::string sha256_of(const IntegerProgram& program) {
  const std::string json = to_json(program);
  return sha256_hex(std::as_bytes(std::span(json)));
}

CProgram write_c_program(const IntegerProgram& program, std::string_view name, CKernels kernels,
                         std::string sha256) {
  const std::string refused = refused_c_name(name);
  require<ArgumentError>(refused.empty(), "'{}' cannot be the prefix of C names: {}",
                         c_comment(name), refused);
  check_counts(program);
  const auto single = cmsis_single_rounding(program.requantization());
  require<GraphError>(kernels != CKernels::CmsisNn || single.has_value(),
                      "CMSIS-NN does not support {}: convert to another requantization",
                      to_string_view(program.requantization()));
  if (sha256.empty()) sha256 = sha256_of(program);
  return Writer(program, std::string(name), kernels, std::move(sha256)).run();
}

RewrittenProgram program_for_c(const IntegerProgram& program, CKernels kernels) {
  RewrittenProgram first = merged(program);
  if (kernels != CKernels::CmsisNn) return first;
  RewrittenProgram result = with_signed_codes(first.program);
  for (const ProgramNodeId id : ids(program)) {
    first.nodes[id] = result.nodes[first.nodes[id]];
  }
  return {std::move(result.program), std::move(first.nodes)};
}

}  // namespace qtape
