// Properties of a file that its model does not keep.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qtape/ops/ops.h"
#include "qtape/tflite/import/layers.h"

namespace qtape::tflite {

class ModelNotes {
 public:
  /// Notes that `text` holds for the operator or tensor `name`.
  void add(std::string_view text, const std::string& name);
  /// Notes where the integers of a converted model differ from those of the file, for a layer
  /// from codes to codes.
  void add_differences(const OperatorView& view, const Layer& layer);
  /// Returns a line for each text, with the names.
  std::vector<std::string> lines() const;

 private:
  struct Note {
    std::string_view text;
    std::vector<std::string> names;
  };
  std::vector<Note> notes_;
};

/// Returns the op of a function, on floats.
Op op_of(const FunctionLayer& layer);

}  // namespace qtape::tflite
