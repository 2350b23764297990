// Observers in files, and settings that are refused.
#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "qtape/engine/serialize.h"
#include "qtape/tests/calibrate/observer_data.h"
#include "qtape/tests/support/errors.h"

using namespace qtape;
using namespace qtape::test;

namespace {

const Grid grid = grid_of(8, CodeRange::Narrow);

std::string construction_error(const ObserverMethod& method, const Grid& on = grid,
                               int64_t channels = 1) {
  return error_text<ArgumentError>([&] { (void)Observer(method, on, channels); });
}

/// The observer after a round trip through the text of a model file.
Observer through_text(const Observer& observer) {
  const Graph graph;
  const std::string text = to_json(graph, Parameters(graph, 1), {{"act", observer.save()}});
  return Observer::load(model_from_json(text).sections.at("act"));
}

double& number(Section& section, const std::string& key, size_t i) {
  return reinterpret_cast<double*>(section.tensors.at(key).data.data())[i];
}

struct Damage {
  ObserverMethod method;
  std::function<void(Section&)> change;
  std::string error;
};

/// Puts `value` at `i` of a tensor.
std::function<void(Section&)> put(const std::string& key, size_t i, double value) {
  return [=](Section& section) { number(section, key, i) = value; };
}

std::function<void(Section&)> set(const std::string& key, const Section::Setting& value) {
  return [=](Section& section) { section.settings[key] = value; };
}

void check_damage(const std::vector<Damage>& damages) {
  for (const Damage& damage : damages) {
    Observer observer(damage.method, grid, 2);
    observer.observe<double>(Values{-3, 1, 2, 0, 7, 5}, ChannelMap({2, 3}, {.axis = 0}));
    Section section = observer.save();
    CHECK(Observer::load(section).save() == section);
    damage.change(section);
    CHECK(error_text<FormatError>([&] { (void)Observer::load(section); }) ==
          "Observer: " + damage.error);
  }
}

}  // namespace

TEST_CASE("observer: every method comes back from a model file and goes on") {
  const std::vector<ObserverMethod> methods = {MinMax{},
                                               MovingAverage{.averaging_constant = 1.0 / 3},
                                               Histogram{.bins = 64},
                                               Percentile{.percent = 100, .bins = 32},
                                               Mse{.steps = 7, .bins = 16},
                                               Kl{},
                                               ClipStd{.deviations = 2.7},
                                               FixedScale{.scale = 0.1, .zero_point = -4},
                                               Mix{.candidates = {"kl", "MovingAverage"}}};
  Grid other = grid_of(5, CodeRange::Full, Scheme::Affine);
  other.rounding = Rounding::HalfUp;
  other.division = Division::Reciprocal;
  other.zero_point = ZeroPoint::BeforeRounding;
  other.denominator = Denominator::HalfSpan;
  other.floor = 1e-7;
  const ChannelMap map({3, 500}, {.axis = 0});
  for (const ObserverMethod& method : methods) {
    CAPTURE(name_of(method));
    Observer observer(method, other, 3);
    CHECK(through_text(observer).save() == observer.save());
    Values x = gaussian(1500);
    for (size_t i = 0; i < x.size(); ++i) x[i] *= i < 500 ? 1e-30 : 1e7;
    for (size_t i = 1000; i < 1500; ++i) x[i] = not_a_number;
    observer.observe<double>(x, map);
    Observer back = through_text(observer);
    CHECK(back.save() == observer.save());
    CHECK(back.method() == method);
    CHECK(back.grid() == other);
    CHECK(back.non_finite() == 500);
    CHECK(back.calibrated() == std::holds_alternative<FixedScale>(method));
    for (Observer* each : {&observer, &back}) {
      each->observe<double>(exponential(1500, true), map);
    }
    CHECK(back.save() == observer.save());
    CHECK(back.qparams() == observer.qparams());
  }
}

