// Fuzzed functions accept their valid inputs and do no more than throw an Error for changed
// copies of them. scripts/fuzz changes them for longer.
#include "qtape/tests/fuzz/seeds.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "qtape/core/random.h"
#include "qtape/tests/fuzz/target.h"

using namespace qtape;

namespace {

constexpr uint64_t changed_copies = 2000;  // for each target

/// Returns bytes with one to four changes: other bits, bytes that mean something in many
/// formats, parts that are missing, repeated or cut off.
std::string changed(std::string bytes, const Random& random) {
  constexpr std::string_view special("\0\xff\x7f\x80-09e.\"[]{},:\n", 17);
  uint64_t draws = 0;
  const auto below = [&](size_t n) { return static_cast<size_t>(random.below(draws++, n)); };
  for (size_t changes = 1 + below(4); changes > 0; --changes) {
    if (bytes.empty()) return bytes;
    const size_t at = below(bytes.size());
    const size_t length = std::min(1 + below(16), bytes.size() - at);
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        bytes[at] = special[below(special.size())];
        break;
      case 2:
        bytes.erase(at, length);
        break;
      case 3:
        bytes.insert(below(bytes.size()), bytes.substr(at, length));
        break;
      case 4:
        bytes.insert(at, "99999999999999999999");
        break;
      default:
        bytes.resize(at);
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("fuzz: each source of a fuzzed function registers it") {
  std::set<std::string> sources, names;
  const std::string folder = QTAPE_SOURCE "/tests/fuzz/targets";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    sources.insert(entry.path().stem());
  }
  for (const fuzz::Target* target : fuzz::Target::all()) names.emplace(target->name);
  CHECK(names == sources);
}

TEST_CASE("fuzz: valid inputs are accepted") {
  for (const fuzz::Target* target : fuzz::Target::all()) {
    CAPTURE(target->name);
    const std::vector<std::string> seeds = target->seeds();
    CHECK(!seeds.empty());
    for (size_t i = 0; i < seeds.size(); ++i) {
      CAPTURE(i);
      CHECK(target->run(seeds[i]) == "");
    }
  }
}

TEST_CASE("fuzz: changed inputs are accepted or refused by an Error") {
  for (const fuzz::Target* target : fuzz::Target::all()) {
    CAPTURE(target->name);
    const std::vector<std::string> seeds = target->seeds();
    // Any bytes are a seed of random networks.
    const uint64_t copies = target->name == "graphs" ? 0 : changed_copies;
    for (uint64_t i = 0; i < copies; ++i) {
      CAPTURE(i);
      CHECK_NOTHROW(target->run(changed(seeds[i % seeds.size()], Random(7, i))));
    }
  }
}
