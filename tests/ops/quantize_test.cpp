// Quantize, Dequantize, FakeQuantize and FakeQuantizeLSQ with all attributes against
// independent formulas.
#include <doctest/doctest.h>

#include <cstdlib>
#include <limits>

#include "qtape/engine/print.h"
#include "qtape/tests/support/first_difference.h"
#include "qtape/tests/support/quantize_trial.h"
#include "qtape/tests/support/quantizer_bench.h"

using namespace qtape;
using test::difference;
using test::OpRun;
using test::Trial;
using test::Values;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Checks codes, values and gradients of one quantizer.
template <class S>
void check_trial(const Trial<S>& trial, size_t turn, test::RunOptions options = {}) {
  using T = typename Storage<S>::Compute;
  const T base = options.accumulate ? T(0.5) : T(0);
  const Values dy = test::random_values(trial.shape.elements(), turn);
  auto quantize = trial.quantize(options);
  auto dequantize = trial.dequantize(options);
  std::string found = difference(quantize.forward(), trial.codes);
  found += difference(dequantize.forward(), trial.y(false));
  found += difference(quantize.backward(dy)[0], trial.dx(dy, base));
  found += difference(dequantize.backward(dy)[0], trial.dq(dy, base));
  // Zero points of LSQ are added after rounding.
  const bool learned = turn % 2 == 0 && trial.op.zero_point == ZeroPoint::AfterRounding;
  auto fake = learned ? trial.learned(options) : trial.fake_quantize(options);
  found += difference(fake.forward(), trial.y(!learned));
  found += difference(fake.backward(dy)[0], trial.masked(dy, base, !learned));
  bool fault = false;
  for (OpRun* run : {&quantize, &dequantize, &fake}) {
    fault = fault || run->status().fault.text != nullptr;
  }
  INFO(to_string(trial.op), " of ", to_string(TensorType{dtype_of<S>, trial.shape}));
  CHECK(found == "");
  CHECK_FALSE(fault);
}

/// Calls `f(op)` for every combination of the attributes that affect codes and masks.
template <class F>
void for_each_quantize(F f) {
  for (auto scheme : {Scheme::Symmetric, Scheme::Affine}) {
    for (auto placement : {ZeroPoint::AfterRounding, ZeroPoint::BeforeRounding}) {
      const auto visit = [&](const FakeQuantize& each) {
        f(Quantize{each.bits,
                   {},
                   {},
                   each.range,
                   scheme,
                   each.rounding,
                   each.division,
                   placement,
                   each.mask});
      };
      test::for_each_attribute(visit, {1, 2, 3, 4, 8, 9, 16});
    }
  }
}

const std::vector<Granularity> granularities = {{},     {0, {}}, {1, {}}, {2, {}}, {-2, 7},
                                                {2, 5}, {1, 1},  {0, 3},  {-1, 1}};

/// True if the test runs again with the instructions of other processors, whose kernels differ
/// by dtype and granularity alone.
bool runs_again() { return std::getenv("QTAPE_ISA") != nullptr; }

template <class S>
void check_every_combination() {
  size_t turn = 0;
  for_each_quantize([&](Quantize op) {
    for (const Granularity& granularity : granularities) {
      op.axis = granularity.axis;
      op.group_size = granularity.group_size;
      const bool accumulate = ++turn % 3 == 0;
      if (runs_again() && turn % 5 != 0) continue;
      check_trial(Trial<S>(op, {3, 35, 5}, turn), turn, {.accumulate = accumulate});
    }
  });
}

/// Text of the fault of one forward; checks that the output is 0.
std::string fault_of(OpRun& run) {
  const Values y = run.forward();
  const Fault& fault = run.status().fault;
  if (fault.text == nullptr) return "no fault";
  CHECK(y == Values(y.size(), 0.0));
  return fmt::format(fmt::runtime(fault.text), fmt::arg("index", fault.index),
                     fmt::arg("value", fault.value));
}

}  // namespace

TEST_CASE("quantize: f32, every combination: codes, values and gradients, bit for bit") {
  check_every_combination<float>();
}
TEST_CASE("quantize: f64, every combination: codes, values and gradients, bit for bit") {
  check_every_combination<double>();
}
TEST_CASE("quantize: f16, every combination: codes, values and gradients, bit for bit") {
  check_every_combination<Half>();
}
TEST_CASE("quantize: bf16, every combination: codes, values and gradients, bit for bit") {
  check_every_combination<BHalf>();
}

TEST_CASE("quantize: large tensors are cut anywhere, by any number of threads") {
  struct Case {
    Shape shape;
    Granularity granularity;
  };
  for (const Case& c :
       {Case{{0}, {}}, Case{{0, 3}, {1, {}}}, Case{{}, {}}, Case{{5001}, {}}, Case{{70003}, {}},
        Case{{3, 20000}, {0, {}}}, Case{{64, 768}, {0, {}}}, Case{{700, 100}, {0, {}}},
        Case{{130, 16}, {0, {}}}, Case{{4, 40000}, {1, {}}}, Case{{1400, 48}, {1, {}}},
        Case{{300, 224}, {1, 32}}, Case{{64, 48}, {1, 16}}, Case{{2, 40000}, {1, 20000}},
        Case{{2, 300, 7}, {1, 3}}, Case{{3, 21000, 2}, {1, {}}}}) {
    for (auto mask : {MaskRule::Code, MaskRule::Value}) {
      const Quantize op{.bits = 4,
                        .axis = c.granularity.axis,
                        .group_size = c.granularity.group_size,
                        .scheme = Scheme::Affine,
                        .mask = mask};
      const Trial<float> one(op, c.shape, 1);
      const Trial<float> two(op, c.shape, 2);
      const Trial<double> wide(op, c.shape, 3);
      const Trial<Half> half(op, c.shape, 4);
      for (int threads : {1, 3}) {
        if (runs_again() && threads == 1) continue;
        check_trial(one, 1, {.threads = threads});
        check_trial(two, 2, {.threads = threads, .in_place = true});
        check_trial(wide, 3, {.threads = threads});
        check_trial(half, 4, {.threads = threads, .accumulate = true});
      }
    }
  }
}

