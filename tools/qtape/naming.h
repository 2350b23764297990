// Errors that name the file they are about.
#pragma once

#include <string>

#include "qtape/ops/core/error.h"

namespace qtape::tool {

/// What `body` returns; a GraphError gets the path in front.
template <class Body>
auto naming(const std::string& path, const Body& body) {
  try {
    return body();
  } catch (const GraphError& error) {
    throw GraphError(path + ": " + error.what());
  }
}

}  // namespace qtape::tool
