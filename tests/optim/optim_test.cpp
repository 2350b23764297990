// Update rules against a textbook reference and golden bits; parameter groups; rejected
// settings.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "qtape/optim/optimizer.h"
#include "qtape/tests/optim/parameter_sets.h"
#include "qtape/tests/support/errors.h"

using namespace qtape;
using namespace qtape::test;

namespace {

/// One element as in the papers, in double, with libm.
struct Textbook {
  double p = 0, m = 0, v = 0;

  void update(const Sgd& rule, double dp, double rate, int) {
    const double g = dp + rule.weight_decay * p;
    m = rule.momentum * m + g;
    p -= rate * (rule.nesterov ? g + rule.momentum * m : m);
  }
  void update(const RmsProp& rule, double dp, double rate, int) {
    const double g = dp + rule.weight_decay * p;
    v = rule.alpha * v + (1 - rule.alpha) * g * g;
    m = rule.momentum * m + g / (std::sqrt(v) + rule.epsilon);
    p -= rate * m;
  }
  void update(const Adam& rule, double dp, double rate, int t) {
    const double g = dp + rule.weight_decay * p;
    m = rule.beta1 * m + (1 - rule.beta1) * g;
    v = rule.beta2 * v + (1 - rule.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(rule.beta1, t));
    const double v_hat = v / (1 - std::pow(rule.beta2, t));
    p -= rate * m_hat / (std::sqrt(v_hat) + rule.epsilon);
  }
  void update(const AdamW& rule, double dp, double rate, int t) {
    p -= rate * rule.weight_decay * p;
    update(Adam{rule.beta1, rule.beta2, rule.epsilon, 0}, dp, rate, t);
  }
};

struct Golden {
  Rule rule;
  float single[2];
  double twice[2];
};

/// Two elements after five steps, computed independently of the library with each operation
/// rounded.
const std::vector<Golden> goldens = {
    {Sgd{}, {0x1.eccccep-1f, -0x1.acccccp-1f}, {0x1.ecccccccccccdp-1, -0x1.acccccccccccdp-1}},
    {Sgd{.momentum = 0.9, .weight_decay = 0.01},
     {0x1.a170a8p-1f, -0x1.08087p+0f},
     {0x1.a170a86baec3ap-1, -0x1.080870202cc4ap+0}},
    {Sgd{.momentum = 0.9, .nesterov = true},
     {0x1.9d879cp-1f, -0x1.19bf52p+0f},
     {0x1.9d879c4113c68p-1, -0x1.19bf52fc2656bp+0}},
    {Adam{}, {0x1.911948p-1f, -0x1.09b152p+0f}, {0x1.91194948c5f72p-1, -0x1.09b151af388e2p+0}},
    {Adam{.weight_decay = 0.01},
     {0x1.8c4412p-1f, -0x1.0821a2p+0f},
     {0x1.8c441208a20bap-1, -0x1.0821a0730680cp+0}},
    {AdamW{}, {0x1.8ed28ap-1f, -0x1.088c44p+0f}, {0x1.8ed28aded663ap-1, -0x1.088c452af944fp+0}},
    {RmsProp{},
     {0x1.020974p-3f, -0x1.002456p+1f},
     {0x1.0209850ceeab8p-3, -0x1.002454513192cp+1}},
    {RmsProp{.momentum = 0.9, .weight_decay = 0.01},
     {-0x1.6ed51cp+1f, -0x1.3ba502p+2f},
     {-0x1.6ed51caae366p+1, -0x1.3ba502ddc4381p+2}}};

std::string argument_error(const Rule& rule, std::vector<ParameterGroup> groups = {},
                           int threads = 1) {
  Parameters parameters =
      make_parameters({{"fc1.weight", f32({2})}, {"state.scale", f32({1})}});
  return error_text<ArgumentError>(
      [&] { Optimizer(parameters, rule, std::move(groups), threads); });
}

}  // namespace

TEST_CASE("optimizer: every rule follows its textbook for 20 steps") {
  for (const Golden& golden : goldens) {
    Parameters parameters =
        make_parameters({{"a", f32({5, 7})}, {"b", f64({19})}, {"state.s", f32({3})}});
    Optimizer optimizer(parameters, golden.rule, {}, 1);
    std::vector<std::vector<Textbook>> expected;
    for (const ParameterEntry& entry : parameters.entries()) {
      auto& elements = expected.emplace_back(size_t(entry.elements()));
      for (size_t i = 0; i < elements.size(); ++i) elements[i].p = element(entry, i);
    }
    for (int step = 0; step < 20; ++step) {
      train(parameters, optimizer, step, step + 1);
      for (size_t e = 0; e < expected.size(); ++e) {
        const ParameterEntry& entry = parameters.entries()[e];
        for (size_t i = 0; i < expected[e].size(); ++i) {
          const auto update = [&](const auto& rule) {
            expected[e][i].update(rule, gradient_at(entry, i), 0.05, step + 1);
          };
          if (entry.trainable()) std::visit(update, golden.rule);
          const double ulp = entry.type.dtype == DType::F64 ? 0x1p-52 : 0x1p-23;
          const double p = expected[e][i].p;
          INFO("golden.rule.index() ", golden.rule.index(), ", step ", step, ", entry.name ",
               entry.name, ", i ", i);
          CHECK(std::fabs(element(entry, i) - p) <= 16 * ulp * std::max(1.0, std::fabs(p)));
        }
      }
    }
    CHECK(optimizer.steps() == 20);
  }
}

