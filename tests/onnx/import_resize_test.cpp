// Resize of ONNX models, against plain loops of its definition.
#include <cmath>
#include <utility>

#include "qtape/tests/onnx/onnx_arrays.h"

using namespace qtape;
using namespace qtape::test::onnx_models;

namespace {

/// The position in x of index `i` of an axis, by ONNX's formulas.
double position(const std::string& mode, double i, double in, double out, double scale) {
  if (mode == "asymmetric") return i / scale;
  if (mode == "align_corners") return out == 1 ? 0 : i * (in - 1) / (out - 1);
  if (mode == "pytorch_half_pixel" && out == 1) return 0;
  return (i + 0.5) / scale - 0.5;
}

int64_t rounded(const std::string& mode, double at, int64_t extent) {
  double index = std::floor(at);
  if (mode == "ceil") index = std::ceil(at);
  if (mode == "round_prefer_ceil") index = std::floor(at + 0.5);
  if (mode == "round_prefer_floor") index = std::ceil(at - 0.5);
  return std::clamp(static_cast<int64_t>(index), int64_t{0}, extent - 1);
}

OnnxGiven nearest(const OnnxGiven& x, size_t axis, int64_t out, double scale,
                  const std::string& mode, const std::string& rounding) {
  Extents places;
  for (int64_t i = 0; i < out; ++i) {
    const double at = position(mode, static_cast<double>(i), static_cast<double>(x.shape[axis]),
                               static_cast<double>(out), scale);
    places.push_back(rounded(rounding, at, x.shape[axis]));
  }
  return along(x, axis, places);
}

OnnxGiven linear(const OnnxGiven& x, size_t axis, int64_t out, double scale,
                 const std::string& mode) {
  Extents low, high;
  std::vector<double> part;
  for (int64_t i = 0; i < out; ++i) {
    const double last = static_cast<double>(x.shape[axis] - 1);
    const double at = std::clamp(
        position(mode, static_cast<double>(i), last + 1, static_cast<double>(out), scale), 0.0,
        last);
    low.push_back(static_cast<int64_t>(at));
    high.push_back(std::min(low.back() + 1, x.shape[axis] - 1));
    part.push_back(at - std::floor(at));
  }
  OnnxGiven y = along(x, axis, low);
  const OnnxGiven above = along(x, axis, high);
  int64_t inner = 1;
  for (size_t k = axis + 1; k < x.shape.size(); ++k) inner *= x.shape[k];
  for (size_t i = 0; i < y.values.size(); ++i) {
    const double p = part[i / static_cast<size_t>(inner) % part.size()];
    y.values[i] =
        static_cast<float>((1 - p) * double{y.values[i]} + p * double{above.values[i]});
  }
  return y;
}

constexpr const char* places[] = {"asymmetric", "align_corners", "half_pixel",
                                  "pytorch_half_pixel"};
constexpr const char* roundings[] = {"floor", "ceil", "round_prefer_floor",
                                     "round_prefer_ceil"};

}  // namespace

TEST_CASE("onnx resize: nearest neighbours in all modes, up and down, by sizes and by scales") {
  const OnnxGiven x = numbered({1, 2, 6, 5});
  for (const std::string place : places) {
    for (const std::string rounding : roundings) {
      CAPTURE(place);
      CAPTURE(rounding);
      for (const auto& [h, w] :
           {std::pair<int64_t, int64_t>{12, 10}, {9, 4}, {1, 5}, {6, 15}}) {
        OnnxModel model(x.shape, 18);
        model.then("Resize", {"", "", ints({1, 2, h, w})})
            .with("mode", "nearest")
            .with("coordinate_transformation_mode", place.c_str())
            .with("nearest_mode", rounding.c_str());
        const OnnxGiven rows = nearest(x, 2, h, static_cast<double>(h) / 6, place, rounding);
        CHECK(answer(model, x) ==
              nearest(rows, 3, w, static_cast<double>(w) / 5, place, rounding).values);
      }
    }
  }
  OnnxModel model(x.shape, 18);
  model.then("Resize", {"", floats({4}, {1, 1, 1.5f, 0.5f})})
      .with("coordinate_transformation_mode", "asymmetric")
      .with("nearest_mode", "floor");
  CHECK(answer(model, x) == along(along(x, 2, {0, 0, 1, 2, 2, 3, 4, 4, 5}), 3, {0, 2}).values);
  OnnxModel whole(x.shape, 18);
  whole.then("Resize", {"", floats({4}, {1, 1, 2, 3})});
  CHECK(number_of<Upsample>(whole) == 1);
}

TEST_CASE("onnx resize: linear interpolation in all modes, over one axis and two") {
  const OnnxGiven x = numbered({1, 2, 6, 5});
  for (const std::string place : places) {
    CAPTURE(place);
    for (const auto& [h, w] : {std::pair<int64_t, int64_t>{12, 10}, {9, 4}, {1, 5}, {6, 15}}) {
      OnnxModel model(x.shape, 18);
      model.then("Resize", {"", "", ints({h, w})})
          .with("mode", "linear")
          .with("axes", Extents{2, 3})
          .with("coordinate_transformation_mode", place.c_str());
      const OnnxGiven rows = linear(x, 2, h, static_cast<double>(h) / 6, place);
      const OnnxGiven wanted = linear(rows, 3, w, static_cast<double>(w) / 5, place);
      const std::vector<float> got = answer(model, x);
      REQUIRE(got.size() == wanted.values.size());
      for (size_t i = 0; i < got.size(); ++i) {
        CHECK(got[i] == doctest::Approx(wanted.values[i]).epsilon(1e-6));
      }
    }
  }
}
