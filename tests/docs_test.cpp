// Documentation that must agree with the code. docs_code runs the code blocks of pages.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/integer/ops/integer_ops.h"
#include "qtape/io/files.h"
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

/// Returns the files in a folder with one of the extensions, by their paths in the tree.
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
  for (const auto& entry : fs::directory_iterator(QTAPE_SOURCE)) {
    if (entry.path().extension() == ".md") all.push_back(entry.path().filename().string());
  }
  return all;
}

/// Returns the folders of the library and of the programs.
std::vector<std::string> folders() {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(QTAPE_SOURCE)) {
    const std::string name = entry.path().filename().string();
    const bool ships = name != "tests" && name != "bench";
    if (ships && fs::exists(entry.path() / "CMakeLists.txt")) found.push_back(name);
  }
  return found;
}

/// Returns `text` with adjacent string literals joined across lines.
std::string with_joined_literals(const std::string& text) {
  std::string joined;
  for (size_t i = 0; i < text.size(); ++i) {
    joined += text[i];
    if (text[i] != '"') continue;
    const size_t next = text.find_first_not_of(" \n", i + 1);
    if (next == std::string::npos || text[next] != '"' || text.find('\n', i) > next) continue;
    joined.pop_back();
    i = next;
  }
  return joined;
}

/// Returns all sources of the library and of the programs.
std::string program_text() {
  std::string text;
  for (const std::string& folder : folders()) {
    for (const std::string& file : files_in(folder, {".h", ".cpp"})) {
      text += with_joined_literals(source(file));
    }
  }
  return text;
}

/// Returns the cells of a table row; empty for other lines.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  if (!line.starts_with("|")) return cells;
  for (size_t begin = 1; begin < line.size();) {
    const size_t end = std::min(line.find('|', begin), line.size());
    cells.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  return cells;
}

/// Returns the cells of all table rows of a page.
std::vector<std::vector<std::string>> table_rows(const std::string& page) {
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : docs::prose(page)) {
    if (std::vector<std::string> cells = cells_of(line); !cells.empty()) rows.push_back(cells);
  }
  return rows;
}

/// Returns the code spans in the first or the last column of the tables of a page, except those
/// without spaces, which are names instead of messages.
std::vector<std::string> messages(const std::string& page, bool first) {
  std::vector<std::string> found;
  for (const auto& cells : table_rows(page)) {
    for (const std::string& span : docs::code_spans(first ? cells.front() : cells.back())) {
      if (span.find(' ') != std::string::npos) found.push_back(span);
    }
  }
  return found;
}

constexpr std::string_view digits = "0123456789";
constexpr std::string_view capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::string_view small_letters = "abcdefghijklmnopqrstuvwxyz";

/// Returns the end of a variable part of a message at `i`: a quoted name, a type, a number, a
/// word in capitals or dots; `i` itself if none begins there.
size_t end_of_variable(const std::string& message, size_t i) {
  const auto run = [&](std::string_view letters) {
    return std::min(message.find_first_not_of(letters, i), message.size());
  };
  const auto past = [&](char c, size_t from) {
    return std::min(message.find(c, from), message.size() - 1) + 1;
  };
  const std::string word_letters = fmt::format("{}{}{}_", digits, capitals, small_letters);
  if (message[i] == '\'') return past('\'', i + 1);
  if (message[i] == '[') return past(']', i);
  if (message.substr(i, 2) == "..") return run(".");
  if (i > 0 && word_letters.find(message[i - 1]) != std::string::npos) return i;
  if (digits.find(message[i]) != std::string::npos) return run("0123456789.^");
  const size_t word = run(word_letters);
  if (word > i && word < message.size() && message[word] == '[') return past(']', word);
  return run(capitals) == word && word >= i + 3 ? word : i;
}

/// Returns the parts of a message that do not vary.
std::vector<std::string> fixed_parts(const std::string& message) {
  std::vector<std::string> parts = {""};
  for (size_t i = 0; i < message.size();) {
    const size_t end = end_of_variable(message, i);
    if (end == i) {
      parts.back() += message[i++];
    } else {
      parts.emplace_back();
      i = end;
    }
  }
  std::vector<std::string> words;
  for (const std::string& part : parts) {
    if (part.find_first_of(small_letters) == std::string::npos) continue;
    const size_t begin = part.find_first_not_of(" :,;()");
    words.push_back(part.substr(begin, part.find_last_not_of(" :,;()") - begin + 1));
  }
  return words;
}

