#include "qtape/c99/c_self_test.h"

#include <fmt/format.h>

#include <algorithm>

#include "qtape/c99/c_functions.h"
#include "qtape/c99/c_hash.h"
#include "qtape/c99/c_header.h"
#include "qtape/c99/c_names.h"
#include "qtape/c99/c_source.h"
#include "qtape/c99/c_test_inputs.h"
#include "qtape/c99/c_test_samples.h"
#include "qtape/core/error.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/session.h"

namespace qtape {
namespace {

/// C code that hashes results; {0} is the name, {1} the name in capitals, {2} the number of
/// generated inputs, {3} outputs, {4} the size of the array of hashes.
constexpr std::string_view hashing = R"(
/* A step or an output: its elements, their bytes, and the hash of them over all inputs. */
typedef struct {{
  const char *name;
  int32_t count;
  int32_t size;
  uint32_t hash;
}} {0}_test_value;

static uint32_t {0}_test_hashes[{4}];

static void {0}_test_add(int32_t value, const {0}_test_value *v, const void *elements) {{
  {0}_test_hashes[value] = {0}_hash({0}_test_hashes[value], elements, v->count, v->size);
}}

static int32_t {0}_test_compare(int32_t value, const {0}_test_value *v, {0}_report report) {{
  if ({0}_test_hashes[value] == v->hash) return 0;
  if (report != 0) report(v->name, -1, -1, v->hash, {0}_test_hashes[value]);
  return 1;
}}

static int32_t {0}_test_failed(int32_t sample, int32_t step, int32_t status, {0}_report report) {{
  if (report != 0) report("status", sample, step, {1}_OK, status);
  return 1;
}}

static int32_t {0}_test_constants({0}_report report) {{
  int32_t i, wrong = 0;
  for (i = 0; i < {1}_CONSTANTS; ++i) {{
    const uint32_t hash = {0}_constant_hash(i);
    if (hash == {0}_test_constant_hashes[i]) continue;
    if (report != 0) report("constant", -1, i, {0}_test_constant_hashes[i], hash);
    ++wrong;
  }}
  return wrong;
}}
)";

/// C code that runs generated inputs; {0} to {3} as above. {4} generates floats, {5} codes; {6}
/// and {7} begin a run with them, {8} and {9} run on them; {10} adds outputs; {11} is a
/// condition for floats.
constexpr std::string_view making = R"(
/* Runs input `sample`, from codes or from floats, and adds all results to the hashes. The first
 * and the last input run once more as a whole. */
static int32_t {0}_test_input({0}_context *context, int32_t sample, {0}_report report) {{
  const int32_t floats = {11};
  int32_t step, status;
  if (floats) {{
{4}    status = {6};
  }} else {{
{5}    status = {7};
  }}
  for (step = 0; step < {1}_STEPS && status == {1}_OK; ++step) {{
    status = floats ? {0}_step(context, step) : {0}_step{12}(context, step);
    if (status == {1}_OK) {0}_test_add(step, &{0}_test_steps[step], {0}_result(context, step));
  }}
  if (status != {1}_OK) return {0}_test_failed(sample, step - 1, status, report);
  {0}_end(context);
{10}  if (sample != 0 && sample != {2} - 1) return 0;
  status = floats ? {8} : {9};
  if (status != {1}_OK) return {0}_test_failed(sample, -1, status, report);
{10}  return 0;
}}

int32_t {0}_test_in({0}_context *context, {0}_report report) {{
  int32_t i, wrong = {0}_test_constants(report);
  if (wrong != 0) return wrong;
  for (i = 0; i < {1}_STEPS + {3}; ++i) {0}_test_hashes[i] = {13}u;
  for (i = 0; i < {2}; ++i) {{
    if ({0}_test_input(context, i, report) != 0) return 1;
  }}
  for (i = 0; i < {1}_STEPS; ++i) wrong += {0}_test_compare(i, &{0}_test_steps[i], report);
  for (i = 0; i < {3}; ++i) {{
    wrong += {0}_test_compare({1}_STEPS + i, &{0}_test_outputs[i], report);
  }}
  return wrong{14};
}}

#ifndef {1}_NO_STATIC
int32_t {0}_test({0}_report report) {{ return {0}_test_in({0}_static_context(), report); }}
#endif
)";

