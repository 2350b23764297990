// Learning rates at the start, in between, at the end and beyond; rejected settings; sections.
#include "qtape/optim/schedule.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "qtape/core/error.h"
#include "qtape/optim/arithmetic.h"
#include "qtape/tests/support/errors.h"

using namespace qtape;
using qtape::test::error_text;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int64_t last_step = std::numeric_limits<int64_t>::max();

struct Point {
  int64_t step;
  double rate;
};

void check_points(const Schedule& schedule, const std::vector<Point>& points) {
  for (const Point& point : points) {
    INFO("schedule.shape.index() ", schedule.shape.index(), ", point.step ", point.step);
    CHECK(std::fabs(schedule.learning_rate(point.step) - point.rate) <=
          1e-15 * std::max(1.0, std::fabs(point.rate)));
  }
}

std::string argument_error(const Schedule& schedule, int64_t step = 0) {
  return error_text<ArgumentError>([&] { (void)schedule.learning_rate(step); });
}

std::string section_error(void (*change)(Section&)) {
  Section section = to_section({.base = 0.5, .shape = Cosine{.total = 9}});
  change(section);
  return error_text<FormatError>([&] { (void)schedule_from(section); });
}

}  // namespace

TEST_CASE("math: cos_pi is within 2^-52 of the cosine and exact where that is rational") {
  CHECK(math::cos_pi(0) == 1);
  CHECK(math::cos_pi(0.5) == 0);
  CHECK(math::cos_pi(1) == -1);
  double largest = 0;
  for (int i = 0; i <= 100000; ++i) {
    const double u = i / 100000.0;
    const long double exact = std::cos(3.14159265358979323846L * static_cast<long double>(u));
    largest = std::max(largest, std::fabs(static_cast<double>(math::cos_pi(u) - exact)));
  }
  CHECK(largest <= 0x1p-52);
}

TEST_CASE("math: power") {
  CHECK(math::power(0.9, 0) == 1);
  CHECK(math::power(0.9, 1) == 0.9);
  CHECK(math::power(-3, 5) == -243);
  CHECK(math::power(0, 3) == 0);
  CHECK(math::power(0.999, last_step) == 0);
  CHECK(math::power(0.999, 1000) == doctest::Approx(std::pow(0.999, 1000)).epsilon(1e-13));
}

TEST_CASE("schedule: values") {
  check_points({.base = 0.25, .shape = ConstantRate{}},
               {{0, 0.25}, {1, 0.25}, {last_step, 0.25}});
  check_points({.base = 8, .shape = StepDecay{.every = 10, .factor = 0.5}},
               {{0, 8}, {9, 8}, {10, 4}, {19, 4}, {20, 2}, {last_step, 0}});
  check_points({.base = 2, .shape = Cosine{.total = 100}},
               {{0, 2}, {25, 1 + std::sqrt(0.5)}, {50, 1}, {100, 0}, {101, 0}, {last_step, 0}});
  check_points({.base = 2, .shape = Cosine{.total = 6, .final_fraction = 0.5}},
               {{0, 2}, {2, 1.75}, {3, 1.5}, {4, 1.25}, {6, 1}, {7, 1}});
  check_points({.base = 1, .shape = OneCycle{.total = 100}}, {{0, 0.04},
                                                              {10, 0.29516394846410077},
                                                              {29, 1},
                                                              {64, 0.500002},
                                                              {99, 4e-6},
                                                              {last_step, 4e-6}});
}

TEST_CASE("schedule: cosine ends at exactly 0 and one cycle needs no rising part") {
  CHECK(Schedule{.base = 0.3, .shape = Cosine{.total = 7}}.learning_rate(7) == 0);
  for (const int64_t total : {int64_t{1}, int64_t{2}, int64_t{5}, int64_t{10}}) {
    const Schedule schedule{.base = 1, .shape = OneCycle{.total = total, .warm_fraction = 0.1}};
    for (int64_t step = 0; step < total + 2; ++step) {
      INFO("total ", total, ", step ", step);
      CHECK(schedule.learning_rate(step) >= 4e-6);
      CHECK(schedule.learning_rate(step) <= 1);
    }
    CHECK(schedule.learning_rate(total - 1) == 0.04 / 1e4);
  }
}

TEST_CASE("schedule: a warm-up is a line to the base rate, then the shape goes on") {
  check_points({.base = 4, .shape = ConstantRate{}, .warm_up = {.steps = 4}},
               {{0, 0}, {1, 1}, {2, 2}, {4, 4}, {5, 4}});
  check_points(
      {.base = 4, .shape = ConstantRate{}, .warm_up = {.steps = 2, .start_fraction = 0.5}},
      {{0, 2}, {1, 3}, {2, 4}});
  check_points({.base = 4, .shape = Cosine{.total = 14}, .warm_up = {.steps = 4}},
               {{0, 0}, {3, 3}, {4, 4}, {9, 2}, {14, 0}});
  check_points(
      {.base = 4, .shape = StepDecay{.every = 3, .factor = 0.5}, .warm_up = {.steps = 4}},
      {{2, 2}, {3, 1.5}, {4, 2}, {6, 1}});
}

