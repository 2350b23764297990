#include "qtape/engine/views.h"

#include <doctest/doctest.h>

#include <xtensor/xmath.hpp>

#include "qtape/tests/support/errors.h"
#include "qtape/tests/support/models.h"

using namespace qtape;

TEST_CASE("views: inputs are written and outputs read as xtensor expressions") {
  const test::Classifier c = test::make_classifier();
  Parameters parameters(c.graph, 1);
  Tape tape(c.graph, parameters, {});
  auto x = input_view<float>(tape, "x");
  CHECK(x.dimension() == 2);
  CHECK(x.shape(1) == 40);
  x(3, 7) = 0.25f;
  CHECK(tape.input<float>(c.x)[3 * 40 + 7] == 0.25f);
  tape.forward(mode::float_eval);
  const auto logits = view<float>(tape, c.logits);
  CHECK(logits(3, 2) == tape.value<float>(c.logits)[3 * 10 + 2]);
  CHECK(view<float>(tape, "fc1.weight").shape(0) == 70);
  CHECK(test::error_text<GraphError>([&] {
          (void)view<double>(tape, c.logits);
        }).ends_with("accessed as f64"));
}
