// Settings of every kind, defined only by fields(): options, limits, sections of checkpoints,
// reports.
#include "qtape/programs/settings.h"

#include <doctest/doctest.h>

#include <CLI/CLI.hpp>

#include "qtape/core/settings.h"
#include "qtape/programs/command_line.h"
#include "qtape/programs/settings_json.h"
#include "qtape/tests/support/errors.h"

using namespace qtape;
using namespace qtape::programs;
using test::error_text;

namespace {

enum class Shade : uint8_t { Light, Dark };

struct Sample {
  int64_t count = 3;
  int64_t first_bits = 8;
  int64_t seed = 1;
  double rate = 0.5;
  double scale = 2;
  std::string folder;
  bool fast = false;
  Shade shade = Shade::Dark;
  std::optional<Shade> border = std::nullopt;
  std::optional<int64_t> stop = std::nullopt;
  std::optional<double> least = 0.25;
  std::vector<int64_t> widths = {4, 2};

  static constexpr auto fields() {
    using S = Sample;
    return std::tuple{
        setting("count", &S::count, "how many", {1, 100}),
        setting("first_bits", &S::first_bits, "bits", {.low = 2, .high = 8, .zero = "float"}),
        setting("seed", &S::seed, "seed", {.low = 0}),
        setting("rate", &S::rate, "rate", {0, 10}).called("rate of learning"),
        setting("scale", &S::scale, "scale", {.low = 0}),
        setting("folder", &S::folder, "where"),
        setting("fast", &S::fast, "without checks"),
        setting("shade", &S::shade, "shade"),
        setting("border", &S::border, "shade of the border"),
        setting("stop", &S::stop, "last step", {.low = 0}),
        setting("least", &S::least, "least rate", {0, 1}),
        setting("widths", &S::widths, "widths", {1, 64}).called("width").at_most(3)};
  }
  bool operator==(const Sample&) const = default;
};

/// Settings of types that checkpoints do not hold, and an enumeration with a refused value.
struct Few {
  int bits = 8;
  std::optional<int> ends = std::nullopt;
  uint64_t seed = 1;
  Shade shade = Shade::Dark;
  std::optional<Shade> border = std::nullopt;

  static constexpr auto fields() {
    using F = Few;
    return std::tuple{setting("bits", &F::bits, "bits", {2, 16}),
                      setting("ends", &F::ends, "bits of the ends", {2, 16}),
                      setting("seed", &F::seed, "seed", {.low = 0}),
                      setting("shade", &F::shade, "shade", {.refused = Shade::Light}),
                      setting("border", &F::border, "border", {.refused = Shade::Light})};
  }
};

/// Returns a sample in which every member differs from its default.
Sample others() {
  return {.count = 5,
          .first_bits = 0,
          .seed = 9,
          .rate = 1.5,
          .scale = 3,
          .folder = "here",
          .fast = true,
          .shade = Shade::Light,
          .border = Shade::Dark,
          .stop = 7,
          .least = std::nullopt,
          .widths = {64, 1, 3}};
}

/// A command line with settings, parsed from `arguments`.
class Parsed {
 public:
  explicit Parsed(const std::string& arguments) {
    line.add_settings(sample);
    line.app().parse(arguments);
  }

  Sample sample;
  CommandLine line{"sample", "A sample."};
};

Sample parsed(const std::string& arguments) { return Parsed(arguments).sample; }

/// Returns the error message for arguments.
std::string refusal(const std::string& arguments) {
  return error_text<CLI::ParseError>([&] { (void)parsed(arguments); });
}

Section section_of(const Sample& sample) {
  Section section;
  settings::put_fields(sample, "", section);
  return section;
}

Sample read(const Section& section) {
  Sample sample;
  settings::take_fields("/sections/sample", section, "", sample);
  return sample;
}

}  // namespace

namespace qtape {
template <>
inline constexpr auto enum_names<Shade> = std::array<std::string_view, 2>{"Light", "Dark"};
}  // namespace qtape

TEST_CASE("settings: each field is an option") {
  CHECK(parsed("") == Sample{});
  Sample all = others();
  all.least = 0;
  CHECK(parsed("--count 5 --first-bits 0 --seed 9 --rate 1.5 --scale 3 --folder here --fast "
               "--shade light --border DARK --stop 7 --least 0 --widths 64,1 3") == all);
  CHECK(parsed("--count 5 --count 6").count == 6);
  CHECK(parsed("--widths 5 --widths 6").widths == std::vector<int64_t>{5, 6});
}

