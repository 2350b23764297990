#include "qtape/examples/classifier/task.h"

namespace qtape::examples {

const Section& section_of(const std::map<std::string, Section>& sections,
                          std::string_view name) {
  const auto found = sections.find(std::string(name));
  require<FormatError>(found != sections.end(),
                       "/sections/{}: missing; the file is not a checkpoint", name);
  return found->second;
}

}  // namespace qtape::examples
