// The floating-point settings of the caller, a rounding mode and subnormal numbers that count
// as zero, change no bit of what a public function returns.
#include <doctest/doctest.h>

#include <cfenv>
#include <functional>

#include "qtape/io/arrays/npy.h"
#include "qtape/model/feed.h"
#include "qtape/onnx/export.h"
#include "qtape/qtape.h"
#include "qtape/tests/support/folder.h"
#include "qtape/tests/support/op_run.h"
#include "qtape/tests/support/small_fit.h"
#include "qtape/tests/support/subnormals.h"

using namespace qtape;

namespace {

/// Calls `body` with a rounding mode and, where the processor has that setting, without
/// subnormal numbers. Restores the settings.
template <class Body>
auto under(int rounding, const Body& body) {
  std::fenv_t before;
  REQUIRE(std::fegetenv(&before) == 0);
  REQUIRE(std::fesetround(rounding) == 0);
  test::flush_subnormals();
  auto result = body();
  const int after = std::fegetround();
  std::fesetenv(&before);
  CHECK(after == rounding);
  return result;
}

std::string text_of(const Tensor& tensor) {
  return {reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()};
}

std::string text_of(const NamedTensors& tensors) {
  std::string text;
  for (const NamedTensor& each : tensors) text += each.name + text_of(each.tensor);
  return text;
}

std::string text_of(const Model& model) { return to_json(model.graph(), model.parameters()); }
std::string text_of(const SavedModel& model) { return to_json(model.graph, model.parameters); }

template <class T>
std::string text_of_numbers(std::span<const T> numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()};
}

std::string text_of(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& each : findings) text += each.node + each.what + each.remedy;
  return text;
}

/// Images of numbers that are no multiples of powers of two, with labels.
data::Dataset images() {
  const Random random(3, 1);
  std::vector<float> x(96 * 36);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random.uniform(i)) * 1.7f;
  std::vector<int32_t> labels(96);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int32_t>(i % 3);
  data::Dataset set;
  set.add("x", Tensor::of<float>({96, 6, 6, 1}, x));
  set.add_target("labels", Tensor::of<int32_t>({96}, labels), 3);
  return set;
}

Model network() {
  Network net;
  const Value h = relu(batch_norm(conv2d(net.input("x", {6, 6, 1}), 4, {3, 3})));
  return {linear(flatten(h), 3), loss::cross_entropy, 7};
}

/// Operands of the functions, made under the usual settings.
struct Subject {
  std::vector<float> numbers = test::random_floats(900, 5);
  std::vector<double> wide = test::random_values(900, 6);
  data::Dataset set = images();
  Model floats = network();
  Model small = quantized(network(), {}, set, 64, 1);
  IntegerProgram program = small.integers(Requantization::SingleRounding);
};

using Call = std::function<std::string(const Subject&)>;