constexpr std::string_view main_function = R"(
#ifndef {1}_TEST_NO_MAIN
#include <stdio.h>

/* The digits of value, in front of end: long has 32 bits on many processors. */
static const char *{0}_digits(int64_t value, char *end) {{
  uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  *--end = 0;
  do {{
    *--end = (char)('0' + (int)(rest % 10));
    rest /= 10;
  }} while (rest != 0);
  if (value < 0) *--end = '-';
  return end;
}}

static void {0}_print(const char *step, int32_t sample, int32_t index, int64_t expected,
                      int64_t got) {{
  char a[24], b[24];
  printf("{0}: %s sample %ld index %ld: expected %s, got %s\n", step, (long)sample, (long)index,
         {0}_digits(expected, a + 24), {0}_digits(got, b + 24));
}}

int main(void) {{
#ifdef {1}_NO_STATIC
  static {0}_arena arena;
  static {0}_context context;
  int32_t wrong;
  context.arena = &arena;
  wrong = {0}_test_in(&context, {0}_print);
#else
  const int32_t wrong = {0}_test({0}_print);
#endif
  if (wrong == 0) printf("{0}: %ld constants, {2} inputs{3}: all as expected\n", (long){1}_CONSTANTS);
  return wrong == 0 ? 0 : 1;
}}
#endif
)";

/// One in this number of inputs is generated as floats, including the last one.
constexpr int64_t codes_by_floats = 8;

class SelfTest {
 public:
  SelfTest(const IntegerProgram& program, const CProgram& written, std::string_view name,
           const CSelfTestOptions& options)
      : program_(program), written_(written), name_(name), options_(options) {}

  std::string run() {
    for (const CArgument& each : written_.inputs) {
      made_.push_back(c_test_input(program_, written_, each.node));
    }
    IntegerSession reference(program_, {.reference = true});
    hashes_.assign(written_.steps.size() + written_.outputs.size(), c_hash_start);
    for (int64_t i = 0; i < options_.inputs; ++i) {
      if (options_.progress) options_.progress(i, options_.inputs);
      hash_input(reference, i);
    }
    if (has_samples()) {
      samples_ = c_test_samples(program_, written_, name_, options_.samples, reference);
    }
    return text();
  }

 private:
  bool has_samples() const { return !options_.samples.empty(); }
  int64_t count(ProgramNodeId id) const { return program_[id].value.type.elements(); }

  std::string text() const {
    std::string text = fmt::format(
        "/* The self-test of {0}, see {0}.h: hashes of constants, and of what each step gives "
        "of "
        "{1}\n * inputs that are made here{2}.\n"
        " * SPDX-License-Identifier: Apache-2.0, that of qtape, for all but the constants. "
        "*/\n",
        name_, options_.inputs,
        has_samples() ? fmt::format("; all results of {} samples", options_.samples.size())
                      : "");
    text += c_include(name_, written_.id) + "#include <string.h>\n\n";
    for (size_t i = 0; i < written_.outputs.size(); ++i) {
      const ProgramNodeId id = written_.outputs[i].node;
      text += fmt::format("static {} {}_out{}[{}];\n", c_type(type_of(id)), name_, i,
                          std::max<int64_t>(1, count(id)));
    }
    text += constants() + fmt::format(hashing, name_, c_macro(name_), options_.inputs,
                                      written_.outputs.size(), hashes());
    text += values() + c_test_generator(name_);
    for (size_t i = 0; i < made_.size(); ++i) text += maker(i);
    text += samples_;
    text += making_text();
    return text + fmt::format(main_function, name_, c_macro(name_), options_.inputs,
                              has_samples()
                                  ? fmt::format(", {} samples", options_.samples.size())
                                  : "");
  }

  bool is_float(int64_t sample) const {
    return !written_.takes_codes || (options_.inputs - 1 - sample) % codes_by_floats == 0;
  }