TEST_CASE("observer: the extremes of doubles come back from a file") {
  const double largest = std::numeric_limits<double>::max();
  const double denormal = std::numeric_limits<double>::denorm_min();
  for (const Values& x : {Values{-largest, 1}, Values{denormal, -denormal}, Values{0, 0},
                          Values{largest, denormal}}) {
    for_each_alternative<ObserverMethod>([&]<class Method>() {
      const Observer observer = observed(Method{}, grid, x);
      CHECK(through_text(observer).save() == observer.save());
    });
  }
}

TEST_CASE("observer: methods out of their ranges") {
  const std::string bins = "bins must be a power of two in 16..65536, got ";
  CHECK(construction_error(Histogram{.bins = 100}) == "Histogram: " + bins + "100");
  CHECK(construction_error(Percentile{.bins = 8}) == "Percentile: " + bins + "8");
  CHECK(construction_error(Mse{.bins = 131072}) == "Mse: " + bins + "131072");
  CHECK(construction_error(Kl{.bins = -16}) == "Kl: " + bins + "-16");
  CHECK(construction_error(MovingAverage{.averaging_constant = 0}) ==
        "MovingAverage: averaging_constant must be in (0, 1], got 0");
  CHECK(construction_error(MovingAverage{.averaging_constant = not_a_number}) ==
        "MovingAverage: averaging_constant must be in (0, 1], got nan");
  CHECK(construction_error(Percentile{.percent = 100.5}) ==
        "Percentile: percent must be in (0, 100], got 100.5");
  CHECK(construction_error(Percentile{.percent = 0}) ==
        "Percentile: percent must be in (0, 100], got 0");
  CHECK(construction_error(Mse{.steps = 0}) == "Mse: steps must be in 1..65536, got 0");
  CHECK(construction_error(ClipStd{.deviations = infinity}) ==
        "ClipStd: deviations must be finite and > 0, got inf");
  CHECK(construction_error(FixedScale{.scale = -1}) ==
        "FixedScale: scale must be finite and > 0, got -1");
  CHECK(construction_error(FixedScale{.zero_point = 0.5}) ==
        "FixedScale: zero_point must be an integer, got 0.5");
  CHECK(construction_error(FixedScale{.zero_point = 1}) ==
        "FixedScale: zero_point must be in 0..0 on this grid, got 1");
  CHECK(construction_error(FixedScale{.zero_point = 16},
                           grid_of(4, CodeRange::Unsigned, Scheme::Affine)) ==
        "FixedScale: zero_point must be in 0..15 on this grid, got 16");
  CHECK(construction_error(Mix{.candidates = {}}) ==
        "Mix: candidates must name at least one method, got none");
  const std::string candidates =
      "Mix: candidates must be of MinMax, MovingAverage, Histogram, Percentile, Mse, Kl, "
      "ClipStd, FixedScale, Mix without Mix and FixedScale, got ";
  CHECK(construction_error(Mix{.candidates = {"Mse", "median"}}) == candidates + "\"median\"");
  CHECK(construction_error(Mix{.candidates = {"mix"}}) == candidates + "\"mix\"");
  CHECK(construction_error(Mix{.candidates = {"FixedScale"}}) == candidates + "\"FixedScale\"");
}

TEST_CASE("observer: grids and channels that cannot be") {
  CHECK(construction_error(MinMax{}, grid_of(1, CodeRange::Narrow)) ==
        "Observer: codes must have q_min <= 0 < q_max within 16 bits, got q_min 0 and q_max 0");
  Grid wide = grid;
  wide.limits = {-32768, std::numeric_limits<int32_t>::max()};
  CHECK(construction_error(MinMax{}, wide) ==
        "Observer: codes must have q_min <= 0 < q_max within 16 bits, got q_min -32768 and "
        "q_max 2147483647");
  Grid floorless = grid;
  floorless.floor = 0;
  CHECK(construction_error(MinMax{}, floorless) ==
        "Observer: floor must be a normal f32 above 0, got 0");
  CHECK(construction_error(MinMax{}, grid, 0) ==
        "Observer: channels must be in 1..281474976710656, got 0");
  CHECK(construction_error(Kl{}, grid, int64_t{1} << 40) ==
        "Observer: channels must be in 1..137438953472, got 1099511627776");
}