TEST_CASE("schedule: settings out of range") {
  CHECK(argument_error({}) == "no error");
  CHECK(argument_error({}, -1) == "Schedule: step must be >= 0, got -1");
  CHECK(argument_error({.base = -1}) == "Schedule: base must be finite and >= 0, got -1");
  CHECK(argument_error({.base = infinity}) ==
        "Schedule: base must be finite and >= 0, got inf");
  CHECK(argument_error({.shape = StepDecay{.every = 0}}) ==
        "StepDecay: every must be >= 1, got 0");
  CHECK(argument_error({.shape = StepDecay{.every = 1, .factor = 0}}) ==
        "StepDecay: factor must be in (0, 1], got 0");
  CHECK(argument_error({.shape = Cosine{.total = 0}}) == "Cosine: total must be >= 1, got 0");
  CHECK(argument_error({.shape = Cosine{.total = 1, .final_fraction = 2}}) ==
        "Cosine: final_fraction must be in [0, 1], got 2");
  CHECK(argument_error({.shape = Cosine{.total = 5}, .warm_up = {.steps = 5}}) ==
        "Cosine: total must be above the 5 steps of the warm-up, got 5");
  CHECK(argument_error({.shape = OneCycle{.total = -3}}) ==
        "OneCycle: total must be >= 1, got -3");
  CHECK(argument_error({.shape = OneCycle{.total = 1, .warm_fraction = -0.1}}) ==
        "OneCycle: warm_fraction must be in [0, 1], got -0.1");
  CHECK(argument_error({.shape = OneCycle{.total = 1, .initial_divisor = 0.5}}) ==
        "OneCycle: initial_divisor must be finite and >= 1, got 0.5");
  CHECK(argument_error({.shape = OneCycle{.total = 1, .final_divisor = infinity}}) ==
        "OneCycle: final_divisor must be finite and >= 1, got inf");
  CHECK(argument_error({.shape = OneCycle{.total = 9}, .warm_up = {.steps = 2}}) ==
        "OneCycle: has its own warm-up: expected 0 steps of WarmUp, got 2");
  CHECK(argument_error({.warm_up = {.steps = -2}}) == "WarmUp: steps must be >= 0, got -2");
  CHECK(argument_error({.warm_up = {.start_fraction = 1.5}}) ==
        "WarmUp: start_fraction must be in [0, 1], got 1.5");
}

TEST_CASE("schedule: a section gives the schedule back") {
  const std::vector<Schedule> schedules = {
      {},
      {.base = 0.1, .shape = StepDecay{3, 0.25}, .warm_up = {5, 0.125}},
      {.base = 0.2, .shape = Cosine{50, 0.1}, .warm_up = {7, 0}},
      {.base = 0.3, .shape = OneCycle{80, 0.4, 10, 100}}};
  for (const Schedule& schedule : schedules) {
    CAPTURE(schedule.shape.index());
    CHECK((schedule_from(to_section(schedule)) == schedule));
  }
  CHECK(to_section(schedules[2]).kind == "Cosine");
  CHECK(to_section(schedules[2]).settings.size() == 5);
}

TEST_CASE("schedule: a wrong section") {
  CHECK(section_error([](Section&) {}) == "no error");
  CHECK(section_error([](Section& s) { s.settings["base"] = int64_t{1}; }) == "no error");
  CHECK(section_error([](Section& s) { s.kind = "Linear"; }) ==
        "Schedule: unknown kind \"Linear\"; expected one of ConstantRate, StepDecay, Cosine, "
        "OneCycle");
  CHECK(section_error([](Section& s) { s.settings.erase("total"); }) ==
        "Schedule: setting 'total': expected an integer, got nothing");
  CHECK(section_error([](Section& s) { s.settings["total"] = 1.5; }) ==
        "Schedule: setting 'total': expected an integer, got 1.5");
  CHECK(section_error([](Section& s) { s.settings["base"] = std::string("x"); }) ==
        "Schedule: setting 'base': expected a number, got \"x\"");
  CHECK(section_error([](Section& s) { s.settings["every"] = int64_t{2}; }) ==
        "Schedule: setting 'every': expected nothing, got 2");
  CHECK(section_error([](Section& s) { s.settings["total"] = int64_t{0}; }) ==
        "Cosine: total must be >= 1, got 0");
  CHECK(section_error([](Section& s) {
          s.tensors["m"] = Tensor{{DType::F32, {2}}, {}};
        }) == "Schedule: tensor 'm': expected nothing, got f32[2]");
}

TEST_CASE("schedule: numbers of steps that are 0 are those of a run") {
  CHECK(std::get<Cosine>(for_run(Cosine{}, 90)).total == 90);
  CHECK(std::get<Cosine>(for_run(Cosine{.total = 7}, 90)).total == 7);
  CHECK(std::get<OneCycle>(for_run(OneCycle{}, 90)).total == 90);
  CHECK(std::get<StepDecay>(for_run(StepDecay{}, 90)).every == 30);
  CHECK(std::get<StepDecay>(for_run(StepDecay{}, 100)).every == 34);
  CHECK(std::get<StepDecay>(for_run(StepDecay{}, 2)).every == 1);
  CHECK(for_run(ConstantRate{}, 90) == Schedule::Shape(ConstantRate{}));
}
