// Models as JSON: graph, values and checkpoint sections in one file. See docs/format.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "qtape/core/section.h"
#include "qtape/engine/graph.h"
#include "qtape/engine/parameters.h"

namespace qtape {

/// Contents of a model file.
struct SavedModel {
  Graph graph;
  Parameters parameters;
  /// Settings and tensors in addition to the graph: optimizer, schedule and progress of a
  /// checkpoint.
  std::map<std::string, Section> sections;
};

/// Treatment of NaN in parameters and states.
enum class NanValues : uint8_t {
  Refuse,  ///< throws a FormatError that names the first one
  Keep     ///< saved and loaded bit for bit
};

/// Returns the text of a model file. Equal models give equal text. Throws FormatError, starting
/// with a JSON pointer, for NaN unless it is kept, and for labels and names that are not UTF-8.
std::string to_json(const Graph& graph, const Parameters& parameters,
                    const std::map<std::string, Section>& sections = {},
                    NanValues nan = NanValues::Refuse);
/// Reads a model, in time linear in the text except for sorting. Throws FormatError that starts
/// with a JSON pointer to the error. Allocates at most a small multiple of the size of the
/// text, whatever it contains.
SavedModel model_from_json(std::string_view text, NanValues nan = NanValues::Refuse);

/// Formats one op as `"Relu"` or `{"FakeQuantize": {...}}`.
std::string to_json(const Op& op);
/// Parses the result of `to_json`. Throws FormatError.
Op op_from_json(std::string_view text);

/// Writes a model file; on any failure the old file is kept. Throws IoError, and FormatError as
/// `to_json` does, both starting with the path.
void save_model(const std::string& path, const Graph& graph, const Parameters& parameters,
                const std::map<std::string, Section>& sections = {},
                NanValues nan = NanValues::Refuse);
/// Reads a model file. Throws IoError or FormatError, both starting with the path.
SavedModel load_model(const std::string& path, NanValues nan = NanValues::Refuse);

}  // namespace qtape
