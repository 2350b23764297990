// The conformance vectors of tests/data/conformance in all sessions of this library.
#include "qtape/tests/support/conformance.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cctype>
#include <filesystem>
#include <map>
#include <set>

#include "qtape/integer/program/integer_node.h"
#include "qtape/io/files.h"

using namespace qtape;

namespace {

namespace fs = std::filesystem;

const fs::path folder = fs::path(QTAPE_TEST_DATA) / "conformance";

std::map<std::string, std::string> committed_files() {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = read_file(entry.path().string(), 1 << 20);
  }
  return files;
}

}  // namespace

TEST_CASE("conformance: the reference and the backend give every committed value") {
  const std::vector<std::pair<SessionOptions, SessionHooks>> all = {
      {{.reference = true, .threads = 1}, {}},
      {{.threads = 1, .kept = KeptValues::All}, {}},
      {{.threads = 2, .kept = KeptValues::Codes}, {}},
      {{.threads = 2, .kept = KeptValues::Codes}, {.path = ProductPath::Plain}},
      {{.threads = 2}, {}}};
  for (const auto& each : committed_files()) {
    const std::string& name = each.first;
    const std::string& text = each.second;
    CAPTURE(name);
    test::ConformanceFile file = test::read_conformance(text);
    for (size_t i = 0; i < all.size(); ++i) {
      CAPTURE(i);
      CHECK(test::first_difference(file, all[i].first, all[i].second) == "");
    }
    // Accumulators alone become codes at once.
    file.program.set_outputs({});
    CHECK(test::first_difference(file, {.threads = 2}) == "");
  }
}

TEST_CASE("conformance: any two requantizations differ where they are said to") {
  const auto values = [](const char* name, std::string_view requantization) {
    const std::string file = std::string(name) + "-" + std::string(requantization) + ".json";
    return test::read_conformance(read_file((folder / file).string(), 1 << 20)).values;
  };
  for (const char* name : {"ties", "codes", "add"}) {
    CAPTURE(name);
    for (std::string_view one : enum_names<Requantization>) {
      for (std::string_view two : enum_names<Requantization>) {
        CHECK((values(name, one) == values(name, two)) == (one == two));
      }
    }
  }
}

TEST_CASE("conformance: the files are what write_conformance writes, and small") {
  std::map<std::string, std::string> files = committed_files();
  size_t bytes = 0;
  for (const auto& [name, text] : files) bytes += text.size();
  CHECK(bytes < 800'000);
  for (const test::ConformanceCase& each : test::conformance_cases()) {
    CAPTURE(each.name);
    CHECK(files[each.name + ".json"] == test::to_text(each));
    files.erase(each.name + ".json");
  }
  CHECK(files.empty());
}

TEST_CASE("conformance: every op, requantization, dtype and width of weights occurs") {
  std::set<std::string> seen;
  for (const test::ConformanceCase& each : test::conformance_cases()) {
    const std::string requantization(to_string_view(each.program.requantization()));
    for (const IntegerNode& node : each.program.nodes()) {
      const std::string op(name_of(node.op));
      seen.insert(op);
      seen.insert(op + " " + std::string(to_string_view(node.value.type.dtype)));
      const bool sums_in =
          !node.operands.empty() && each.program[node.operands[0]].value.is_accumulators();
      seen.insert(op + (sums_in ? " of accumulators " : " of codes ") + requantization);
      if (const QuantizedWeights* weights = weights_of(node.op)) {
        const auto& x = each.program[node.operands[0]].value;
        seen.insert(fmt::format("{} weights of {} bits on {}", requantization,
                                weights->storage_bits, to_string_view(x.type.dtype)));
      }
    }
  }
  for_each_alternative<IntegerOp>(
      [&]<class T>() { CHECK(seen.contains(std::string(T::name))); });
  for (const char* dtype : {"s8", "u8", "s16", "u16"}) {
    for (const char* op :
         {"Quantize ", "Requantize ", "Add ", "Concat ", "Slice ", "Reshape ", "Max "}) {
      CAPTURE(op);
      CAPTURE(dtype);
      CHECK(seen.contains(std::string(op) + dtype));
    }
  }
  for (const char* accumulators : {"Linear s32", "Linear s64", "Sum s32", "Sum s64"}) {
    CHECK(seen.contains(accumulators));
  }
  for (std::string_view requantization : enum_names<Requantization>) {
    for (const char* use :
         {"Requantize of accumulators ", "Requantize of codes ", "Add of codes ",
          "Dequantize of accumulators ", "Dequantize of codes "}) {
      CHECK(seen.contains(use + std::string(requantization)));
    }
    for (const char* weights : {"8 bits on u8", "4 bits on s8", "2 bits on u8", "8 bits on u16",
                                "4 bits on s16", "2 bits on s16", "8 bits on s16"}) {
      CHECK(seen.contains(std::string(requantization) + " weights of " + weights));
    }
  }
}
