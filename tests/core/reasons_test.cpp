#include "qtape/core/reasons.h"

#include <doctest/doctest.h>

#include <string>

using namespace qtape;

TEST_CASE("reasons: places are grouped by reason, in the order in which these came") {
  Reasons reasons;
  CHECK(reasons.empty());
  CHECK(reasons.text().empty());
  reasons.add("a", "one");
  CHECK(reasons.text() == "a: one");
  reasons.add("b", "two");
  reasons.add("c", "one");
  CHECK(reasons.size() == 3);
  CHECK(reasons.text() == "a, c: one; b: two");
}

TEST_CASE("reasons: of many places the first are named, and the others are counted") {
  Reasons reasons;
  for (int i = 0; i < 11; ++i) reasons.add(std::to_string(i), "wrong");
  CHECK(reasons.text() == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10: wrong");
  reasons.add("11", "wrong");
  CHECK(reasons.text() == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ... and 2 others: wrong");
}
