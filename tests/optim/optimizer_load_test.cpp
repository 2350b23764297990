// Saving and loading an optimizer: training continues with equal bits, or the difference is
// reported.
#include <doctest/doctest.h>

#include <functional>

#include "qtape/optim/optimizer.h"
#include "qtape/tests/optim/parameter_sets.h"
#include "qtape/tests/support/errors.h"

using namespace qtape;
using namespace qtape::test;

namespace {

Parameters some_parameters() {
  return make_parameters(
      {{"fc1.weight", f32({3, 4})}, {"fc1.bias", f64({3})}, {"state.scale", f32({3})}});
}

const std::vector<ParameterGroup> groups = {
    {.pattern = "*.bias", .learning_rate_scale = 0.5, .weight_decay = 0}};

std::string load_error(const std::function<void(Section&)>& change) {
  Parameters parameters = some_parameters();
  Optimizer optimizer(parameters, Adam{}, groups);
  train(parameters, optimizer, 0, 2);
  const Section before = optimizer.save();
  Optimizer other(parameters, Adam{}, groups);
  other.step(0.5);
  Section section = other.save();
  change(section);
  const std::string text = error_text<FormatError>([&] { optimizer.load(section); });
  CHECK((text == "no error" || optimizer.save() == before));
  return text;
}

}  // namespace

TEST_CASE("optimizer: a resumed run gives the bits of one without a break") {
  const std::vector<Rule> rules = {Sgd{}, Sgd{.momentum = 0.9, .nesterov = true},
                                   Adam{.weight_decay = 0.1}, AdamW{},
                                   RmsProp{.momentum = 0.5}};
  for (const Rule& rule : rules) {
    CAPTURE(rule.index());
    Parameters whole = some_parameters();
    Optimizer through(whole, rule, groups);
    train(whole, through, 0, 9);

    Parameters parameters = some_parameters();
    Optimizer first(parameters, rule, groups);
    train(parameters, first, 0, 4);
    Optimizer second(parameters, rule, groups);
    second.load(first.save());
    CHECK(second.steps() == 4);
    CHECK((second.save() == first.save()));
    train(parameters, second, 4, 9);
    CHECK(parameters.sha256() == whole.sha256());
    CHECK((second.save() == through.save()));
  }
}

TEST_CASE("optimizer: what save writes") {
  Parameters parameters = some_parameters();
  Optimizer optimizer(parameters, Adam{},
                      {{.pattern = "*.weight", .frozen = true},
                       {.pattern = "*.bias", .learning_rate_scale = 0.5, .weight_decay = 0}});
  optimizer.step(0.1);
  const Section section = optimizer.save();
  const std::map<std::string, Section::Setting> expected = {
      {"beta1", 0.9},
      {"beta2", 0.999},
      {"epsilon", 1e-8},
      {"weight_decay", 0.0},
      {"steps", int64_t{1}},
      {"groups", std::string("*.weight: learning_rate_scale 1, frozen; "
                             "*.bias: learning_rate_scale 0.5, weight_decay 0")}};
  CHECK(section.kind == "Adam");
  CHECK((section.settings == expected));
  CHECK(section.tensors.size() == 2);
  CHECK((section.tensors.at("first/fc1.bias").type == f64({3})));
  CHECK((section.tensors.at("second/fc1.bias").type == f64({3})));
}

TEST_CASE("optimizer: a section of another optimizer is refused and changes nothing") {
  CHECK(load_error([](Section&) {}) == "no error");
  CHECK(load_error([](Section& s) { s.settings["weight_decay"] = int64_t{0}; }) == "no error");
  CHECK(load_error([](Section& s) { s.kind = "Sgd"; }) ==
        "Optimizer: kind: expected \"Adam\", got \"Sgd\"");
  CHECK(load_error([](Section& s) { s.settings["beta1"] = 0.8; }) ==
        "Optimizer: setting 'beta1': expected 0.9, got 0.8");
  CHECK(load_error([](Section& s) { s.settings.erase("epsilon"); }) ==
        "Optimizer: setting 'epsilon': expected 1e-08, got nothing");
  CHECK(load_error([](Section& s) { s.settings["gamma"] = true; }) ==
        "Optimizer: setting 'gamma': expected nothing, got true");
  CHECK(load_error([](Section& s) { s.settings["groups"] = std::string("*: frozen"); }) ==
        "Optimizer: setting 'groups': expected \"*.bias: learning_rate_scale 0.5, "
        "weight_decay 0\", got \"*: frozen\"");
  CHECK(load_error([](Section& s) { s.settings["steps"] = 1.5; }) ==
        "Optimizer: setting 'steps': expected an integer, got 1.5");
  CHECK(load_error([](Section& s) { s.settings.erase("steps"); }) ==
        "Optimizer: setting 'steps': expected an integer, got nothing");
  CHECK(load_error([](Section& s) { s.settings["steps"] = int64_t{-1}; }) ==
        "Optimizer: setting 'steps': expected 0 to 2^62, got -1");
  CHECK(load_error([](Section& s) { s.tensors.erase("first/fc1.bias"); }) ==
        "Optimizer: tensor 'first/fc1.bias': expected f64[3], got nothing");
  CHECK(load_error([](Section& s) {
          s.tensors["third/fc1.bias"] = Tensor{f32({2}), {}};
        }) == "Optimizer: tensor 'third/fc1.bias': expected nothing, got f32[2]");
  CHECK(load_error([](Section& s) { s.tensors["first/fc1.bias"].type = f32({3}); }) ==
        "Optimizer: tensor 'first/fc1.bias': expected f64[3], got f32[3]");
  CHECK(load_error([](Section& s) {
          s.tensors["second/fc1.weight"].type = f32({4, 3});
        }) == "Optimizer: tensor 'second/fc1.weight': expected f32[3, 4], got f32[4, 3]");
  CHECK(load_error([](Section& s) { s.tensors["second/fc1.weight"].data.resize(7); }) ==
        "Optimizer: tensor 'second/fc1.weight': expected 48 bytes, got 7");
}