TEST_CASE("observer: methods by name") {
  for_each_alternative<ObserverMethod>([&]<class Method>() {
    std::string name(Method::name);
    CHECK(observer_method(name) == ObserverMethod(Method{}));
    for (char& letter : name) letter = static_cast<char>(std::toupper(letter));
    CHECK(observer_method(name) == ObserverMethod(Method{}));
    CHECK(name_of(Method{}) == Method::name);
    validate(Method{});
  });
  CHECK(error_text<ArgumentError>([] { (void)observer_method("median"); }) ==
        "unknown observer method \"median\"; expected one of MinMax, MovingAverage, "
        "Histogram, Percentile, Mse, Kl, ClipStd, FixedScale, Mix");
}

TEST_CASE("observer: damaged settings are refused") {
  const auto erase = [](const std::string& key) {
    return [=](Section& section) { section.settings.erase(key); };
  };
  check_damage(
      {{MinMax{}, [](Section& section) { section.kind = "Adam"; },
        R"(kind: expected "Observer", got "Adam")"},
       {MinMax{}, erase("method"), "setting 'method': expected a text, got nothing"},
       {MinMax{}, set("method", true), "setting 'method': expected a text, got true"},
       {MinMax{}, set("method", "minmax"),
        R"(setting 'method': expected "MinMax", got "minmax")"},
       {MinMax{}, set("method", "Mse"),
        "setting 'method_steps': expected an integer, got nothing"},
       {Mse{}, set("method_steps", 1.5),
        "setting 'method_steps': expected an integer, got 1.5"},
       {MinMax{}, set("color", int64_t{3}), "setting 'color': expected nothing, got 3"},
       {MinMax{}, erase("grid_q_max"),
        "setting 'grid_q_max': expected an integer, got nothing"},
       {MinMax{}, set("grid_q_max", int64_t{1} << 40),
        "setting 'grid_q_max': expected 32 bits, got 1099511627776"},
       {MinMax{}, set("grid_q_max", int64_t{-1}),
        "codes must have q_min <= 0 < q_max within 16 bits, got q_min -127 and q_max -1"},
       {MinMax{}, set("grid_scheme", "symmetric"),
        "setting 'grid_scheme': expected one of Symmetric, Affine, got \"symmetric\""},
       {MinMax{}, set("grid_floor", -1.0), "floor must be a normal f32 above 0, got -1"},
       {MinMax{}, set("non_finite", int64_t{-1}),
        "setting 'non_finite': expected 0 to 2^53, got -1"},
       {MinMax{}, set("non_finite", 0.5),
        "setting 'non_finite': expected an integer, got 0.5"}});
}

TEST_CASE("observer: methods in damaged settings are refused as elsewhere") {
  const auto error = [](const ObserverMethod& method, const std::string& key,
                        const Section::Setting& value) {
    Section section = Observer(method, grid, 1).save();
    section.settings[key] = value;
    return error_text<FormatError>([&] { (void)Observer::load(section); });
  };
  CHECK(error(MinMax{}, "method", "Median").starts_with("unknown observer method \"Median\""));
  CHECK(error(Kl{}, "method_bins", int64_t{17}) ==
        "Kl: bins must be a power of two in 16..65536, got 17");
  CHECK(error(Mix{}, "method_candidates", "Kl, , Mse")
            .ends_with("without Mix and FixedScale, got \"\""));
}

