// Norm of all gradients, and clipping by norm and by value.
#include "qtape/optim/clip.h"

#include <doctest/doctest.h>

#include <cmath>
#include <optional>

#include "qtape/tests/optim/parameter_sets.h"
#include "qtape/tests/support/errors.h"

using namespace qtape;
using namespace qtape::test;

namespace {

/// Gradients 3 and 4 in two dtypes, with norm 5, and a state.
Parameters three_four_five() {
  Parameters parameters =
      make_parameters({{"a", f32({2})}, {"state.s", f32({9})}, {"b", f64({3})}});
  set_gradient(parameters.at("a"), 1, -3);
  set_gradient(parameters.at("b"), 2, 4);
  return parameters;
}

}  // namespace

TEST_CASE("clip: the norm is over all gradients and no state") {
  const Parameters parameters = three_four_five();
  CHECK(gradient_norm(parameters) == 5);
  CHECK(gradient_norm(make_parameters({{"state.s", f32({2})}}), 1) == 0);
  CHECK(gradient_norm(make_parameters({{"a", f32({0, 2})}}), 1) == 0);
}

TEST_CASE("clip: the norm of blocks, lanes and remainders agrees with a plain sum") {
  for (const int64_t n : {1, 15, 16, 17, 4095, 4096, 4097, 12345}) {
    CAPTURE(n);
    const Parameters parameters = make_parameters({{"a", f32({n})}, {"b", f64({n})}});
    fill_gradients(parameters, 0);
    double sum = 0;
    for (const ParameterEntry& entry : parameters.entries()) {
      for (size_t i = 0; i < size_t(n); ++i) sum += std::pow(gradient_at(entry, i), 2);
    }
    CHECK(gradient_norm(parameters, 1) == doctest::Approx(std::sqrt(sum)).epsilon(1e-13));
  }
}

TEST_CASE("clip: equal bits on every instruction set and at any number of threads") {
  std::optional<double> norm;
  std::string sha256;
  for (const std::string_view name : enum_names<Isa>) {
    const IsaLimit limit(name);
    for (const int threads : {1, 2, 4}) {
      // More than 512 blocks, so that more than one region is summed.
      Parameters parameters = make_parameters({{"a", f32({1500, 1001})},
                                               {"b", f64({70001})},
                                               {"c", f32({5})},
                                               {"d", f64({600000})}});
      fill_gradients(parameters, 0);
      const double found = clip_by_norm(parameters, 0.3, threads);
      clip_by_value(parameters, 1e-4, threads);
      for (const ParameterEntry& entry : parameters.entries()) {
        std::copy_n(entry.gradient, entry.type.bytes(), entry.value);
      }
      if (!norm) sha256 = parameters.sha256();
      norm = norm.value_or(found);
      INFO("name ", name, ", threads ", threads);
      CHECK(found == *norm);
      CHECK(parameters.sha256() == sha256);
    }
  }
}

TEST_CASE("clip: gradients above the norm are scaled to it, others stay") {
  Parameters parameters = three_four_five();
  CHECK(clip_by_norm(parameters, 5) == 5);
  CHECK(gradient_at(parameters.at("a"), 1) == -3);
  CHECK(clip_by_norm(parameters, 2.5) == 5);
  CHECK(gradient_at(parameters.at("a"), 1) == -1.5);
  CHECK(gradient_at(parameters.at("a"), 0) == 0);
  CHECK(gradient_at(parameters.at("b"), 2) == 2);
  CHECK(gradient_norm(parameters) == 2.5);
}

TEST_CASE("clip: a factor that f32 cannot hold still scales f32 gradients") {
  Parameters parameters = make_parameters({{"a", f32({1})}});
  set_gradient(parameters.at("a"), 0, 0x1p120);
  CHECK(clip_by_norm(parameters, 0x1p-40) == 0x1p120);
  CHECK(gradient_at(parameters.at("a"), 0) == 0x1p-40);
}

TEST_CASE("clip: gradients that are not finite show in the norm and are not scaled") {
  Parameters parameters = three_four_five();
  set_gradient(parameters.at("b"), 0, -infinity);
  CHECK(clip_by_norm(parameters, 1) == infinity);
  CHECK(gradient_at(parameters.at("b"), 2) == 4);
  set_gradient(parameters.at("a"), 0, not_a_number);
  CHECK(std::isnan(clip_by_norm(parameters, 1)));
  CHECK(gradient_at(parameters.at("b"), 2) == 4);
}

TEST_CASE("clip: gradients of frozen parameters neither count nor change") {
  const std::vector<ParameterGroup> groups = {{.pattern = "b", .frozen = true}};
  Parameters parameters = three_four_five();
  CHECK(gradient_norm(parameters, 1, groups) == 3);
  CHECK(clip_by_norm(parameters, 1.5, 1, groups) == 3);
  CHECK(gradient_norm(parameters, 1, groups) == 1.5);
  CHECK(gradient_norm(parameters, 1) == std::sqrt(1.5 * 1.5 + 16));
  set_gradient(parameters.at("b"), 2, std::nan(""));
  CHECK(gradient_norm(parameters, 1, groups) == 1.5);
  // The first group that matches decides, as for the optimizer.
  const std::vector<ParameterGroup> first = {{.pattern = "*"},
                                             {.pattern = "b", .frozen = true}};
  CHECK(std::isnan(gradient_norm(parameters, 1, first)));
}

TEST_CASE("clip: by value") {
  Parameters parameters = make_parameters({{"a", f32({6})}, {"b", f64({6})}});
  const std::vector<std::pair<double, double>> cases = {
      {-infinity, -2.5}, {-3, -2.5}, {-2.5, -2.5}, {0.125, 0.125}, {1e30, 2.5}};
  for (const ParameterEntry& entry : parameters.entries()) {
    for (size_t i = 0; i < cases.size(); ++i) set_gradient(entry, i, cases[i].first);
    set_gradient(entry, 5, not_a_number);
  }
  clip_by_value(parameters, 2.5);
  for (const ParameterEntry& entry : parameters.entries()) {
    for (size_t i = 0; i < cases.size(); ++i) CHECK(gradient_at(entry, i) == cases[i].second);
    CHECK(std::isnan(gradient_at(entry, 5)));
  }
}

TEST_CASE("clip: arguments out of range") {
  Parameters parameters = three_four_five();
  const auto error = [](auto&& body) { return error_text<ArgumentError>(body); };
  CHECK(error([&] { clip_by_norm(parameters, 0); }) ==
        "clip_by_norm: max_norm must be finite and > 0, got 0");
  CHECK(error([&] { clip_by_norm(parameters, infinity); }) ==
        "clip_by_norm: max_norm must be finite and > 0, got inf");
  CHECK(error([&] { clip_by_value(parameters, -1); }) ==
        "clip_by_value: limit must be finite and > 0, got -1");
  CHECK(error([&] { gradient_norm(parameters, 0); }) ==
        "gradient_norm: threads must be >= 1, got 0");
  CHECK(error([&] { clip_by_norm(parameters, 1, 0); }) ==
        "clip_by_norm: threads must be >= 1, got 0");
  CHECK(error([&] { clip_by_value(parameters, 1, -2); }) ==
        "clip_by_value: threads must be >= 1, got -2");
  CHECK(gradient_norm(parameters) == 5);
}