/// Returns the code spans of a page.
std::vector<std::string> spans_of(const std::string& page) {
  std::vector<std::string> all;
  for (const std::string& line : docs::prose(page)) {
    for (std::string& span : docs::code_spans(line)) all.push_back(std::move(span));
  }
  return all;
}

/// True if a code span is the path of a source.
bool names_source(const std::string& span) {
  const std::string letters = fmt::format("{}{}{}_/.-", digits, capitals, small_letters);
  const std::string extension = fs::path(span).extension().string();
  const bool path = span.find('/') != std::string::npos &&
                    span.find_first_not_of(letters) == std::string::npos &&
                    small_letters.find(span[0]) != std::string::npos;
  return path && (extension == ".h" || extension == ".cpp" || extension == ".py" ||
                  extension == ".sh" || extension == ".json");
}

/// Returns the parts of `text` between each `open` and the next `close`.
std::vector<std::string> between(const std::string& text, const std::string& open,
                                 const std::string& close) {
  std::vector<std::string> found;
  for (size_t at = text.find(open); at != std::string::npos; at = text.find(open, at + 1)) {
    const size_t begin = at + open.size();
    found.push_back(text.substr(begin, text.find(close, begin) - begin));
  }
  return found;
}

/// Returns the numbers of the levels of verification that headers define: L0, L1, ...
std::vector<std::string> levels() {
  std::vector<std::string> found;
  for (const std::string& folder : folders()) {
    for (const std::string& file : files_in(folder, {".h"})) {
      for (const std::string& level : between(source(file), "constexpr Level ", ";")) {
        found.push_back(between(level, "\"", "\"").at(0).substr(0, 2));
      }
    }
  }
  std::ranges::sort(found);
  return found;
}

