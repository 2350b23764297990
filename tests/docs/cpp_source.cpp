#include "qtape/tests/docs/cpp_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <sstream>

namespace qtape::docs {

namespace {

/// Code that pages omit: headers, and suppressed warnings about unused names.
constexpr std::string_view prologue = R"(#include <algorithm>
#include <array>

#include "qtape/qtape.h"
#include "qtape/tests/docs/code.h"

#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"
)";

struct Parts {
  std::string includes;
  std::string declarations;
  std::string fragments;
  std::string programs;  // programs to register
};

/// Returns a namespace for the page, because several pages are compiled as one source.
std::string namespace_of(const Page& page) {
  std::string name = "page_" + page.name;
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

/// Returns `block` without its includes, which are added to `parts`; line numbers are kept.
std::string body_of(const Block& block, const std::string& path, Parts& parts) {
  std::istringstream text(block.text);
  std::string body = fmt::format("#line {} \"{}\"\n", block.line, path);
  int number = block.line;
  for (std::string line; std::getline(text, line); ++number) {
    if (line.starts_with("#include ")) {
      parts.includes += fmt::format("#line {} \"{}\"\n{}\n", number, path, line);
      line.clear();
    }
    body += line + "\n";
  }
  return body;
}

void add(const Block& block, const std::string& path, Parts& parts) {
  if (block.has("same as")) return;
  const std::string body = body_of(block, path, parts);
  if (block.has("namespace scope")) {
    parts.declarations += body;
  } else if (block.whole_program()) {
    parts.declarations += fmt::format("namespace program_{} {{\n{}}}\n", block.line, body);
    if (block.has("not run")) return;
    parts.programs +=
        fmt::format("    qtape::docs::program({0}, program_{0}::main),\n", block.line);
  } else {
    parts.fragments += fmt::format("qtape::docs::at({});\n{}", block.line, body);
  }
}

}  // namespace

std::string cpp_source(const Page& page, const std::string& path) {
  Parts parts;
  for (const Block& block : page.blocks) {
    if (block.language == "cpp") add(block, path, parts);
  }
  if (parts.fragments.empty() && parts.declarations.empty()) return "";
  return fmt::format(
      "{}"
      "{}"
      "using namespace qtape;\n"
      "namespace {} {{\n"
      "namespace {{\n"
      "{}"
      "void fragments() {{\n"
      "{}"
      "}}\n"
      "#line 1 \"written of {}\"\n"
      "const qtape::docs::Registration registration(\"{}\", fragments, {{\n"
      "{}"
      "}});\n"
      "}}  // namespace\n"
      "}}\n",
      prologue, parts.includes, namespace_of(page), parts.declarations, parts.fragments,
      page.name, page.name, parts.programs);
}

}  // namespace qtape::docs