  /// Generates input `i` of `sample` for the reference: floats, or values with these codes.
  void make(IntegerSession& reference, int64_t sample, size_t i, std::vector<int32_t>& codes) {
    const CTestInput& made = made_[i];
    const bool floats = is_float(sample) && !made.indices;
    CTestGenerator generator(c_test_seed(sample, std::ssize(made_), static_cast<int64_t>(i)),
                             made.shape, floats ? made.float_range : made.code_range);
    codes.resize(static_cast<size_t>(made.shape.elements()));
    if (made.indices) {
      int64_t at = 0;
      for (int32_t& each : reference.input<int32_t>(made.node)) each = generator.next(at++);
      return;
    }
    const std::span<float> x = reference.input(made.node);
    for (size_t k = 0; k < x.size(); ++k) {
      codes[k] = generator.next(static_cast<int64_t>(k));
      if (floats) {
        x[k] = static_cast<float>(codes[k] * made.float_step);
        continue;
      }
      const IntegerValue& v = program_[*made.codes].value;
      x[k] = static_cast<float>((codes[k] - v.zero_point) * v.scales[0]);
    }
  }

  void check_codes(const IntegerSession& reference, const CTestInput& made,
                   const std::vector<int32_t>& codes) const {
    for (size_t k = 0; k < codes.size(); ++k) {
      const auto at = static_cast<int64_t>(k);
      require<GraphError>(reference.integer(*made.codes, at) == codes[k],
                          "{}: no value has the code {}", program_.describe(*made.codes),
                          codes[k]);
    }
  }

  void hash_input(IntegerSession& reference, int64_t sample) {
    std::vector<std::vector<int32_t>> codes(made_.size());
    for (size_t i = 0; i < made_.size(); ++i) make(reference, sample, i, codes[i]);
    reference.run();
    for (size_t i = 0; i < made_.size() && !is_float(sample); ++i) {
      if (made_[i].codes) check_codes(reference, made_[i], codes[i]);
    }
    const auto add = [&](size_t value, ProgramNodeId id) {
      hashes_[value] = c_hash(hashes_[value], reference.bytes(id), size_of(type_of(id)));
    };
    for (size_t i = 0; i < written_.steps.size(); ++i) add(i, written_.steps[i].node);
    // The first and the last input run twice.
    const int times = sample == 0 || sample == options_.inputs - 1 ? 2 : 1;
    for (int run = 0; run < times; ++run) {
      for (size_t i = 0; i < written_.outputs.size(); ++i) {
        add(written_.steps.size() + i, written_.outputs[i].node);
      }
    }
  }

  std::string constants() const {
    std::vector<uint32_t> all;
    for (const CConstantHash& each : written_.constants) all.push_back(each.hash);
    return fmt::format("\n{}", c_array<uint32_t>(name_ + "_test_constant_hashes", all));
  }

  std::string value_row(std::string_view name, ProgramNodeId id, size_t value) const {
    return fmt::format("    {{\"{}\", {}, {}, {}u}},\n", name, count(id), size_of(type_of(id)),
                       hashes_[value]);
  }
  /// C has no tables without rows, so an empty table gets one.
  std::string value_table(std::string_view part, const std::string& rows) const {
    return fmt::format("\nstatic const {0}_test_value {0}_test_{1}[] = {{\n{2}}};\n", name_,
                       part, rows.empty() ? "    {\"\", 0, 0, 0},\n" : rows);
  }
  std::string values() const {
    std::string steps;
    for (size_t i = 0; i < written_.steps.size(); ++i) {
      steps += value_row(written_.steps[i].name, written_.steps[i].node, i);
    }
    std::string outputs;
    for (size_t i = 0; i < written_.outputs.size(); ++i) {
      outputs += value_row(written_.outputs[i].name, written_.outputs[i].node,
                           written_.steps.size() + i);
    }
    return value_table("steps", steps) + value_table("outputs", outputs);
  }

