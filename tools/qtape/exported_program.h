// Program to export: an integer program, or the conversion of a model.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "qtape/core/enum_names.h"
#include "qtape/deploy/any_file.h"
#include "qtape/deploy/convert.h"

namespace qtape {
namespace tool {

/// Layout of inputs and outputs with channels and positions.
enum class Layout : uint8_t {
  nhwc,  ///< channels last, as the model has them
  nchw   ///< channels before the positions, as PyTorch has them
};
inline constexpr std::string_view layout_doc =
    "axis order of inputs and outputs: nhwc: channels last; nchw: channels first, as in "
    "PyTorch";

/// Returns `program` with its inputs and outputs in `layout`.
IntegerProgram in_layout(IntegerProgram program, Layout layout);

/// Returns the converted program of the model in the file at `path`, in `layout`. Throws
/// GraphError, which names the file, as `convert` does; it names the remedy for a model that
/// lacks some quantizers.
IntegerProgram converted(const SavedModel& model, const std::string& path,
                         const ConvertOptions& options, Layout layout);

/// Returns the program in the file at `path`, or the converted program of a model without its
/// last Softmax, with `requantization` or, if it is empty, with `usual`; in `layout`. Throws
/// ArgumentError for a program with another requantization, and GraphError as
/// `with_integer_outputs`.
IntegerProgram exported_program(AnyFile& file, const std::string& path,
                                std::optional<Requantization> requantization,
                                Requantization usual, bool integer_outputs, Layout layout);

}  // namespace tool

template <>
inline constexpr auto enum_names<tool::Layout> =
    std::array<std::string_view, 2>{"nhwc", "nchw"};

}  // namespace qtape
