// Programs that TensorFlow Lite Micro computes, with random numbers.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "qtape/core/random.h"
#include "qtape/integer/program/integer_node.h"
#include "qtape/integer/program/session.h"

namespace qtape::test::tflite_programs {

/// Returns the grid of s16 codes whose scale is the nearest f32.
inline CodeGrid wide_grid(double scale) {
  return {.dtype = DType::S16,
          .scale = double{static_cast<float>(scale)},
          .low = -32768,
          .high = 32767};
}

/// Returns the grid of s8 codes whose scale is the nearest f32.
inline CodeGrid grid(double scale, int32_t zero_point, int32_t low = -128) {
  return {.scale = double{static_cast<float>(scale)}, .zero_point = zero_point, .low = low};
}

/// Random numbers that follow a seed.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : random_(seed, 7) {}

  int64_t below(int64_t end) {
    return static_cast<int64_t>(random_.below(next_++, static_cast<uint64_t>(end)));
  }
  /// Returns symmetric codes of weights.
  std::vector<int8_t> codes(int64_t n, int bits = 8) {
    const int64_t highest = (int64_t{1} << (bits - 1)) - 1;
    std::vector<int8_t> all;
    for (int64_t i = 0; i < n; ++i) {
      all.push_back(static_cast<int8_t>(below(2 * highest + 1) - highest));
    }
    return all;
  }
  std::vector<float> scales(int64_t n) {
    std::vector<float> all;
    for (int64_t i = 0; i < n; ++i) {
      all.push_back(0.001f + 0.0001f * static_cast<float>(below(100)));
    }
    return all;
  }
  std::vector<int32_t> biases(int64_t n) {
    std::vector<int32_t> all;
    for (int64_t i = 0; i < n; ++i) all.push_back(static_cast<int32_t>(below(4001) - 2000));
    return all;
  }

 private:
  Random random_;
  uint64_t next_ = 0;
};

/// A program of DoubleRounding that grows by layers.
struct Layers {
  IntegerProgram program{Requantization::DoubleRounding};
  Numbers numbers;
  ProgramNodeId last = {};
  int weight_bits = 8;

  Layers(uint64_t seed, const Shape& shape, const CodeGrid& codes) : numbers(seed) {
    last = program.add(integer::Input{shape, true}, {}, "x");
    last = program.add(integer::Quantize{.grid = codes, .rounding = Rounding::HalfAway}, {last},
                       "x.codes");
  }
  Layers(uint64_t seed, const Shape& shape, double scale, int32_t zero_point)
      : Layers(seed, shape, grid(scale, zero_point)) {}

  const IntegerValue& value() const { return program[last].value; }
  void add(IntegerOp op, const std::string& label) {
    last = program.add(std::move(op), {last}, label);
  }
  void conv(const std::string& label, int64_t outputs, const Shape& taps, Padding padding,
            int64_t groups, const CodeGrid& to, bool by_channel = true) {
    integer::Conv op;
    op.taps = taps;
    op.padding = padding;
    op.groups = groups;
    const Shape shape = {outputs, taps.elements() * value().type.shape[-1] / groups};
    op.weights = pack_weights(numbers.codes(shape.elements(), weight_bits), shape, weight_bits,
                              numbers.scales(by_channel ? outputs : 1), numbers.biases(outputs),
                              op.factors(value()));
    add(std::move(op), label + "/weights");
    add(integer::Requantize{to}, label);
  }
  void linear(const std::string& label, int64_t outputs, bool f32_scales, const CodeGrid& to) {
    integer::Linear op;
    op.f32_scales = f32_scales;
    const Shape shape = {outputs, value().type.shape[-1]};
    op.weights = pack_weights(numbers.codes(shape.elements(), weight_bits), shape, weight_bits,
                              numbers.scales(f32_scales ? 1 : outputs), numbers.biases(outputs),
                              value());
    add(std::move(op), label + "/weights");
    add(integer::Requantize{to}, label);
  }
  void flatten(const std::string& label) {
    const Shape& shape = value().type.shape;
    add(integer::Reshape{qtape::Reshape{.shape = {-1, shape.elements() / shape[0]}}}, label);
  }
  IntegerProgram finished() {
    program.set_outputs({program.add(integer::Dequantize{}, {last}, "y.value")});
    return program;
  }
};

/// Convolutions of both kinds, a sum, poolings, layers of both kinds and a softmax.
inline IntegerProgram all_layers() {
  Layers net(1, {1, 9, 8, 3}, 0.02, -5);
  net.conv("conv", 8, {3, 3}, Padding::Same, 1, grid(0.05, -128));
  net.conv("depthwise", 8, {3, 3}, Padding::Valid, 8, grid(0.11, 3, 3));
  const ProgramNodeId skip = net.last;
  net.conv("pointwise", 8, {1, 1}, Padding::Valid, 1, grid(0.3, 12), false);
  net.last = net.program.add(integer::Add{grid(0.25, -7)}, {net.last, skip}, "sum");
  net.add(integer::Structure<MaxPool>{MaxPool{.kernel = {2, 2}, .stride = {2, 2}}}, "largest");
  integer::MeanPool mean;
  mean.kernel = {2, 2};
  mean.stride = {1, 1};
  mean.padding = Padding::Same;
  net.add(std::move(mean), "mean");
  integer::Sum channels;
  channels.axes = {3};
  channels.mean = true;
  net.add(std::move(channels), "channels/weights");
  net.add(integer::Requantize{grid(0.21, 4)}, "channels");
  net.flatten("flat");
  net.linear("wide", 12, false, grid(0.7, 20));
  net.linear("narrow", 5, true, grid(0.9, -3));
  net.add(integer::Softmax{}, "softmax");
  return net.finished();
}

/// A session that has run samples over the whole range of the input x and beyond.
inline IntegerSession run(const IntegerProgram& program) {
  IntegerSession session(program.with_batch(4), {.reference = true});
  const auto input = session.input<float>(program.at("x"));
  for (size_t i = 0; i < input.size(); ++i) {
    input[i] = static_cast<float>(static_cast<int>(i * 7919 % 301) - 150) * 0.021f;
  }
  session.run();
  return session;
}

inline std::vector<int32_t> codes_of(const IntegerSession& session, ProgramNodeId id) {
  return dispatch_codes(session.program()[id].value.type.dtype, [&]<class Code>() {
    const auto codes = session.value<Code>(id);
    return std::vector<int32_t>(codes.begin(), codes.end());
  });
}

/// Checks that `parse` refuses a file that is cut; and if it is changed, reads it or refuses it
/// in one line.
template <class Parse>
void check_damaged(const std::string& bytes, const Parse& parse) {
  for (size_t size = 0; size < bytes.size(); size += 1 + size / 64) {
    CAPTURE(size);
    CHECK_THROWS_AS((void)parse(bytes.substr(0, size)), FormatError);
  }
  for (size_t at = 0; at < bytes.size(); at += 3) {
    for (const char value : {'\0', '\x7f', '\xff'}) {
      CAPTURE(at);
      std::string changed = bytes;
      changed[at] = value;
      try {
        (void)parse(changed);
      } catch (const FormatError& error) {
        CHECK(std::string_view(error.what()).find('\n') == std::string_view::npos);
      }
    }
  }
}

}  // namespace qtape::test::tflite_programs