TEST_CASE("optimizer: golden bits after five steps") {
  for (const Golden& golden : goldens) {
    CAPTURE(golden.rule.index());
    Parameters parameters = make_parameters({{"a", f32({2})}, {"b", f64({2})}});
    for (const ParameterEntry& entry : parameters.entries()) {
      const bool twice = entry.type.dtype == DType::F64;
      for (size_t i = 0; i < 2; ++i) {
        const double start = i == 0 ? 1.0 : -0.75;
        if (twice) entry.values<double>()[i] = start;
        if (!twice) entry.values<float>()[i] = float(start);
      }
    }
    Optimizer optimizer(parameters, golden.rule);
    for (int t = 1; t <= 5; ++t) {
      for (const ParameterEntry& entry : parameters.entries()) {
        for (int i = 0; i < 2; ++i) {
          set_gradient(entry, size_t(i), ((t * 7 + i * 3) % 11 - 5) / 8.0);
        }
      }
      optimizer.step(0.1);
    }
    for (size_t i = 0; i < 2; ++i) {
      CHECK(parameters.at("a").values<float>()[i] == golden.single[i]);
      CHECK(parameters.at("b").values<double>()[i] == golden.twice[i]);
    }
  }
}

TEST_CASE("optimizer: equal bits on every instruction set and at any number of threads") {
  const Types types = {{"a", f32({300, 257})}, {"b", f32({77})}, {"c", f64({101, 200})}};
  for (const Golden& golden : goldens) {
    std::string sha256;
    Section section;
    for (const std::string_view name : enum_names<Isa>) {
      const IsaLimit limit(name);
      for (const int threads : {1, 2, 4}) {
        Parameters parameters = make_parameters(types);
        Optimizer optimizer(parameters, golden.rule, {}, threads);
        train(parameters, optimizer, 0, 3);
        if (sha256.empty()) {
          sha256 = parameters.sha256();
          section = optimizer.save();
        }
        INFO("golden.rule.index() ", golden.rule.index(), ", name ", name, ", threads ",
             threads);
        CHECK(parameters.sha256() == sha256);
        CHECK((optimizer.save() == section));
      }
    }
  }
}

TEST_CASE("optimizer: the first matching group sets scale and decay, frozen keeps no moments") {
  Parameters parameters = make_parameters({{"fc1.weight", f64({1})},
                                           {"fc1.bias", f64({1})},
                                           {"fc2.weight", f64({1})},
                                           {"fc2.bias", f64({1})},
                                           {"state.fc1", f64({1})}});
  for (const ParameterEntry& entry : parameters.entries()) {
    entry.values<double>()[0] = 1;
    if (entry.trainable()) set_gradient(entry, 0, 1);
  }
  Optimizer optimizer(parameters, Sgd{.momentum = 0.5, .weight_decay = 1},
                      {{.pattern = "fc2.w*", .frozen = true},
                       {.pattern = "*.bias", .weight_decay = 0},
                       {.pattern = "fc1.*", .learning_rate_scale = 0.5}});
  optimizer.step(0.25);
  CHECK(parameters.at("fc2.weight").values<double>()[0] == 1);
  CHECK(parameters.at("fc1.bias").values<double>()[0] == 0.75);
  CHECK(parameters.at("fc2.bias").values<double>()[0] == 0.75);
  CHECK(parameters.at("fc1.weight").values<double>()[0] == 0.75);
  CHECK(parameters.at("state.fc1").values<double>()[0] == 1);
  CHECK(optimizer.save().tensors.size() == 3);
  CHECK(!optimizer.save().tensors.contains("first/fc2.weight"));
}

TEST_CASE("optimizer: patterns match whole names") {
  struct Case {
    std::string pattern;
    std::vector<std::string> matched;
  };
  const std::vector<std::string> names = {"a", "ab", "abc", "b.a", "b.ab.c"};
  for (const Case& each :
       {Case{"*", names}, Case{"a", {"a"}}, Case{"a*", {"a", "ab", "abc"}}, Case{"??", {"ab"}},
        Case{"?*b*", {"ab", "abc", "b.ab.c"}}, Case{"b.*", {"b.a", "b.ab.c"}},
        Case{"*.a", {"b.a"}}, Case{"*a*c", {"abc", "b.ab.c"}}, Case{"**b", {"ab"}},
        Case{"b.*b*.?", {"b.ab.c"}}}) {
    Types types;
    for (const std::string& name : names) types.push_back({name, f32({1})});
    Parameters parameters = make_parameters(types);
    const Optimizer optimizer(parameters, RmsProp{},
                              {{.pattern = each.pattern, .frozen = true}});
    const Section section = optimizer.save();
    for (const std::string& name : names) {
      INFO("each.pattern ", each.pattern, ", name ", name);
      CHECK(section.tensors.contains("second/" + name) ==
            (std::ranges::count(each.matched, name) == 0));
    }
  }
}

