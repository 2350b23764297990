// Reports on quantizers, and the sensitivity of a score to them.
#include "qtape/calibrate/report.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "qtape/calibrate/sensitivity.h"
#include "qtape/engine/quantizers.h"
#include "qtape/tests/support/errors.h"

using namespace qtape;
using test::error_text;

namespace {

struct SmallNet {
  Graph graph;
  NodeId first, second;
  Parameters parameters;

  static Graph build() {
    Graph graph;
    const NodeId x = graph.add(Input{.shape = {2, 4}}, {}, "x");
    const NodeId a = add_quantizer(
        graph, x,
        FakeQuantize{.bits = 2, .axis = 1, .range = CodeRange::Full, .scale_mode = Fixed{}},
        "a");
    const NodeId b =
        add_quantizer(graph, a, FakeQuantize{.bits = 16, .scale_mode = Fixed{}}, "b");
    graph.set_outputs({b});
    return graph;
  }
  SmallNet()
      : graph(build()),
        first(graph.at("a.quantized")),
        second(graph.at("b.quantized")),
        parameters(graph, 1) {
    set_qparams(graph, parameters, first,
                std::vector<QParams<double>>{{1, 0}, {1, 0}, {2, 0}, {1, 0}});
    set_qparams(graph, parameters, second, 0.5);
  }
};

/// Two batches of fixed numbers.
bool numbers(Tape& tape, int64_t index) {
  const std::vector<float> batches[] = {{1, 0.25f, 3, NAN, -5, 0, 4, 1},
                                        {0, 0, 1, 1, 0, 0.25f, 1, 1}};
  if (index >= 2) return false;
  std::ranges::copy(batches[index], tape.input<float>("x").begin());
  return true;
}

}  // namespace

TEST_CASE("report: noise, saturation, histogram and dead channels of known numbers") {
  SmallNet m;
  Tape tape(m.graph, m.parameters, {.threads = 1});
  const auto reports = report_quantizers(tape, numbers);
  REQUIRE(reports.size() == 2);
  const QuantizerReport& r = reports[0];
  CHECK(r.label == "a.quantized");
  CHECK(r.op == "FakeQuantize");
  CHECK(r.channels == 4);
  CHECK(r.smallest_scale == 1);
  CHECK(r.largest_scale == 2);
  CHECK(r.elements == 15);
  CHECK(r.non_finite == 1);
  // Codes -2..1 by column: 1 -5 0 0 | .25 0 0 .25 | 3/2 4/2 1/2 1/2 | - 1 1 1.
  CHECK(r.histogram == std::vector<int64_t>{1, 0, 8, 6});
  // -5 -> -2, 3 -> 2, 4 -> 2: 3/2 rounds to 2 and is clamped to 1, as is 4/2.
  CHECK(r.saturated == doctest::Approx(3.0 / 15));
  const double noise = (9 + 2 * 0.0625 + 1 + 4 + 2 * 1) / 15;
  CHECK(r.noise == doctest::Approx(noise));
  const double signal = (1 + 25 + 2 * 0.0625 + 9 + 16 + 2 + 3) / 15;
  CHECK(r.sqnr == doctest::Approx(10 * std::log10(signal / noise)));
  CHECK(r.dead_channels == 2);
  CHECK(reports[1].histogram.size() == 256);
  CHECK(std::isinf(reports[1].sqnr));
  CHECK(reports[1].non_finite == 1);
}

TEST_CASE("report: a channel of one element is dead only with the code of 0") {
  Graph graph;
  const NodeId w = graph.add(Parameter{.shape = {3, 1}}, {}, "w");
  graph.set_outputs({add_quantizer(
      graph, w, FakeQuantize{.bits = 4, .axis = 0, .scale_mode = PerBatch{}}, "w")});
  Parameters parameters(graph, 1);
  parameters.set("w", Tensor::of<float>({3, 1}, std::vector<float>{0.5f, 0.0f, -2.0f}));
  Tape tape(graph, parameters, {});
  const auto once = [](Tape&, int64_t index) { return index < 1; };
  CHECK(report_quantizers(tape, once).at(0).dead_channels == 1);
  const auto three = [](Tape&, int64_t index) { return index < 3; };
  CHECK(report_quantizers(tape, three).at(0).dead_channels == 1);
}

TEST_CASE("report: table and JSON hold the numbers; switched-off quantizers say so") {
  SmallNet m;
  Tape tape(m.graph, m.parameters, {.threads = 1});
  tape.status(m.first).enabled = false;
  const auto reports = report_quantizers(tape, numbers);
  CHECK(reports[0].elements == 0);
  CHECK(to_table(reports).find("off") != std::string::npos);
  const auto json = nlohmann::json::parse(to_json(reports));
  CHECK(json[1]["label"] == "b.quantized");
  CHECK(json[1]["elements"] == 15);
  CHECK(json[1]["histogram"].size() == 256);
  CHECK(error_text<ArgumentError>([&] {
          (void)report_quantizers(tape, [](Tape&, int64_t) { return false; });
        }) == "a report needs at least one batch, got none");
}

TEST_CASE("sensitivity: scores each quantizer on and off, and puts the switches back") {
  SmallNet m;
  Tape tape(m.graph, m.parameters, {.threads = 1});
  tape.status(m.second).enabled = false;
  // 1 for the first quantizer, 10 for the second.
  const auto score = [&](Tape& t) {
    return (t.status(m.first).enabled ? 1.0 : 0.0) + (t.status(m.second).enabled ? 10.0 : 0.0);
  };
  int64_t heard = 0;
  const Sensitivity s = sensitivity(tape, score, [&](int64_t done, int64_t all) {
    CHECK(done == ++heard);
    CHECK(all == 6);
  });
  CHECK(s.all_on == 11);
  CHECK(s.all_off == 0);
  REQUIRE(s.nodes.size() == 2);
  CHECK(s.nodes[0].only_on == 1);
  CHECK(s.nodes[0].only_off == 10);
  CHECK(s.nodes[1].only_on == 10);
  CHECK(s.nodes[1].only_off == 1);
  CHECK(tape.status(m.first).enabled);
  CHECK(!tape.status(m.second).enabled);
}
