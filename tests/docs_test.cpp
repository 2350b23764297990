// Documentation that must agree with the code. The code blocks of pages are run by docs_code.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/engine/files.h"
#include "qtape/tests/docs/cpp_source.h"
#include "qtape/tests/docs/page.h"
#include "qtape/tests/support/errors.h"
#include "qtape/tools/docs/ops_page.h"
#include "qtape/tools/docs/tables.h"

namespace {

namespace fs = std::filesystem;
using namespace qtape;

std::string source(const std::string& path) {
  return read_file(fmt::format("{}/{}", QTAPE_SOURCE, path), 1 << 20);
}

/// Files of a folder and those in it with one of the extensions, by their paths in the tree.
std::vector<std::string> files_in(const std::string& folder,
                                  const std::vector<std::string>& extensions) {
  std::vector<std::string> found;
  const fs::path root = QTAPE_SOURCE;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    if (std::ranges::find(extensions, entry.path().extension().string()) == extensions.end())
      continue;
    found.push_back(fs::relative(entry.path(), root).string());
  }
  std::ranges::sort(found);
  return found;
}

std::vector<std::string> pages() {
  std::vector<std::string> all = files_in("docs", {".md"});
  for (const char* page : {"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}) all.push_back(page);
  return all;
}

/// All sources of the library and of the programs; what literals say across lines is in one.
std::string program_text() {
  static const std::regex between_literals("\"\\s*\\n\\s*\"");
  std::string text;
  for (const char* folder :
       {"core", "kernels", "ops", "engine", "console", "arrays", "data", "integer", "optim",
        "calibrate", "deploy", "model", "onnx", "examples", "tools"}) {
    for (const std::string& file : files_in(folder, {".h", ".cpp"})) text += source(file);
  }
  return std::regex_replace(text, between_literals, "");
}

/// What is in backticks in column `column` of the tables of a page, counted from 0; -1: the
/// last one. Without what has no space: names, not messages.
std::vector<std::string> messages(const std::string& page, int column) {
  static const std::regex code("`([^`]* [^`]*)`");
  static const std::regex row("^\\|(.*)\\|$", std::regex::multiline);
  static const std::regex cell("[^|]+");
  std::vector<std::string> found;
  for (std::sregex_iterator it(page.begin(), page.end(), row), end; it != end; ++it) {
    const std::string text = (*it)[1];
    const std::vector<std::string> cells(
        std::sregex_token_iterator(text.begin(), text.end(), cell), {});
    const std::string& chosen = column < 0 ? cells.back() : cells[static_cast<size_t>(column)];
    for (std::sregex_iterator each(chosen.begin(), chosen.end(), code); each != end; ++each) {
      found.push_back((*each)[1]);
    }
  }
  return found;
}

/// The parts of a message that are the same in all of its kind: without names in quotes, types,
/// numbers, words in capitals that stand for something, and dots.
std::vector<std::string> fixed_parts(const std::string& message) {
  static const std::regex variable(
      "'[^']*'|[a-z]+[0-9]+\\[[^\\]]*\\]|\\[[^\\]]*\\]|\\b[A-Z]{3,}\\b|\\b[0-9][0-9.^]*\\b|\\."
      "\\.+");
  static const std::regex letter("[a-z]");
  std::vector<std::string> parts;
  for (std::sregex_token_iterator it(message.begin(), message.end(), variable, -1), end;
       it != end; ++it) {
    const std::string part = *it;
    const size_t begin = part.find_first_not_of(" :,;()");
    if (begin == std::string::npos || !std::regex_search(part, letter)) continue;
    parts.push_back(part.substr(begin, part.find_last_not_of(" :,;()") - begin + 1));
  }
  return parts;
}

}  // namespace

TEST_CASE("docs: ops.md is what the ops declare; rewrite it with write_ops_page") {
  CHECK(source("docs/ops.md") == ops_page());
}

TEST_CASE("docs: pages have the tables that write_tables writes") {
  for (const char* path : {"docs/integer-program.md", "docs/quantization.md"}) {
    const std::string page = source(path);
    CHECK_MESSAGE(page == with_tables(page), path);
  }
}

TEST_CASE("docs: what pages show of sources is what these hold") {
  int shown = 0;
  for (const std::string& name : pages()) {
    for (const docs::Block& block : docs::read_page(source(name), name).blocks) {
      if (!block.has("same as")) continue;
      const std::string program = source(block.notes.at("same as"));
      CHECK_MESSAGE(block.text == program.substr(program.find("#include")), name, ":",
                    block.line);
      ++shown;
    }
  }
  CHECK(shown >= 2);
}

TEST_CASE("docs: links lead to files and headings") {
  for (const std::string& name : pages()) {
    for (const docs::Link& link : docs::links(source(name))) {
      const size_t hash = std::min(link.target.find('#'), link.target.size());
      const fs::path folder = fs::path(name).parent_path();
      const std::string file =
          hash == 0 ? name : (folder / link.target.substr(0, hash)).lexically_normal().string();
      INFO(name, ":", link.line, ": ", link.target);
      REQUIRE(fs::exists(fs::path(QTAPE_SOURCE) / file));
      if (hash == link.target.size()) continue;
      const std::vector<std::string> anchors = docs::anchors(source(file));
      CHECK(std::ranges::find(anchors, link.target.substr(hash + 1)) != anchors.end());
    }
  }
}

TEST_CASE("docs: sources that pages name exist") {
  static const std::regex named("`([a-z_]+/[A-Za-z0-9_/-]+\\.(h|cpp|py|sh|json))`");
  const fs::path root = QTAPE_SOURCE;
  for (const std::string& name : pages()) {
    const std::string text = source(name);
    for (std::sregex_iterator it(text.begin(), text.end(), named), end; it != end; ++it) {
      const std::string file = (*it)[1];
      if (file.starts_with("ops/softsign.")) continue;  // the example of an op to add
      // As in the tree, within a room of programs, or as an include.
      const bool exists = fs::exists(root / file) || fs::exists(root / "examples" / file) ||
                          fs::exists(root / "tools" / file) ||
                          (file.starts_with("qtape/") && fs::exists(root / file.substr(6)));
      CHECK_MESSAGE(exists, name, ": ", file);
    }
  }
}

TEST_CASE("docs: errors that pages quote are those of the sources") {
  const std::string text = program_text();
  const std::map<std::string, int> columns = {{"docs/troubleshooting.md", 0},
                                              {"docs/limits.md", -1}};
  for (const auto& page : columns) {
    const std::vector<std::string> quoted = messages(source(page.first), page.second);
    CHECK(quoted.size() >= 10);
    for (const std::string& message : quoted) {
      INFO(page.first, ": ", message);
      const std::vector<std::string> parts = fixed_parts(message);
      CHECK(!parts.empty());
      for (const std::string& part : parts) {
        CHECK_MESSAGE(text.find(part) != std::string::npos, part);
      }
    }
  }
}

TEST_CASE("docs: pages that cannot be read say where") {
  const auto error = [](const std::string& text) {
    return test::error_text<FormatError>([&] { docs::read_page(text, "a.md"); });
  };
  CHECK(error("# A\n\n```\nx\n```\n") ==
        "a.md:3: expected a code block of cpp, sh, json, cmake, text, got \"\"");
  CHECK(error("```cpp\nint x;\n") == "a.md:2: a code block without an end");
  CHECK(error("<!-- setup: ls\n") == "a.md:1: a comment without an end");
  CHECK(error("<!-- not run: slow -->\n\ntext\n") ==
        "a.md:3: no code block follows the comment");
  CHECK(error("<!-- todo: more -->\n") == "a.md:1: unknown comment \"todo\"");
}

TEST_CASE("docs: the C++ of a page keeps its lines") {
  const docs::Page page = docs::read_page(
      "```cpp\n#include <set>\nint x = 1;\n```\n<!-- namespace scope -->\n```cpp\nint "
      "f();\n```\n",
      "a.md");
  const std::string code = docs::cpp_source(page, "/a.md");
  CHECK(code.find("#line 2 \"/a.md\"\n#include <set>\n") <
        code.find("#line 7 \"/a.md\"\nint f();"));
  CHECK(code.find("at(2);\n#line 2 \"/a.md\"\n\nint x = 1;\n") != std::string::npos);
  CHECK(docs::cpp_source(docs::read_page("text\n", "b.md"), "/b.md") == "");
}
