#include "qtape/c99/c_test_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "qtape/c99/c_names.h"
#include "qtape/c99/c_source.h"
#include "qtape/integer/program/integer_node.h"

namespace qtape {
namespace {

/// C code that compares stored samples; {0} is the name.
constexpr std::string_view loops = R"(
/* The codes that a step must return: `kind` is their type, `codes` points to those of sample 0. */
typedef struct {{
  const char *name;
  char kind; /* b, B: 8 bits, signed or not; h, H: 16; w, l: 32, 64; f: bits of a float */
  int32_t count;
  const void *codes;
}} {0}_expected;

static int32_t {0}_size(char kind) {{
  if (kind == 'b' || kind == 'B') return 1;
  if (kind == 'h' || kind == 'H') return 2;
  return kind == 'l' ? 8 : 4;
}}

static int64_t {0}_element(char kind, const void *codes, int32_t i) {{
  int32_t word;
  switch (kind) {{
    case 'b':
      return ((const int8_t *)codes)[i];
    case 'B':
      return ((const uint8_t *)codes)[i];
    case 'h':
      return ((const int16_t *)codes)[i];
    case 'H':
      return ((const uint16_t *)codes)[i];
    case 'l':
      return ((const int64_t *)codes)[i];
    default:
      memcpy(&word, (const char *)codes + 4 * i, 4);
      return word;
  }}
}}

/* Compares the elements at `got`; reports the first difference. */
static int32_t {0}_compare(const {0}_expected *e, int32_t sample, const void *got,
                           {0}_report report) {{
  const int32_t bytes = e->count * {0}_size(e->kind);
  const char *wanted = (const char *)e->codes + sample * bytes;
  int32_t i;
  if (memcmp(wanted, got, (size_t)bytes) == 0) return 0;
  for (i = 0; i < e->count; ++i) {{
    const int64_t a = {0}_element(e->kind, wanted, i);
    const int64_t b = {0}_element(e->kind, got, i);
    if (a == b) continue;
    if (report != 0) report(e->name, sample, i, a, b);
    return 1;
  }}
  return 1;
}}
)";

constexpr std::string_view samples_function = R"(
static int32_t {0}_test_samples({0}_context *context, {0}_report report) {{
  int32_t sample, step, status, wrong = 0;
  for (sample = 0; sample < {1}; ++sample) {{
    status = {0}_begin(context{2});
    for (step = 0; step < {3}_STEPS && status == {3}_OK; ++step) {{
      status = {0}_step(context, step);
      if (status != {3}_OK) break;
      wrong += {0}_compare(&{0}_steps[step], sample, {0}_result(context, step), report);
    }}
    if (status != {3}_OK) return wrong + {0}_test_failed(sample, step, status, report);
    {0}_end(context);
{4}  }}
  return wrong;
}}
)";

char kind_of(DType dtype) {
  switch (dtype) {
    case DType::S8:
      return 'b';
    case DType::U8:
      return 'B';
    case DType::S16:
      return 'h';
    case DType::U16:
      return 'H';
    case DType::S64:
      return 'l';
    case DType::S32:
      return 'w';
    default:
      return 'f';
  }
}

