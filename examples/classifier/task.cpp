#include "qtape/examples/classifier/task.h"

namespace qtape::examples {

const Section& section_of(const Model& checkpoint, std::string_view name) {
  const auto found = checkpoint.sections.find(std::string(name));
  require<FormatError>(found != checkpoint.sections.end(),
                       "/sections/{}: missing; the file is not a checkpoint", name);
  return found->second;
}

}  // namespace qtape::examples