TEST_CASE("observer: damaged tensors are refused") {
  const Tensor wrong = Tensor::of<float>({2}, std::vector<float>{1, 2});
  const double two53 = 0x1p53;
  check_damage(
      {{MinMax{}, [](Section& section) { section.tensors.erase("count"); },
        "tensor 'count': expected f64[channels], got nothing"},
       {MinMax{}, [](Section& section) { section.tensors.erase("min"); },
        "tensor 'min': expected f64[2], got nothing"},
       {MinMax{}, [=](Section& section) { section.tensors["max"] = wrong; },
        "tensor 'max': expected f64[2], got f32[2]"},
       {MinMax{}, [=](Section& section) { section.tensors["count"] = wrong; },
        "tensor 'count': expected f64[2], got f32[2]"},
       {MinMax{}, [](Section& section) { section.tensors["count"].type.shape = {3}; },
        "tensor 'count': expected 24 bytes, got 16"},
       {MinMax{}, [](Section& section) { section.tensors["max"].data.pop_back(); },
        "tensor 'max': expected 16 bytes, got 15"},
       {MinMax{}, [=](Section& section) { section.tensors["mean"] = wrong; },
        "tensor 'mean': expected nothing, got f32[2]"},
       {Kl{.bins = 16}, [](Section& section) { section.tensors["positive"].type.shape = {32}; },
        "tensor 'positive': expected f64[2, 16], got f64[32]"},
       {MinMax{}, put("count", 1, -1),
        "tensor 'count': expected integers from 0 to 2^53, got -1"},
       {MinMax{}, put("count", 1, 2.5),
        "tensor 'count': expected integers from 0 to 2^53, got 2.5"},
       {MinMax{}, put("count", 0, 2 * two53),
        "tensor 'count': expected integers from 0 to 2^53, got 1.8014398509481984e+16"},
       {MinMax{}, put("count", 0, two53),
        "tensor 'count': expected 2^53 values at most, got 9007199254740996"},
       {MinMax{}, put("count", 0, not_a_number),
        "tensor 'count': expected finite values, got nan"},
       {MinMax{}, put("max", 0, infinity), "tensor 'max': expected finite values, got inf"}});
}

TEST_CASE("observer: numbers that no data leave are refused") {
  const std::string bins = "the outermost bins do not hold min ";
  check_damage(
      {{MinMax{}, put("max", 0, -4), "channel 0: min -3 is above max -4"},
       {MinMax{}, put("count", 1, 0), "channel 1: no values, but max is 7"},
       {MovingAverage{}, put("average_min", 0, -5),
        "channel 0: averages -5 and 2 do not lie within -3 and 2"},
       {MovingAverage{}, put("average_max", 1, -1),
        "channel 1: averages 0 and -1 do not lie within 0 and 7"},
       {MovingAverage{}, put("batches", 1, 0),
        "channel 1: 3 values cannot come from 0 batches"},
       {MovingAverage{}, put("batches", 1, 9),
        "channel 1: 3 values cannot come from 9 batches"},
       {ClipStd{}, put("squares", 0, -1), "channel 0: mean 0 and squares -1 are out of range"},
       {ClipStd{}, put("mean", 1, 1e200),
        "channel 1: mean 1e+200 and squares 26 are out of range"},
       {Kl{.bins = 16}, put("negative", 3, -2),
        "tensor 'negative': expected integers from 0 to 2^53, got -2"},
       {Kl{.bins = 16}, put("negative", 3, 9), "channel 0: 3 values, but 12 of them in bins"},
       {Kl{.bins = 16}, put("negative", 12, 0), "channel 0: " + bins + "-3 and max 2"},
       {Kl{.bins = 16}, put("max", 0, 3.5), "channel 0: " + bins + "-3 and max 3.5"},
       {Kl{.bins = 16}, put("min", 1, 1), "channel 1: 1 zeros do not lie within 1 and 7"},
       {Mix{}, put("min", 0, -1e9), "channel 0: " + bins + "-1000000000 and max 2"}});
}