TEST_CASE("settings: options say what they take and what came") {
  CHECK(refusal("--count 0") == "--count: expected 1 to 100, got 0");
  CHECK(refusal("--count 1.5") == "--count: expected 1 to 100, got 1.5");
  CHECK(refusal("--first-bits 1") == "--first-bits: expected 0 (float) or 2 to 8, got 1");
  CHECK(refusal("--seed=-1") == "--seed: expected 0 or more, got -1");
  CHECK(refusal("--seed 9223372036854775807") == "no error");
  CHECK(refusal("--seed 9223372036854775808") ==
        "--seed: expected 0 to 9223372036854775807, got 9223372036854775808");
  CHECK(refusal("--rate 11") == "--rate: expected 0 to 10, got 11");
  CHECK(refusal("--rate nan") == "--rate: expected 0 to 10, got nan");
  CHECK(refusal("--scale inf") == "--scale: expected 0 or more, got inf");
  CHECK(refusal("--shade grey") == "--shade: expected one of Light, Dark, got grey");
  CHECK(refusal("--border grey") == "--border: expected one of Light, Dark, got grey");
  CHECK(refusal("--stop=-1") == "--stop: expected 0 or more, got -1");
  CHECK(refusal("--least 2") == "--least: expected 0 to 1, got 2");
  CHECK(refusal("--widths 4,65") == "--widths: expected 1 to 64, got 65");
}

TEST_CASE("settings: help shows what options take, and defaults") {
  const std::string help = Parsed("").line.app().help();
  for (const char* text : {"how many", "--folder TEXT ", "--fast ",
                           "--border TEXT:{Light,Dark} ", "--stop INT:0 or more "}) {
    CAPTURE(text);
    CHECK(help.find(text) != std::string::npos);
  }
  using Shown = std::pair<std::string, std::string>;
  for (const Shown& each :
       {Shown{"--count INT:1 to 100", "3"}, Shown{"--first-bits INT:0 or 2 to 8", "8"},
        Shown{"--rate FLOAT:0 to 10", "0.5"}, Shown{"--scale FLOAT:0 or more", "2"},
        Shown{"--shade TEXT:{Light,Dark}", "Dark"}, Shown{"--least FLOAT:0 to 1", "0.25"},
        Shown{"--widths INT:1 to 64", "[4,2]"}}) {
    const std::string& option = each.first;
    const std::string& value = each.second;
    CAPTURE(option);
    // CLI11 2.4 shows defaults in brackets.
    const bool shown = help.find(option + "=" + value) != std::string::npos ||
                       help.find(option + " [" + value + "]") != std::string::npos;
    CHECK(shown);
  }
}

TEST_CASE("settings: limits hold wherever settings come from") {
  const auto error = [](const Sample& sample) {
    return error_text<ArgumentError>([&] { require_limits(sample); });
  };
  CHECK(error({}) == "no error");
  CHECK(error(others()) == "no error");
  CHECK(error({.count = 101}) == "count must be in 1..100, got 101");
  CHECK(error({.first_bits = 1}) == "first bits must be 0 (float) or in 2..8, got 1");
  CHECK(error({.seed = -1}) == "seed must be >= 0, got -1");
  CHECK(error({.rate = -1}) == "rate of learning must be in [0, 10], got -1");
  CHECK(error({.scale = std::numeric_limits<double>::infinity()}) ==
        "scale must be finite and >= 0, got inf");
  CHECK(error({.stop = -1}) == "stop must be >= 0, got -1");
  CHECK(error({.least = std::numeric_limits<double>::quiet_NaN()}) ==
        "least must be in [0, 1], got nan");
  CHECK(error({.widths = {1, 0}}) == "width must be in 1..64, got 0");
  CHECK(error({.widths = {1, 2, 3, 4}}) == "the number of widths must be in 0..3, got 4");
}

TEST_CASE("settings: a refused value of an enumeration is no choice") {
  const auto error = [](const Few& few) {
    return error_text<ArgumentError>([&] { require_limits(few); });
  };
  CHECK(error({}) == "no error");
  CHECK(error({.bits = 17}) == "bits must be in 2..16, got 17");
  CHECK(error({.ends = 1}) == "ends must be in 2..16, got 1");
  CHECK(error({.shade = Shade::Light}) == "shade must be Dark, got Light");
  CHECK(error({.border = Shade::Light}) == "border must be Dark, got Light");
  CHECK(error_text<ArgumentError>([] {
          qtape::settings::refuse_choice("shade", {"A", "B", "C"}, "D");
        }) == "shade must be A, B or C, got D");
}

