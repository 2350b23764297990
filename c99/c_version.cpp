#include "qtape/c99/c_functions.h"

namespace qtape {

std::string_view c_writer_version() { return QTAPE_VERSION; }

}  // namespace qtape
