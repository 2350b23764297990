// Models as JSON: graph, values and what a checkpoint adds, in one file. See docs/format.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "qtape/core/section.h"
#include "qtape/engine/graph.h"
#include "qtape/engine/parameters.h"

namespace qtape {

/// What a file holds.
struct SavedModel {
  Graph graph;
  Parameters parameters;
  /// Settings and tensors beside the graph: a checkpoint's optimizer, schedule and progress.
  std::map<std::string, Section> sections;
};

/// What becomes of a model with NaN in a parameter or a state.
enum class NanValues : uint8_t {
  Refuse,  ///< a FormatError that names the first one
  Keep     ///< saved and loaded bit for bit
};

/// The text of a model file. Equal models give equal text. Throws FormatError that begins with
/// a JSON pointer, for NaN unless it is kept and for labels and names that are not UTF-8.
std::string to_json(const Graph& graph, const Parameters& parameters,
                    const std::map<std::string, Section>& sections = {},
                    NanValues nan = NanValues::Refuse);
/// Reads a model, in time linear in the text but for sorting. Throws FormatError that begins
/// with a JSON pointer to the fault; nothing that a text holds can make it allocate more than a
/// small multiple of the text's size.
SavedModel model_from_json(std::string_view text, NanValues nan = NanValues::Refuse);

/// One op as `"Relu"` or `{"FakeQuantize": {...}}`.
std::string to_json(const Op& op);
/// An op of the text that `to_json` gives. Throws FormatError.
Op op_from_json(std::string_view text);

/// Writes a model file; the old file survives any failure. Throws IoError, and FormatError as
/// `to_json` does, both beginning with the path.
void save_model(const std::string& path, const Graph& graph, const Parameters& parameters,
                const std::map<std::string, Section>& sections = {},
                NanValues nan = NanValues::Refuse);
/// Reads a model file. Throws IoError or FormatError, both beginning with the path.
SavedModel load_model(const std::string& path, NanValues nan = NanValues::Refuse);

}  // namespace qtape
