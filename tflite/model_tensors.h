// Tensors of a .tflite model that hold the values of a program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qtape/integer/program/integer_program.h"

namespace qtape::tflite {

/// Tensors of a model with the values of a program.
struct ModelTensors {
  /// The tensor with the codes of a node, less 128 if they are unsigned, or its floats.
  NodeMap<std::optional<int32_t>, IntegerProgram> values;
  std::vector<int32_t> inputs;  ///< tensors of the inputs, in the order of the program's
};

/// A model that was written, and its bytes.
struct WrittenModel {
  std::string bytes;
  ModelTensors tensors;
};
/// Writes a program as `to_tflite` does.
WrittenModel write_model(const IntegerProgram& program, std::vector<std::string>* notes);

/// A program that was read.
struct ReadProgram {
  IntegerProgram program;
  ModelTensors tensors;
};
/// Reads a model as `parse_tflite` does.
ReadProgram read_program(std::string_view bytes, std::vector<std::string>* notes);

}  // namespace qtape::tflite