/// Returns the bytes of samples as an array of their type; floats as their bits.
std::string array_of(const std::string& name, DType dtype, std::span<const std::byte> bytes) {
  const auto elements = [&]<class T>() {
    std::vector<T> all(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(all.data(), bytes.data(), bytes.size());
    return c_array<T>(name, all);
  };
  switch (dtype) {
    case DType::S8:
      return elements.operator()<int8_t>();
    case DType::U8:
      return elements.operator()<uint8_t>();
    case DType::S16:
      return elements.operator()<int16_t>();
    case DType::U16:
      return elements.operator()<uint16_t>();
    case DType::S32:
      return elements.operator()<int32_t>();
    case DType::S64:
      return elements.operator()<int64_t>();
    default:
      return elements.operator()<uint32_t>();
  }
}

class Samples {
 public:
  Samples(const IntegerProgram& program, const CProgram& written, std::string_view name,
          std::span<const GoldenSample> samples)
      : program_(program), written_(written), name_(name), samples_(samples) {}

  std::string run(IntegerSession& reference) {
    record(reference);
    std::string text = "\n";
    for (size_t i = 0; i < written_.inputs.size(); ++i) text += input_array(i);
    for (size_t i = 0; i < codes_.size(); ++i) {
      text += array_of(expected_name(i), type_of(written_.steps[i].node), codes_[i]) + "\n";
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      text += array_of(output_name(i), type_of(written_.outputs[i].node), outputs_[i]) + "\n";
    }
    text += fmt::format(loops, name_);
    text += tables();
    return text + fmt::format(samples_function, name_, samples_.size(), arguments(false),
                              c_macro(name_), ends());
  }

 private:
  DType type_of(ProgramNodeId id) const { return program_[id].value.type.dtype; }
  std::string expected_name(size_t step) const {
    return fmt::format("{}_expected_{}", name_, written_.steps[step].name);
  }
  std::string output_name(size_t i) const {
    return fmt::format("{}_output_{}", name_, written_.outputs[i].name);
  }
  std::string input_name(size_t i) const {
    return fmt::format("{}_golden_{}", name_, written_.inputs[i].name);
  }

  /// Runs the samples in the reference and records the results.
  void record(IntegerSession& reference) {
    codes_.resize(written_.steps.size());
    outputs_.resize(written_.outputs.size());
    const auto append = [&](std::vector<std::byte>& to, ProgramNodeId id) {
      const auto bytes = reference.bytes(id);
      to.insert(to.end(), bytes.begin(), bytes.end());
    };
    for (size_t k = 0; k < samples_.size(); ++k) {
      const GoldenSample& sample = samples_[k];
      check_sample(sample);
      for (size_t i = 0; i < sample.size(); ++i) {
        give(sample[i], reference, written_.inputs[i].node);
      }
      naming<GraphError>(fmt::format("sample {} of the self-test", k),
                         [&] { return reference.run(); });
      for (size_t i = 0; i < codes_.size(); ++i) append(codes_[i], written_.steps[i].node);
      for (size_t i = 0; i < outputs_.size(); ++i) {
        append(outputs_[i], written_.outputs[i].node);
      }
    }
  }

  void check_sample(const GoldenSample& sample) const {
    require<ArgumentError>(
        sample.size() == written_.inputs.size(),
        "a sample of a self-test: expected a tensor for each input, {}, got {}",
        written_.inputs.size(), sample.size());
    for (size_t i = 0; i < sample.size(); ++i) {
      const TensorType& wanted = program_[written_.inputs[i].node].value.type;
      const TensorType& type = sample[i].type;
      const auto bytes = static_cast<size_t>(wanted.bytes());
      require<ArgumentError>(
          type.dtype == wanted.dtype && type.elements() == wanted.elements() &&
              sample[i].data.size() == bytes,
          "a sample of a self-test: input '{}' must be {} in {} bytes, got {} "
          "in {} bytes",
          written_.inputs[i].name, to_string(wanted), bytes, to_string(type),
          sample[i].data.size());
    }
  }

  static void give(const Tensor& values, IntegerSession& to, ProgramNodeId input) {
    if (values.type.dtype == DType::S32) {
      std::ranges::copy(values.values<int32_t>(), to.input<int32_t>(input).begin());
    } else {
      std::ranges::copy(values.values<float>(), to.input<float>(input).begin());
    }
  }

  std::string input_array(size_t i) const {
    return type_of(written_.inputs[i].node) == DType::S32 ? input_array_of<int32_t>(i)
                                                          : input_array_of<float>(i);
  }
  template <class T>
  std::string input_array_of(size_t i) const {
    std::vector<T> all;
    for (const GoldenSample& sample : samples_) {
      const auto values = sample[i].values<T>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return c_array<T>(input_name(i), all) + "\n";
  }

  std::string arguments(bool codes) const {
    std::string list;
    for (size_t i = 0; i < written_.inputs.size(); ++i) {
      const int64_t n = program_[written_.inputs[i].node].value.type.elements();
      const bool indices = type_of(written_.inputs[i].node) == DType::S32;
      const bool made = codes && !indices;
      const std::string from = made ? expected_name(quantized(i)) : input_name(i);
      list += fmt::format(", {} + sample * {}", from, n);
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      list += fmt::format(", {}_out{}", name_, i);
    }
    return list;
  }

  /// Returns the step that computes the codes of input `i`.
  size_t quantized(size_t i) const {
    for (size_t step = 0; step < written_.steps.size(); ++step) {
      const CStep& each = written_.steps[step];
      if (each.is_input && program_[each.node].operands[0] == written_.inputs[i].node) {
        return step;
      }
    }
    return 0;
  }

  std::string row(std::string_view name, const TensorType& type, std::string_view array) const {
    return fmt::format("    {{\"{}\", '{}', {}, {}}},\n", name, kind_of(type.dtype),
                       type.elements(), array);
  }

  /// Returns a table `part`; C has no tables without rows, so an empty one gets a row.
  std::string table(std::string_view part, const std::string& rows) const {
    return fmt::format("\nstatic const {0}_expected {0}_{1}[] = {{\n{2}}};\n", name_, part,
                       rows.empty() ? "    {\"\", 'b', 0, 0},\n" : rows);
  }
  std::string tables() const {
    std::string steps;
    for (size_t i = 0; i < codes_.size(); ++i) {
      steps += row(written_.steps[i].name, program_[written_.steps[i].node].value.type,
                   expected_name(i));
    }
    std::string outputs;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      outputs += row(written_.outputs[i].name, program_[written_.outputs[i].node].value.type,
                     output_name(i));
    }
    return table("steps", steps) + table("outputs", outputs);
  }

  /// Returns code that compares outputs, and runs from codes if the program accepts them.
  std::string ends() const {
    std::string compared;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      compared += fmt::format(
          "    wrong += {0}_compare(&{0}_outputs[{1}], sample, {0}_out{1}, "
          "report);\n",
          name_, i);
    }
    std::string text = compared;
    if (written_.takes_codes) {
      for (size_t i = 0; i < outputs_.size(); ++i) {
        text += fmt::format("    memset({0}_out{1}, 0, sizeof({0}_out{1}));\n", name_, i);
      }
      text += fmt::format("    wrong += {}_run_codes_in(context{}) != {}_OK;\n", name_,
                          arguments(true), c_macro(name_));
      text += compared;
    }
    return text;
  }

  const IntegerProgram& program_;
  const CProgram& written_;
  std::string name_;
  std::span<const GoldenSample> samples_;
  std::vector<std::vector<std::byte>> codes_;    // by step, of all samples
  std::vector<std::vector<std::byte>> outputs_;  // by output, of all samples
};

}  // namespace

std::string c_test_samples(const IntegerProgram& program, const CProgram& written,
                           std::string_view name, std::span<const GoldenSample> samples,
                           IntegerSession& reference) {
  return Samples(program, written, name, samples).run(reference);
}

}  // namespace qtape
