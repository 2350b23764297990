#include <doctest/doctest.h>

#include "qtape/tests/support/grad_case.h"

TEST_CASE("gradients: every case of the table agrees with central differences") {
  for (const auto& grad_case : qtape::test::grad_cases())
    qtape::test::check_grad_case(grad_case);
}