/// Public functions that compute with floats, by name.
std::vector<std::pair<const char*, Call>> calls() {
  return {
      {"Model", [](const Subject&) { return text_of(network()); }},
      {"fit",
       [](const Subject& s) {
         Model model(s.floats.graph(), s.floats.parameters());
         FitOptions options = test::quiet(2);
         options.augmentation = {.shift = 1, .noise = 0.1};
         (void)fit(model, s.set, options);
         return text_of(model);
       }},
      {"quantized",
       [](const Subject& s) { return text_of(quantized(s.floats, {}, s.set, 64, 1)); }},
      {"quantized, learned scales",
       [](const Subject& s) {
         return text_of(
             quantized(s.floats, {.weight_bits = 4, .scales = ScaleOrigin::LSQ}, s.set, 64, 1));
       }},
      {"calibrate by the mean squared error",
       [](const Subject& s) {
         return text_of(quantized(s.floats, {.weight_bits = 3}, s.set, 64, 1));
       }},
      {"predict", [](const Subject& s) { return text_of(predict(s.small, s.set)); }},
      {"predict of a program",
       [](const Subject& s) { return text_of(predict(s.program, s.set)); }},
      {"predict_all", [](const Subject& s) { return text_of(predict_all(s.small, s.set)); }},
      {"evaluate",
       [](const Subject& s) { return fmt::format("{}", accuracy(s.small, s.set)); }},
      {"verify",
       [](const Subject& s) {
         return fmt::format("{}",
                            verify(s.small, s.set, Requantization::OnnxQdq, 1).mismatches());
       }},
      {"reestimate_norms",
       [](const Subject& s) {
         Model model(s.floats.graph(), s.floats.parameters());
         (void)reestimate_norms(model, s.set, 2, 32, 1, 1);
         return text_of(model);
       }},
      {"fold_batch_norm",
       [](const Subject& s) {
         return text_of(fold_batch_norm(s.floats.graph(), s.floats.parameters()));
       }},
      {"search_bits",
       [](const Subject& s) {
         const BitSearch found =
             search_bits(s.floats, s.set, {.budget = 400, .samples = 32, .threads = 1});
         std::string text;
         for (const LayerSearch& each : found.layers) {
           text += text_of_numbers<double>(each.losses);
         }
         return text;
       }},
      {"convert",
       [](const Subject& s) {
         return to_json(s.small.integers(Requantization::DoubleRounding));
       }},
      {"lint",
       [](const Subject& s) {
         return "findings: " + text_of(lint(s.small.graph(), s.small.parameters())) +
                text_of(lint(s.program));
       }},
      {"search_calibration",
       [](const Subject& s) {
         Model model(s.small.graph(), s.small.parameters());
         (void)search_calibration(model, s.set, {MinMax{}, Mse{}, Kl{}, Percentile{}}, 64, 1);
         return text_of(model);
       }},
      {"Observer",
       [](const Subject& s) {
         std::string text;
         for (const ObserverMethod& method : methods_from_data()) {
           Observer observer(method, grid_of(FakeQuantize{.bits = 8}), 1);
           observer.observe(std::span<const float>(s.numbers), ChannelMap(Shape{900}, {}));
           for (const auto& each : observer.qparams()) text += fmt::format("{} ", each.scale);
         }
         return text;
       }},
      {"set_qparams",
       [](const Subject& s) {
         Model model(s.small.graph(), s.small.parameters());
         const NodeId id = quantizers(model.graph()).back();
         set_qparams(model.graph(), model.parameters(), id, 0.1, 0);
         return text_of(model);
       }},
      {"set_ranges",
       [](const Subject& s) {
         Model model(s.small.graph(), s.small.parameters());
         const NodeId id = quantizers(model.graph()).back();
         const std::vector<ValueRange<double>> ranges(
             static_cast<size_t>(channel_map(model.graph(), id).channels), {-0.7, 0.9});
         set_ranges(model.graph(), model.parameters(), id, ranges);
         return text_of(model);
       }},
      {"report_quantizers",
       [](const Subject& s) {
         Tape tape(s.small.graph().with_batch(32), s.small.parameters(), {.threads = 1});
         return to_json(report_quantizers(tape, batches_of(s.set, 96)));
       }},
      {"model_from_json",
       [](const Subject& s) { return text_of(model_from_json(text_of(s.small))); }},
      {"program_from_json",
       [](const Subject& s) { return to_json(program_from_json(to_json(s.program))); }},
      {"export_c",
       [](const Subject& s) {
         std::string text;
         for (const CFile& each : export_c(s.program, {.test = {.inputs = 4}}).files) {
           text += each.text;
         }
         return text;
       }},
      {"to_onnx",
       [](const Subject& s) { return to_onnx(s.small.integers(Requantization::OnnxQdq)); }},
      {"schedule",
       [](const Subject&) {
         const Schedule schedule{.shape = Cosine{.total = 70}, .warm_up = {.steps = 7}};
         std::string text;
         for (int64_t step = 0; step < 70; ++step) {
           text += fmt::format("{} ", schedule.learning_rate(step));
         }
         return text;
       }},
      {"arrays",
       [](const Subject& s) {
         const test::Folder folder;
         write_npy(folder.file("x.npy"), Tensor::of<double>({225, 4}, s.wide));
         const data::Dataset set = data::arrays(folder.file("x.npy"));
         std::vector<float> sample(4);
         std::string text;
         for (int64_t i = 0; i < set.size(); ++i) {
           set.read(0, i, std::span(sample));
           text += text_of_numbers<float>(sample);
         }
         return text;
       }},
  };
}

}  // namespace

TEST_CASE("floating-point settings of the caller change no bit of any public function") {
  const Subject subject;
  for (const auto& each : calls()) {
    const Call& call = each.second;
    CAPTURE(std::string(each.first));
    const std::string expected = call(subject);
    CHECK(!expected.empty());
    for (const int rounding : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
      CAPTURE(rounding);
      CHECK((under(rounding, [&] { return call(subject); }) == expected));
    }
  }
}
