// Conversion between xtensor arrays and models.
#include "qtape/model/xtensor.h"

#include <doctest/doctest.h>

#include <xtensor/xbuilder.hpp>
#include <xtensor/xview.hpp>

#include "qtape/model/fit.h"
#include "qtape/tests/support/errors.h"

using namespace qtape;
using test::error_text;

TEST_CASE("xtensor: expressions become tensors of their type and shape, and back") {
  const xt::xarray<int16_t> a = {{1, -2, 3}, {4, 5, 6}};
  const Tensor tensor = to_tensor(a);
  CHECK(tensor.type == TensorType{DType::S16, {2, 3}});
  CHECK(to_array<int16_t>(tensor) == a);
  CHECK(to_array<double>(to_tensor(xt::view(xt::xarray<double>(a * 0.5), 1, xt::all()))) ==
        xt::xarray<double>{2, 2.5, 3});
  CHECK(error_text<GraphError>([&] { (void)to_array<float>(tensor); }) ==
        "the tensor is s16[2, 3], not f32");
}

TEST_CASE("xtensor: a model learns from arrays and answers in arrays") {
  const xt::xarray<float> x = xt::linspace<float>(-1, 1, 64).reshape({64, 1});
  const xt::xarray<float> y = 0.5f * x + 0.25f;
  Network net;
  Model model(linear(net.input("x", {1}), 1), loss::mean_squared_error);
  (void)fit(model, data::arrays(x, y),
            {.epochs = 200, .batch = 16, .learning_rate = 0.05, .progress = false});
  const xt::xarray<float> answer = predict(model, x);
  CHECK(answer.shape() == x.shape());
  CHECK(xt::amax(xt::abs(answer - y))() < 1e-3f);
  const Model& fixed = model;
  CHECK(values<float>(fixed, "fc1.weight")(0, 0) == doctest::Approx(0.5).epsilon(1e-2));
  values<float>(model, "fc1.bias")(0) = 7;
  CHECK(values<float>(fixed, "fc1.bias")(0) == 7);
  set(model, "fc1.weight", xt::xarray<float>(xt::zeros<float>({1, 1})));
  CHECK(predict(model, x)(5, 0) == 7);
  CHECK(gradients<float>(fixed, "fc1.weight").shape(0) == 1);
}

TEST_CASE("xtensor: what does not fit is refused") {
  Network net;
  Model model(linear(quantized(net.input("x", {2}), quantize::activations()), 3));
  CHECK(error_text<GraphError>([&] {
          set(model, "fc1.weight", xt::xarray<float>(xt::zeros<float>({2, 3})));
        }).find("fc1.weight") != std::string::npos);
  CHECK_THROWS_AS(set(model, "fc1.weight", xt::xarray<double>(xt::zeros<double>({3, 2}))),
                  GraphError);
  CHECK_THROWS_AS((void)values<double>(model, "fc1.weight"), GraphError);
  CHECK_THROWS_AS((void)values<float>(model, "fc9"), GraphError);
  CHECK_THROWS_AS((void)gradients<float>(model, "x.range"), GraphError);
  CHECK_THROWS_AS((void)predict(model, xt::xarray<float>(xt::zeros<float>({4, 3}))),
                  ArgumentError);
}