/// Returns the members of a struct in a header with their defaults, `{name, "10"}`.
std::vector<std::pair<std::string, std::string>> members_of(const std::string& header,
                                                            const std::string& name) {
  const std::string body = between(source(header), "\nstruct " + name + " {\n", "\n};")[0];
  std::vector<std::pair<std::string, std::string>> members;
  for (const std::string& line : between("\n" + body + "\n", "\n  ", "\n")) {
    const size_t equals = line.find(" = ");
    if (line.starts_with("/") || line.starts_with(" ") || equals == std::string::npos) continue;
    const size_t space = line.rfind(' ', equals - 1);
    const size_t end = line.find(';', equals);
    members.emplace_back(line.substr(space + 1, equals - space - 1),
                         line.substr(equals + 3, end - equals - 3));
  }
  return members;
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

TEST_CASE("docs: levels of the architecture are those of verification") {
  std::vector<std::string> described;
  for (const auto& cells : table_rows(source("docs/architecture.md"))) {
    if (cells[0].starts_with(" L")) described.push_back(cells[0].substr(1, 2));
  }
  CHECK(levels().size() >= 8);
  CHECK(described == levels());
}

TEST_CASE("docs: integer-program.md says what every integer op computes") {
  const std::string page = source("docs/integer-program.md");
  std::string headings;
  for (const std::string& heading : between(page, "\n## ", "\n")) headings += heading + ", ";
  for_each_alternative<IntegerOp>([&]<class T>() {
    CHECK_MESSAGE((", " + headings).find(fmt::format(", {}, ", T::name)) != std::string::npos,
                  T::name);
  });
}

TEST_CASE("docs: integer-program.md says what kind of value every integer op makes") {
  const std::string section =
      between(source("docs/integer-program.md"), "\n## Values\n", "\n## ")[0];
  std::string makers = ", ";
  for (const auto& cells : table_rows(section)) {
    if (cells.size() == 4) makers += cells[3].substr(1, cells[3].size() - 2) + ", ";
    if (cells.size() == 3) makers += cells[0].substr(1, cells[0].size() - 2) + ", ";
  }
  for_each_alternative<IntegerOp>([&]<class T>() {
    CHECK_MESSAGE(makers.find(fmt::format(", {}, ", T::name)) != std::string::npos, T::name);
  });
}

TEST_CASE("docs: counts of observers are given nowhere") {
  for (const std::string& name : pages()) {
    const std::string page = source(name);
    for (const char* number : {"seven", "eight", "nine", "ten", "Seven", "Eight", "Nine"}) {
      CHECK_MESSAGE(page.find(fmt::format("{} observers", number)) == std::string::npos, name);
    }
  }
}

TEST_CASE("docs: fit.md has every option with its default") {
  const std::vector<std::pair<std::string, std::string>> options =
      members_of("model/fit.h", "FitOptions");
  CHECK(options.size() >= 30);
  std::vector<std::pair<std::string, std::string>> shown;
  for (const auto& cells : table_rows(source("docs/concepts/fit.md"))) {
    if (cells.size() < 3 || docs::code_spans(cells[0]).empty()) continue;
    shown.emplace_back(docs::code_spans(cells[0])[0], docs::code_spans(cells[1]).at(0));
  }
  for (const auto& option : options) {
    CHECK_MESSAGE(std::ranges::find(shown, option) != shown.end(), option.first, " = ",
                  option.second);
  }
  CHECK(shown.size() == options.size());
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

TEST_CASE("docs: README leads to every page, and decisions to every page of theirs") {
  std::set<std::string> linked;
  for (const std::string name : {"README.md", "docs/decisions/README.md"}) {
    const fs::path folder = fs::path(name).parent_path();
    for (const docs::Link& link : docs::links(source(name))) {
      const std::string file = link.target.substr(0, link.target.find('#'));
      linked.insert((folder / file).lexically_normal().string());
    }
  }
  for (const std::string& name : pages()) {
    CAPTURE(name);
    CHECK((name == "README.md" || linked.contains(name)));
  }
}

TEST_CASE("docs: sources that pages name exist") {
  const fs::path root = QTAPE_SOURCE;
  for (const std::string& name : pages()) {
    for (const std::string& file : spans_of(source(name))) {
      if (!names_source(file)) continue;
      if (file.starts_with("ops/softsign.")) continue;  // the example of an op to add
      // Relative to the tree or to a folder of programs, or as an include.
      const bool exists = fs::exists(root / file) || fs::exists(root / "examples" / file) ||
                          fs::exists(root / "tools" / file) ||
                          (file.starts_with("qtape/") && fs::exists(root / file.substr(6)));
      CHECK_MESSAGE(exists, name, ": ", file);
    }
  }
}

TEST_CASE("docs: errors that pages quote are those of the sources") {
  const std::string text = program_text();
  for (const std::string name : {"docs/troubleshooting.md", "docs/limits.md"}) {
    const std::vector<std::string> quoted =
        messages(source(name), name == "docs/troubleshooting.md");
    CHECK(quoted.size() >= 10);
    for (const std::string& message : quoted) {
      INFO(name, ": ", message);
      const std::vector<std::string> parts = fixed_parts(message);
      CHECK(!parts.empty());
      for (const std::string& part : parts) {
        CHECK_MESSAGE(text.find(part) != std::string::npos, part);
      }
    }
  }
}

TEST_CASE("docs: the fixed parts of a message") {
  CHECK(fixed_parts("input 'x' f32[2, 3]: extent 2 must be in 1..9, got WHAT") ==
        std::vector<std::string>{"input", "extent", "must be in", "got"});
  CHECK(fixed_parts("... is no s32 of ONNX") == std::vector<std::string>{"is no s32 of"});
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
      "```cpp\n#include <set>\nint x = 1;\n```\n<!-- namespace scope -->\n```cpp\nint f();\n```\n",
      "a.md");
  const std::string code = docs::cpp_source(page, "/a.md");
  CHECK(code.find("#line 2 \"/a.md\"\n#include <set>\n") <
        code.find("#line 7 \"/a.md\"\nint f();"));
  CHECK(code.find("at(2);\n#line 2 \"/a.md\"\n\nint x = 1;\n") != std::string::npos);
  CHECK(docs::cpp_source(docs::read_page("text\n", "b.md"), "/b.md") == "");
}