TEST_CASE("optimizer: settings out of range") {
  CHECK(argument_error(Adam{}) == "no error");
  CHECK(argument_error(Adam{.beta1 = 1}) == "Adam: beta1 must be in [0, 1), got 1");
  CHECK(argument_error(AdamW{.beta2 = -0.5}) == "AdamW: beta2 must be in [0, 1), got -0.5");
  CHECK(argument_error(Adam{.epsilon = 0}) == "Adam: epsilon must be in [1e-30, 1], got 0");
  CHECK(argument_error(AdamW{.weight_decay = infinity}) ==
        "AdamW: weight_decay must be finite and >= 0, got inf");
  CHECK(argument_error(RmsProp{.alpha = not_a_number}) ==
        "RmsProp: alpha must be in [0, 1), got nan");
  CHECK(argument_error(RmsProp{.momentum = 1.5}) ==
        "RmsProp: momentum must be in [0, 1), got 1.5");
  CHECK(argument_error(Sgd{.weight_decay = -1}) ==
        "Sgd: weight_decay must be finite and >= 0, got -1");
  CHECK(argument_error(Sgd{.nesterov = true}) ==
        "Sgd: nesterov needs momentum in (0, 1), got 0");
  CHECK(argument_error(Sgd{}, {}, 0) == "Optimizer: threads must be >= 1, got 0");
  CHECK(argument_error(Sgd{}, {{.pattern = "fc1.*", .learning_rate_scale = -1}}) ==
        "ParameterGroup 'fc1.*': learning_rate_scale must be finite and >= 0, got -1");
  CHECK(argument_error(Sgd{}, {{.pattern = "fc1.*", .weight_decay = -2}}) ==
        "ParameterGroup 'fc1.*': weight_decay must be finite and >= 0, got -2");
  for (const char* pattern : {"fc2.*", "state*", "", "fc1.weigh"}) {
    CHECK(argument_error(Sgd{}, {{.pattern = pattern}}) ==
          fmt::format("ParameterGroup: pattern '{}' matches no parameter", pattern));
  }
  CHECK(argument_error(Sgd{}, {{.pattern = "*"}, {.pattern = "fc1.*", .frozen = true}}) ==
        "ParameterGroup: pattern 'fc1.*' matches only parameters of preceding groups");
}

TEST_CASE("optimizer: a refused learning rate changes nothing") {
  Parameters parameters = make_parameters({{"a", f32({3})}});
  fill_gradients(parameters, 0);
  const std::string before = parameters.sha256();
  Optimizer optimizer(parameters, Adam{});
  for (const double rate : {-0.5, infinity, not_a_number}) {
    CHECK(error_text<ArgumentError>([&] { optimizer.step(rate); }) ==
          fmt::format("Optimizer: learning rate must be finite and >= 0, got {}", rate));
  }
  CHECK(parameters.sha256() == before);
  CHECK(optimizer.steps() == 0);
  optimizer.step(0);
  CHECK(parameters.sha256() == before);
  CHECK(optimizer.steps() == 1);
}

TEST_CASE("optimizer: a gradient that is not finite spoils its own element only") {
  for (const Golden& golden : goldens) {
    Parameters parameters = make_parameters({{"a", f32({40})}});
    Optimizer optimizer(parameters, golden.rule, {}, 1);
    fill_gradients(parameters, 0);
    set_gradient(parameters.at("a"), 17, not_a_number);
    optimizer.step(0.1);
    for (size_t i = 0; i < 40; ++i) {
      CHECK(std::isfinite(element(parameters.at("a"), i)) == (i != 17));
    }
  }
}

TEST_CASE("optimizer: moments go from the smallest normal number to 0") {
  Parameters parameters = make_parameters({{"a", f32({1})}, {"b", f64({1})}});
  Optimizer optimizer(parameters, Sgd{.momentum = 0.5});
  set_gradient(parameters.at("a"), 0, 0x1p-125);
  set_gradient(parameters.at("b"), 0, -0x1p-1021);
  optimizer.step(0);
  parameters.zero_gradients();
  const auto moment = [&]<class T>(const std::string& name, T) {
    const Section section = optimizer.save();
    return *reinterpret_cast<const T*>(section.tensors.at("first/" + name).data.data());
  };
  optimizer.step(0);
  CHECK(moment("a", 0.0f) == 0x1p-126f);
  CHECK(moment("b", 0.0) == -0x1p-1022);
  optimizer.step(0);
  CHECK(moment("a", 0.0f) == 0);
  CHECK(moment("b", 0.0) == 0);
}
