// Exports of C: self-tests that tell every changed bit, instances, headers and files.
#include "qtape/c99/export_c.h"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>

#include "qtape/c99/c_library.h"
#include "qtape/core/random.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/signed_codes.h"
#include "qtape/io/files.h"
#include "qtape/programs/console/subprocess.h"
#include "qtape/tests/support/conformance.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/folder.h"
#include "qtape/tests/support/integer_nets.h"
#include "qtape/tests/support/integer_programs.h"
#include "qtape/tests/support/skip.h"

namespace {

using namespace qtape;

/// Returns the program of a random net with settled quantizers.
IntegerProgram net_program(const Graph& graph, uint64_t seed, Requantization requantization) {
  const auto outputs = graph.outputs();
  return test::Settled(graph, seed)
      .program({.requantization = requantization, .outputs = {outputs.begin(), outputs.end()}});
}

/// Returns the compiler's messages about C files.
std::string compiled(const test::Folder& folder, const std::string& output,
                     std::vector<std::string> more) {
  std::vector<std::string> arguments = c_standard();
  arguments.insert(arguments.begin(), "cc");
  arguments.insert(arguments.end(), {"-O1", "-o", folder.file(output)});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_program(arguments).output;
}

/// Returns the names of constant arrays and structs in a source.
std::vector<std::string> constants_of(const std::string& source) {
  constexpr std::string_view start = "\nstatic const ";
  std::vector<std::string> names;
  for (size_t at = source.find(start); at != std::string::npos;
       at = source.find(start, at + 1)) {
    const size_t type = at + start.size();
    const std::string line = source.substr(type, source.find('\n', type) - type);
    const size_t name = line.find(' ') + 1;
    const bool defines = line.find(" = {") != std::string::npos;
    if (!defines || line.compare(name, 4, "net_") != 0) continue;
    names.push_back(line.substr(name, line.find_first_of("[ ", name) - name));
  }
  return names;
}

/// Returns a C file that includes net.c with constants in writable memory, and gives their
/// locations.
std::string writable(const std::vector<std::string>& names) {
  std::string cases;
  for (size_t i = 0; i < names.size(); ++i) {
    // For structs with pointers, the members that follow the pointers.
    const bool is_grid = names[i].find("_grid") != std::string::npos;
    const bool is_limits = names[i].find("_limits") != std::string::npos;
    const std::string_view first = is_grid ? ".zero_point" : is_limits ? ".low" : "";
    const std::string bytes = is_grid ? "12" : is_limits ? "8" : "sizeof " + names[i];
    cases += fmt::format("    case {}: *bytes = {}; return (unsigned char *)&{}{};\n", i, bytes,
                         names[i], first);
  }
  return fmt::format(
      "#include <stdint.h>\n#include <string.h>\n#include <stddef.h>\n"
      "#define const\n#include \"net.c\"\n#undef const\n"
      "unsigned char *place(int32_t which, int32_t *bytes);\n"
      "unsigned char *place(int32_t which, int32_t *bytes) {{\n  switch (which) {{\n{}    default: return 0;\n  }}\n}}\n",
      cases);
}

/// An exported program in this process with modifiable constants.
class Patched {
 public:
  explicit Patched(const IntegerProgram& program) {
    const CExport exported = export_c(program, {.name = "net", .test = {.inputs = 128}});
    write_c(folder_.path(), exported);
    names_ = constants_of(exported.files[1].text);
    write_file(folder_.file("place.c"), writable(names_));
    // Kernels take pointers to constants, but the constants are not const here.
    messages_ = compiled(folder_, "net.so",
                         {"-shared", "-fPIC", "-w", "-DNET_TEST_NO_MAIN",
                          folder_.file("place.c"), folder_.file("net_test.c")});
    handle_ = ::dlopen(folder_.file("net.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    REQUIRE_MESSAGE(handle_ != nullptr, messages_);
    place_ = reinterpret_cast<unsigned char* (*)(int32_t, int32_t*)>(::dlsym(handle_, "place"));
    test_ = reinterpret_cast<int32_t (*)(void*)>(::dlsym(handle_, "net_test"));
  }
  Patched(const Patched&) = delete;
  Patched& operator=(const Patched&) = delete;
  ~Patched() { ::dlclose(handle_); }

  int32_t wrong() const { return test_(nullptr); }
  const std::vector<std::string>& names() const { return names_; }
  std::span<unsigned char> bytes(size_t constant) const {
    int32_t count = 0;
    unsigned char* at = place_(static_cast<int32_t>(constant), &count);
    return {at, static_cast<size_t>(count)};
  }

 private:
  test::Folder folder_;
  std::vector<std::string> names_;
  std::string messages_;
  void* handle_ = nullptr;
  unsigned char* (*place_)(int32_t, int32_t*) = nullptr;
  int32_t (*test_)(void*) = nullptr;
};

bool is_array_of(const std::string& name, const std::string& what) {
  return name.find("_" + what) != std::string::npos;
}

TEST_CASE("exported C: the self-test tells each of 200 changed bits of five networks") {
  std::map<std::string, int> changed;
  const IntegerProgram programs[] = {
      net_program(test::conv_net(2), 2, Requantization::SingleRounding),
      net_program(test::conv_net(5), 5, Requantization::DoubleRounding),
      net_program(test::conv_net(9), 9, Requantization::FloatMultiply),
      net_program(test::random_net(3), 3, Requantization::SingleRounding),
      net_program(test::random_net(8), 8, Requantization::OnnxQdq)};
  for (const IntegerProgram& program : programs) {
    const Patched net(program);
    REQUIRE(net.wrong() == 0);
    REQUIRE(net.names().size() >= 4);
    const Random random(7, 0);
    for (uint64_t trial = 0; trial < 200; ++trial) {
      const auto pick = [&](size_t n, uint64_t draw) {
        return static_cast<size_t>(random.uniform(3 * trial + draw) * static_cast<double>(n));
      };
      const size_t constant = pick(net.names().size(), 0);
      const std::string& name = net.names()[constant];
      const std::span<unsigned char> bytes = net.bytes(constant);
      unsigned char& byte = bytes[pick(bytes.size(), 1)];
      const auto bit = static_cast<unsigned char>(1u << pick(8, 2));
      CAPTURE(name);
      byte ^= bit;
      CHECK(net.wrong() != 0);
      byte ^= bit;
      for (const char* what : {"weights", "bias", "offset", "multiplier", "shift", "scale",
                               "table", "window", "sum", "axes", "value", "grid"}) {
        changed[what] += is_array_of(name, what) ? 1 : 0;
      }
    }
    CHECK(net.wrong() == 0);
  }
  for (const char* what : {"weights", "multiplier", "shift", "scale", "window"}) {
    CAPTURE(what);
    CHECK(changed[what] > 0);
  }
  CHECK(changed["bias"] + changed["offset"] > 0);
}

TEST_CASE("exported C: sums that two nodes take to the same codes become these at once") {
  IntegerProgram program = test::small_program();
  const CodeGrid grid = test::whole_grid(DType::S8, 0.5);
  const ProgramNodeId fc = program.at("fc");
  const ProgramNodeId a = program.add(integer::Requantize{grid}, {fc}, "a");
  const ProgramNodeId b = program.add(integer::Requantize{grid}, {fc}, "b");
  const ProgramNodeId y = program.add(integer::Add{.grid = grid}, {a, b}, "sum");
  program.set_outputs({y});
  const RewrittenProgram made = program_for_c(program, CKernels::Portable);
  CHECK(made.nodes[a] == made.nodes[b]);
  CHECK(made.program.size() == program.size() - 1);
  // Outputs are not merged, because each has a name.
  program.set_outputs({a, b});
  CHECK(program_for_c(program, CKernels::Portable).program.size() == program.size());
}

TEST_CASE("exported C: channels of sums at the end have their scales in the header") {
  IntegerProgram program = test::small_program().with_batch(1);
  program.set_outputs({program.at("fc")});
  const CExport exported = export_c(program, {.name = "net", .test = {.inputs = 1}});
  const std::string& header = exported.files[0].text;
  for (const char* line :
       {"#define NET_OUTPUT0_TYPE int32_t\n", "#define NET_OUTPUT0_ZERO_POINT 0\n",
        "#define NET_OUTPUT0_SCALES {0.125f, 0.5f}\n",
        "#define NET_OUTPUT0_RATIOS {536870912, 2147483647}\n",
        "the largest sum need not be the largest value", "#define NET_INPUT0_SCALE 0.25f\n",
        "#define NET_INPUT0_ZERO_POINT 7\n", "#define NET_INPUT0_CODE_TYPE uint8_t\n",
        "#define NET_INPUT0_SHAPE {1, 3}\n", "#define NET_INPUT0_ELEMENTS 3\n"}) {
    CAPTURE(line);
    CHECK(header.find(line) != std::string::npos);
  }
}

constexpr const char* two_instances = R"(#include "net.h"
static net_arena first, second;
int main(void) {
  const float x[3] = {1, -2, 3}, z[3] = {0.25f, 4, -1};
  float y[2], w[2], alone[2];
  net_context a, b;
  int32_t step;
  a.arena = &first;
  b.arena = &second;
  if (net_begin(&a, x, y) != NET_OK || net_begin(&b, z, w) != NET_OK) return 1;
  for (step = 0; step < NET_STEPS; ++step) {
    if (net_step(&a, step) != NET_OK || net_step(&b, step) != NET_OK) return 2;
  }
  if (net_step(&a, NET_STEPS) != NET_NO_STEP) return 3;
  net_end(&a);
  net_end(&b);
  for (step = 0; step < NET_STEPS; ++step) {
    if (net_step(&a, step) != NET_NOT_BEGUN) return 9;
  }
  if (net_run_in(&a, x, alone) != NET_OK || alone[0] != y[0] || alone[1] != y[1]) return 4;
  if (net_run_in(&a, z, alone) != NET_OK || alone[0] != w[0] || alone[1] != w[1]) return 5;
  if (y[0] == w[0] && y[1] == w[1]) return 6;
  if (net_begin_codes(&a, 0, y) != NET_OK || net_step(&a, 0) != NET_NOT_BEGUN) return 7;
  return net_test_in(&b, 0) == 0 && net_version()[0] == 'n' ? 0 : 8;
}
)";

TEST_CASE("exported C: two instances, in memory that the caller gives, without static memory") {
  const test::Folder folder;
  const IntegerProgram program = test::small_program().with_batch(1);
  const CExport exported = export_c(program, {.name = "net", .test = {.inputs = 20}});
  write_c(folder.path(), exported);
  write_file(folder.file("main.c"), two_instances);
  CHECK(compiled(folder, "two",
                 {"-Wall", "-Wextra", "-Wpedantic", "-Werror", "-DNET_NO_STATIC",
                  "-DNET_TEST_NO_MAIN", folder.file("main.c"), folder.file("net.c"),
                  folder.file("net_test.c")}) == "");
  const int exit_code = run_program({folder.file("two")}).exit_code;
  if (test::not_started(exit_code)) return;
  CHECK(exit_code == 0);
  const std::string symbols = run_program({"nm", folder.file("two")}).output;
  CHECK(symbols.find("net_static") == std::string::npos);
}

TEST_CASE("exported C: files of two exports do not compile together") {
  const test::Folder folder;
  const IntegerProgram program = test::small_program().with_batch(1);
  const CExport first = export_c(program, {.name = "net", .test = {.inputs = 1}});
  const CExport second =
      export_c(net_program(test::random_net(3), 3, Requantization::SingleRounding),
               {.name = "net", .test = {.inputs = 1}});
  write_c(folder.path(), first);
  write_file(folder.file("net.h"), second.files[0].text);
  for (const char* file : {"net.c", "net_test.c"}) {
    CHECK(compiled(folder, "net.o", {"-c", folder.file(file)})
              .find("net.h comes from a different export than this file") != std::string::npos);
  }
}

/// x f32[2, 3] to s8 codes [2, 2] of small_program, and nothing else.
IntegerProgram codes_program() {
  IntegerProgram program = test::first_nodes(test::small_program(), 3);
  const CodeGrid grid = test::whole_grid(DType::S8, 0.5);
  program.set_outputs({program.add(integer::Requantize{grid}, {ProgramNodeId{2}}, "codes")});
  return program;
}

TEST_CASE("exported C: runs from codes link no float") {
  const test::Folder folder;
  write_c(folder.path(), codes_program(), {.name = "net", .test = {.inputs = 1}});
  write_file(folder.file("main.c"),
             "#include \"net.h\"\nint main(void) {\n  static uint8_t x[6];\n  int8_t y[4];\n"
             "  return net_run_codes(x, y);\n}\n");
  const std::vector<std::string> flags = {"-ffunction-sections", "-Wl,--gc-sections",
                                          folder.file("main.c"), folder.file("net.c")};
  CHECK(compiled(folder, "codes", flags) == "");
  const std::string symbols = run_program({"nm", folder.file("codes")}).output;
  CHECK(symbols.find(" T net_step_codes\n") != std::string::npos);
  CHECK(symbols.find(" T net_step\n") == std::string::npos);
  CHECK(symbols.find("net_quantize") == std::string::npos);
  if (!has_program("arm-none-eabi-gcc") || !has_program("arm-none-eabi-nm")) {
    return test::skip("no compiler for Arm");
  }
  std::vector<std::string> arm = {
      "arm-none-eabi-gcc",   "-std=c99", "-O2", "-mcpu=cortex-m0",     "-mthumb",
      "--specs=nosys.specs", "-w",       "-o",  folder.file("arm.elf")};
  arm.insert(arm.end(), flags.begin(), flags.end());
  REQUIRE(run_program(arm).exit_code == 0);
  const std::string linked = run_program({"arm-none-eabi-nm", folder.file("arm.elf")}).output;
  for (const char* name :
       {"__aeabi_fadd", "__aeabi_fsub", "__aeabi_fmul", "__aeabi_fdiv", "__aeabi_f2iz"}) {
    CAPTURE(name);
    CHECK(linked.find(name) == std::string::npos);
  }
}

TEST_CASE("exported C: a folder that cannot be made, a file that cannot be replaced") {
  const test::Folder folder;
  const CExport exported = export_c(test::small_program(), {.test = {.inputs = 1}});
  write_file(folder.file("file"), "old");
  CHECK(test::error_text<IoError>([&] { write_c(folder.file("file"), exported); }) ==
        folder.file("file") + ": cannot create a folder: Not a directory");
  write_file(folder.file("network.c"), "old");
  std::filesystem::create_directory(folder.file("network_test.c"));
  CHECK(test::error_text<IoError>([&] { write_c(folder.path(), exported); }) ==
        folder.file("network_test.c") + ": cannot write: Is a directory");
  CHECK(read_file(folder.file("network.c"), 100) == "old");
  CHECK(!std::filesystem::exists(folder.file("network.h")));
}

}  // namespace