TEST_CASE("settings: a command takes all fields, some, or one, and knows which were given") {
  const auto refused = [](const std::string& arguments) {
    Few few;
    CLI::App app;
    add_settings(app, few, &Few::ends, &Few::border);
    return error_text<CLI::ParseError>([&] { app.parse(arguments); });
  };
  CHECK(refused("--bits 3 --seed 18446744073709551615 --shade dark") == "no error");
  CHECK(refused("--bits 17") == "--bits: expected 2 to 16, got 17");
  CHECK(refused("--seed x") == "--seed: expected 0 or more, got x");
  CHECK(refused("--shade light") == "--shade: expected one of Dark, got light");
  CHECK(refused("--ends 3").starts_with("The following arguments were not expected: "));

  Few few;
  int bits = 5;
  CLI::App app;
  const auto added = add_settings(app, few, &Few::bits);
  add_setting(app, &Few::bits, bits);
  CHECK(added.size() == 4);
  app.parse("--bits 4");
  CHECK(bits == 4);
  CHECK(few.bits == 8);
  CHECK(!any_given(added));
  app.parse("--ends 3");
  CHECK(any_given(added));
  CHECK(few.ends == 3);
}

TEST_CASE("settings: sections hold each field and give it back") {
  CHECK(section_of(others()).settings ==
        std::map<std::string, Section::Setting>{{"count", int64_t{5}},
                                                {"first_bits", int64_t{0}},
                                                {"seed", int64_t{9}},
                                                {"rate", 1.5},
                                                {"scale", 3.0},
                                                {"folder", std::string("here")},
                                                {"fast", true},
                                                {"shade", std::string("Light")},
                                                {"border", std::string("Dark")},
                                                {"stop", int64_t{7}},
                                                {"widths", int64_t{3}},
                                                {"widths 1", int64_t{64}},
                                                {"widths 2", int64_t{1}},
                                                {"widths 3", int64_t{3}}});
  for (const Sample& sample : {Sample{}, others()}) {
    Section section = section_of(sample);
    if (!sample.least) section.settings.erase("least");
    CHECK(read(section) == sample);
  }
  Section whole = section_of({});
  whole.settings["rate"] = int64_t{1};  // a file may contain 1 for 1.0
  CHECK(read(whole).rate == 1);
}

TEST_CASE("settings: what a section has wrong is named") {
  const auto error = [](const char* key, const std::optional<Section::Setting>& value) {
    Section section = section_of({});
    section.settings.erase(key);
    if (value) section.settings[key] = *value;
    return error_text<FormatError>([&] { (void)read(section); });
  };
  const std::string place = "/sections/sample/settings/";
  CHECK(error("count", std::nullopt) == place + "count: expected an integer, got nothing");
  CHECK(error("count", 1.5) == place + "count: expected an integer, got 1.5");
  CHECK(error("rate", true) == place + "rate: expected a number, got true");
  CHECK(error("folder", int64_t{1}) == place + "folder: expected a string, got 1");
  CHECK(error("fast", int64_t{1}) == place + "fast: expected true or false, got 1");
  CHECK(error("shade", std::string("Grey")) ==
        place + "shade: unknown value \"Grey\"; expected one of Light, Dark");
  CHECK(error("border", std::string("")) ==
        place + "border: unknown value \"\"; expected one of Light, Dark");
  CHECK(error("stop", std::string("x")) == place + "stop: expected an integer, got \"x\"");
  CHECK(error("widths", int64_t{-1}) == place + "widths: expected a length, got -1");
  CHECK(error("widths", std::numeric_limits<int64_t>::max()) ==
        place + "widths 3: expected an integer, got nothing");
}

TEST_CASE("settings: an option beside a checkpoint must agree with it") {
  const auto error = [](const std::string& arguments) {
    Parsed given(arguments);
    return error_text<ArgumentError>(
        [&] { programs::require_same(given.line.app(), given.sample, others()); });
  };
  CHECK(error("") == "no error");
  CHECK(error("--count 5 --first-bits 0 --rate 15e-1 --fast --shade light --stop 7 "
              "--widths 64,1,3") == "no error");
  for (const char* option :
       {"--count 3", "--first-bits 8", "--rate 0.5", "--folder there", "--fast=false",
        "--shade dark", "--border light", "--stop 8", "--least 0.25", "--widths 64,1"}) {
    const std::string name(option, std::string_view(option).find_first_of(" ="));
    CHECK(error(option).starts_with(name + ": the checkpoint is from a run with "));
  }
  CHECK(error("--count 3") == "--count: the checkpoint is from a run with 5, got 3");
  CHECK(error("--shade dark") == "--shade: the checkpoint is from a run with Light, got Dark");
  CHECK(error("--widths 64,1") ==
        "--widths: the checkpoint is from a run with 64,1,3, got 64,1");
}

TEST_CASE("settings: reports hold each field, threads and the instruction set") {
  Json json = settings_json(Sample{}, 2);
  CHECK(json["isa"] == write_json(isa()));
  json.erase("isa");
  CHECK(json.dump() ==
        R"({"count":3,"first_bits":8,"seed":1,"rate":0.5,"scale":2.0,"folder":"","fast":false,)"
        R"("shade":"Dark","border":null,"stop":null,"least":0.25,"widths":[4,2],"threads":2})");
}
