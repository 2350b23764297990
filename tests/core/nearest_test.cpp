#include "qtape/core/nearest.h"

#include <doctest/doctest.h>

#include <vector>

using namespace qtape;

TEST_CASE("nearest: letters to change, insert or leave out") {
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("fc1.weight", "fc1.weight") == 0);
}

TEST_CASE("nearest: hints tell the two that are nearest, the nearest first") {
  const std::vector<std::string> names = {"fc2.bias", "fc1.bias", "fc1.weight", "conv"};
  CHECK(nearest("fc1.weigth", names) == "fc1.weight");
  CHECK(nearest_hint("fc1.bia", names) == "; the nearest are 'fc1.bias', 'fc2.bias'");
  CHECK(nearest_hint("x", {names.data(), 1}) == "; the nearest is 'fc2.bias'");
  CHECK(nearest_hint("x", {}).empty());
}

TEST_CASE("nearest: names of a million letters take no time") {
  const std::string given(1'000'000, 'a');
  const std::vector<std::string> names = {std::string(1'000'000, 'b'), given};
  CHECK(nearest(given, names) == given);
}