  /// Returns the functions that generate input `i`.
  std::string maker(size_t i) const {
    const CTestInput& made = made_[i];
    const int64_t n = made.shape.elements();
    const bool of_codes = made.codes || made.indices;
    const std::string type(of_codes ? c_type(type_of(made.codes.value_or(made.node))) : "");
    const auto member_of = [&](std::string_view of, std::string_view member) {
      return fmt::format("  {} {}[{}];\n", of, member, std::max<int64_t>(1, n));
    };
    std::string text =
        fmt::format("\n/* Input {0}. */\nstatic union {{\n{1}{2}}} {3}_test_given{0};\n", i,
                    made.indices ? "" : member_of("float", "floats"),
                    of_codes ? member_of(type, "codes") : "", name_);
    for (bool floats : {false, true}) {
      if (floats ? made.indices : !of_codes) continue;
      const std::string_view member = floats ? "floats" : "codes";
      const std::string next = fmt::format("{}_test_next(&g, i)", name_);
      text += fmt::format(
          "\nstatic void {0}_test_{1}{2}(uint32_t sample) {{\n  {0}_test_generator g;\n"
          "  int32_t i;\n  {0}_test_start(&g, (sample * {3}u + {2}u) * 2654435761u, {4});\n"
          "  for (i = 0; i < {5}; ++i) {0}_test_given{2}.{1}[i] = {6};\n}}\n",
          name_, member, i, made_.size(),
          c_test_arguments(made.shape, floats ? made.float_range : made.code_range), n,
          floats ? fmt::format("(float){} * {}", next, c_float(made.float_step))
                 : fmt::format("({}){}", type, next));
    }
    return text;
  }

  /// Returns calls that generate all inputs.
  std::string makers(bool floats) const {
    std::string text;
    for (size_t i = 0; i < made_.size(); ++i) {
      text +=
          fmt::format("    {}_test_{}{}((uint32_t)sample);\n", name_, given_as(i, floats), i);
    }
    return text;
  }
  /// Returns the member in which input `i` is given.
  std::string_view given_as(size_t i, bool floats) const {
    return floats && !made_[i].indices ? "floats" : "codes";
  }

  /// Returns the size of the array of hashes; an array has at least one element.
  std::string hashes() const {
    if (written_.steps.empty() && written_.outputs.empty()) return "1";
    return fmt::format("{}_STEPS + {}", c_macro(name_), written_.outputs.size());
  }

  std::string given(bool floats) const {
    std::string list;
    for (size_t i = 0; i < made_.size(); ++i) {
      list += fmt::format(", {}_test_given{}.{}", name_, i, given_as(i, floats));
    }
    for (size_t i = 0; i < written_.outputs.size(); ++i) {
      list += fmt::format(", {}_out{}", name_, i);
    }
    return list;
  }

  std::string making_text() const {
    const bool codes = written_.takes_codes;
    const std::string_view suffix = codes ? "_codes" : "";
    const auto call = [&](std::string_view what, bool floats) {
      return fmt::format("{}_{}(context{})", name_, what, given(floats || !codes));
    };
    std::string outputs;
    for (size_t i = 0; i < written_.outputs.size(); ++i) {
      outputs +=
          fmt::format("  {0}_test_add({1}_STEPS + {2}, &{0}_test_outputs[{2}], {0}_out{2});\n",
                      name_, c_macro(name_), i);
    }
    const std::string floats =
        codes ? fmt::format("({} - sample) % {} == 0", options_.inputs - 1, codes_by_floats)
              : "1";
    return fmt::format(
        making, name_, c_macro(name_), options_.inputs, written_.outputs.size(), makers(true),
        makers(!codes), call("begin", true), call(fmt::format("begin{}", suffix), false),
        call("run_in", true), call(fmt::format("run{}_in", suffix), false), outputs, floats,
        suffix, c_hash_start,
        has_samples() ? fmt::format(" + {}_test_samples(context, report)", name_) : "");
  }

  DType type_of(ProgramNodeId id) const { return program_[id].value.type.dtype; }

  const IntegerProgram& program_;
  const CProgram& written_;
  std::string name_;
  const CSelfTestOptions& options_;
  std::vector<CTestInput> made_;  // by input
  std::vector<uint32_t> hashes_;  // by step, then by output
  std::string samples_;           // C code for stored samples
};

}  // namespace

std::string write_c_self_test(const IntegerProgram& program, const CProgram& written,
                              std::string_view name, const CSelfTestOptions& options) {
  return SelfTest(program, written, name, options).run();
}

}  // namespace qtape
