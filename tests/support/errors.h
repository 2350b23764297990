// Exact text of an error, for tests that compare it.
#pragma once

#include <exception>
#include <string>

namespace qtape::test {

/// Returns the message of the E that `body` throws, or a description of what it does instead.
template <class E, class Body>
std::string error_text(Body&& body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another kind of error: ") + error.what();
  }
  return "no error";
}

}  // namespace qtape::test