TEST_CASE("quantize: golden codes and gradients") {
  const std::vector<TensorType> types = {{DType::F32, {8}}, {DType::F32, {1}}};
  const Values x = {0.25, 0.75, -0.75, 3.5, 3.8, 1e30, -4.0, -infinity};
  OpRun run(Quantize{.bits = 4, .range = CodeRange::Full}, types, {x, {0.5}});
  CHECK(run.forward() == Values{0, 2, -2, 7, 7, 7, -8, -8});
  CHECK(run.output() == TensorType{DType::S8, {8}});
  CHECK(run.status().applied);
  // 1 / s is part of the gradient: a code changes by 2 if x changes by 1.
  CHECK(run.backward(Values(8, 3.0))[0] == Values{6, 6, 6, 6, 0, 0, 6, 0});
  OpRun back(Dequantize{}, {{DType::S8, {3}}, {DType::F32, {1}}}, {{-128, 3, 127}, {0.5}});
  CHECK(back.forward() == Values{-64, 1.5, 63.5});
  CHECK(back.backward({3, 4, -1})[0] == Values{1.5, 2, -0.5});
}

TEST_CASE("quantize: the codes' dtype follows bits and range") {
  const std::vector<TensorType> types = {{DType::F16, {2, 3}}, {DType::F32, {1}}};
  for (int bits = 2; bits <= 16; ++bits) {
    CAPTURE(bits);
    const DType is_signed = bits <= 8 ? DType::S8 : DType::S16;
    const DType is_unsigned = bits <= 8 ? DType::U8 : DType::U16;
    CHECK(Quantize{.bits = bits}.infer(types) == TensorType{is_signed, {2, 3}});
    CHECK(Quantize{.bits = bits, .range = CodeRange::Unsigned}.infer(types) ==
          TensorType{is_unsigned, {2, 3}});
  }
}

TEST_CASE("quantize: NaN has no code: a fault at the first one, and the zero point's code") {
  for (DType dtype : {DType::F32, DType::F64, DType::F16}) {
    for (int threads : {1, 3}) {
      const DType scales = scale_dtype(dtype);
      Values x(70000, 1.0);
      for (size_t i : {69999u, 41000u, 40000u}) x[i] = not_a_number;
      const Quantize op{.axis = 0, .range = CodeRange::Unsigned, .scheme = Scheme::Affine};
      OpRun run(op, {{dtype, {2, 35000}}, {scales, {2}}, {scales, {2}}},
                {x, {0.5, 0.25}, {3, 7}}, {.threads = threads});
      const Values codes = run.forward();
      CHECK(std::string(run.status().fault.text) ==
            "element {index} of x is NaN, which has no code");
      CHECK(run.status().fault.index == 40000);
      Values expected(35000, 5.0);
      expected.resize(70000, 11.0);
      for (size_t i : {69999u, 41000u, 40000u}) expected[i] = 7;
      CHECK(codes == expected);
      const Values dx = run.backward(Values(70000, 1.0))[0];
      CHECK(dx[40000] == 0);
      CHECK(dx[40001] == 4);
    }
  }
}

TEST_CASE("quantize: scales and zero points that cannot be used are faults") {
  const TensorType two{DType::F32, {2}};
  const std::string needs = "; it must be a positive normal number";
  const std::string needs_code = "; it must be one of the codes";
  const auto quantized = [&](double scale, double zero_point) {
    const Quantize op{.bits = 4, .axis = 0, .scheme = Scheme::Affine};
    OpRun run(op, {two, two, two}, {{1, 2}, {1, scale}, {0, zero_point}});
    return fault_of(run);
  };
  const auto dequantized = [&](double scale, double zero_point) {
    const Dequantize op{.axis = 0, .scheme = Scheme::Affine};
    OpRun run(op, {{DType::U8, {2}}, two, two}, {{1, 2}, {1, scale}, {0, zero_point}});
    return fault_of(run);
  };
  CHECK(quantized(1, 7) == "no fault");
  CHECK(dequantized(1, 255) == "no fault");
  for (const auto& [scale, text] :
       std::vector<std::pair<double, std::string>>{{0, "0"},
                                                   {-1, "-1"},
                                                   {infinity, "inf"},
                                                   {not_a_number, "nan"},
                                                   {0x1p-149, "1.401298464324817e-45"}}) {
    CHECK(quantized(scale, 0) == "scale of channel 1 is " + text + needs);
    CHECK(dequantized(scale, 0) == "scale of channel 1 is " + text + needs);
  }
  CHECK(quantized(1, 8) == "zero point of channel 1 is 8" + needs_code);
  CHECK(quantized(1, -8) == "zero point of channel 1 is -8" + needs_code);
  CHECK(quantized(1, 0.5) == "zero point of channel 1 is 0.5" + needs_code);
  CHECK(quantized(1, not_a_number) == "zero point of channel 1 is nan" + needs_code);
  CHECK(dequantized(1, 256) == "zero point of channel 1 is 256" + needs_code);
  CHECK(dequantized(1, -1) == "zero point of channel 1 is -1" + needs_code);
  CHECK(dequantized(1, 1.5) == "zero point of channel 1 is 1.5" + needs_code);
}
