// Leaves, through which values enter a graph: Input, Parameter, State and Constant.
#pragma once

#include "qtape/core/initializer.h"
#include "qtape/ops/core/op.h"

namespace qtape {

// Leaves have no operands and no kernels, because the engine owns their memory. Each declares
// this itself, because designated initializers of an aggregate with a base class cause a
// warning.

/// Data that the user writes before each step.
struct Input {
  static constexpr std::string_view name = "Input";
  static constexpr OpDocs docs{
      .summary = "Data that the user writes before each step.",
      .formula = "y = the data written by the user.",
      .operands = {"None; y has the dtype and the shape of the attributes.",
                   "With batch, the first extent is the batch extent, which all batched "
                   "inputs share and Graph::with_batch replaces."},
      .gradient = "Only if requested from a tape.",
      .saves = "Nothing.",
      .edge_cases = "With batch, a scalar is refused.",
      .source = "Elementary."};

  DType dtype = DType::F32;
  Shape shape = {};
  bool batch = true;

  static constexpr auto fields() {
    return std::tuple{field("dtype", &Input::dtype, "any element type"),
                      field("shape", &Input::shape, "extents; rank >= 1 with batch"),
                      field("batch", &Input::batch, "the first extent is the batch")};
  }
  TensorType infer(Inputs) const {
    check(!batch || shape.rank() >= 1, "a batched input needs rank >= 1, got a scalar");
    return {dtype, shape};
  }
  std::vector<Slot> slots() const { return {}; }
  Keep keep() const { return {}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding&) const { return {}; }
  Kernel backward(const Binding&) const { return {}; }
  bool operator==(const Input&) const = default;
};

/// A trained tensor, identified by its label.
struct Parameter {
  static constexpr std::string_view name = "Parameter";
  static constexpr OpDocs docs{
      .summary = "A trained tensor, identified by its label.",
      .formula = "y = the value in Parameters.",
      .operands = "None; y has the dtype and the shape of the attributes.",
      .gradient = "Stored in Parameters next to the value.",
      .saves = "Nothing.",
      .edge_cases = "None.",
      .source = "Elementary."};

  DType dtype = DType::F32;
  Shape shape = {};
  Initializer initializer = init::Zeros{};

  static constexpr auto fields() {
    return std::tuple{field("dtype", &Parameter::dtype, "f32 or f64"),
                      field("shape", &Parameter::shape, "extents"),
                      field("initializer", &Parameter::initializer, "value before training")};
  }
  TensorType infer(Inputs) const {
    check_compute({dtype, shape});
    validate(initializer, shape);
    return {dtype, shape};
  }
  std::vector<Slot> slots() const { return {}; }
  Keep keep() const { return {}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding&) const { return {}; }
  Kernel backward(const Binding&) const { return {}; }
  bool operator==(const Parameter&) const = default;
};

/// A persistent tensor without a gradient, identified by its label.
struct State {
  static constexpr std::string_view name = "State";
  static constexpr OpDocs docs{
      .summary =
          "A persistent tensor without a gradient, identified by its label, such as the scale "
          "of a quantizer.",
      .formula = {"y = the value in Parameters.",
                  "Changed only by the op that has it in a read-write slot: a quantizer while "
                  "observing, or a norm with batch statistics."},
      .operands = "None; y has the dtype and the shape of the attributes.",
      .gradient = "None.",
      .saves = "Nothing.",
      .edge_cases = "None.",
      .source = "Elementary."};

  DType dtype = DType::F32;
  Shape shape = {};
  double value = 0;

  static constexpr auto fields() {
    return std::tuple{field("dtype", &State::dtype, "f32 or f64"),
                      field("shape", &State::shape, "extents"),
                      field("value", &State::value, "initial value of every element, finite")};
  }
  TensorType infer(Inputs) const;
  std::vector<Slot> slots() const { return {}; }
  Keep keep() const { return {}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding&) const { return {}; }
  Kernel backward(const Binding&) const { return {}; }
  bool operator==(const State&) const = default;
};

/// A constant tensor that is part of the graph.
struct Constant {
  static constexpr std::string_view name = "Constant";
  static constexpr OpDocs docs{.summary = "A constant tensor that is part of the graph.",
                               .formula = "y = value.",
                               .operands = "None; y has the type of the tensor.",
                               .gradient = "None.",
                               .saves = "Nothing.",
                               .edge_cases = "None.",
                               .source = "Elementary."};

  Tensor value{{DType::F32, Shape{0}}, {}};

  static constexpr auto fields() {
    return std::tuple{field("value", &Constant::value, "the tensor")};
  }
  TensorType infer(Inputs) const {
    check(static_cast<int64_t>(value.data.size()) == value.type.bytes(),
          "value holds {} bytes, {} needs {}", value.data.size(), to_string(value.type),
          value.type.bytes());
    return value.type;
  }
  std::vector<Slot> slots() const { return {}; }
  Keep keep() const { return {}; }
  Footprint footprint(Inputs) const { return {}; }
  Kernel forward(const Binding&) const { return {}; }
  Kernel backward(const Binding&) const { return {}; }
  bool operator==(const Constant&) const = default;
};

}  // namespace qtape
