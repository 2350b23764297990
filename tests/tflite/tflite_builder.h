// Models of TensorFlow Lite that tests build from operators, also in floats.
#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "qtape/core/byte_order.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tflite/import.h"
#include "qtape/tflite/schema.h"

namespace qtape::test {

class TfliteBuilder {
 public:
  using Extents = std::vector<int32_t>;

  TfliteBuilder() { model_.buffers.emplace_back(); }

  /// Adds a tensor that is computed, in floats.
  int32_t floats(const std::string& name, const Extents& shape) {
    return add({.name = name, .shape = shape});
  }
  /// Adds a tensor that is computed, of codes.
  int32_t codes(const std::string& name, const Extents& shape, float scale,
                int64_t zero_point) {
    return add({.name = name,
                .shape = shape,
                .type = tflite::TfliteType::Int8,
                .scales = {scale},
                .zero_points = {zero_point}});
  }
  int32_t constant(const std::string& name, const Extents& shape,
                   const std::vector<float>& values) {
    return add({.name = name, .shape = shape}, values);
  }
  int32_t integers(const std::string& name, const Extents& shape,
                   const std::vector<int32_t>& values) {
    return add({.name = name, .shape = shape, .type = tflite::TfliteType::Int32}, values);
  }
  /// Adds constant codes, with several scales along `axis` or one.
  int32_t constant_codes(const std::string& name, const Extents& shape,
                         const std::vector<int8_t>& values, const std::vector<float>& scales,
                         int32_t axis = 0, int64_t zero_point = 0) {
    return add({.name = name,
                .shape = shape,
                .type = tflite::TfliteType::Int8,
                .scales = scales,
                .zero_points = std::vector<int64_t>(scales.size(), zero_point),
                .quantized_dimension = axis},
               values);
  }

  void op(tflite::Builtin builtin, std::vector<int32_t> inputs, int32_t output,
          tflite::Options options = {}) {
    model_.operators.push_back({.op = builtin,
                                .inputs = std::move(inputs),
                                .outputs = {output},
                                .options = std::move(options)});
  }
  int32_t input(int32_t tensor) { return model_.inputs.emplace_back(tensor); }
  int32_t output(int32_t tensor) { return model_.outputs.emplace_back(tensor); }

  tflite::TfliteModel& model() { return model_; }
  std::string bytes() const { return tflite::model_bytes(model_); }
  SavedModel imported(std::vector<std::string>* notes = nullptr) const {
    return parse_tflite_model(bytes(), notes);
  }
  std::string error() const {
    return error_text<FormatError>([&] { (void)imported(); });
  }

 private:
  int32_t add(tflite::TfliteTensor tensor) {
    model_.tensors.push_back(std::move(tensor));
    return static_cast<int32_t>(model_.tensors.size()) - 1;
  }
  template <class T>
  int32_t add(tflite::TfliteTensor tensor, const std::vector<T>& values) {
    tensor.buffer = static_cast<uint32_t>(model_.buffers.size());
    model_.buffers.push_back(LittleEndian(std::span(values)).copy());
    return add(std::move(tensor));
  }

  tflite::TfliteModel model_;
};

}  // namespace qtape::test
