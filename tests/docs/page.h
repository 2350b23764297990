// Documentation pages as read by tests: code blocks, their annotations in comments, and links.
//
// Readers do not see HTML comments. One-line comments before a block annotate it:
//   not run: REASON        the block is not run
//   same as: FILE          the block equals this source file from its includes on
//   file: NAME             the block is written to this file before anything runs
//   run: ARGUMENTS         arguments of a complete program; without it, none
//   namespace scope        the block's declarations stand outside functions
//   output                 the block is the output of the code block before it
// Other comments stand alone:
//   setup: COMMANDS        run by bash before all blocks
//   code: C++              one of the fragments
//   declarations: C++      the same at namespace scope
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qtape::docs {

struct Block {
  std::string language = {};  ///< cpp, sh, json, cmake or text; setup for setup comments
  int line = 0;               ///< number of its first line, from 1
  std::string text = {};      ///< ends with a newline
  /// Annotations, for example "not run" with its reason.
  std::map<std::string, std::string> notes = {};

  bool has(const std::string& note) const { return notes.contains(note); }
  /// True if the block has an int main.
  bool whole_program() const;
};

struct Page {
  std::string name = {};  ///< docs/format.md
  std::vector<Block> blocks = {};

  /// Returns `docs/format.md:12`.
  std::string place(int line) const;
};

/// Reads a page. Throws FormatError, which begins with page and line, for an unterminated
/// block, another language, and an unknown comment.
Page read_page(std::string_view text, std::string name);

/// Returns the lines of a page, with those of code blocks and comments empty.
std::vector<std::string> prose(std::string_view text);
/// Returns the code spans (in backticks) of a line.
std::vector<std::string> code_spans(std::string_view line);

struct Link {
  int line = 0;
  std::string target = {};
};
/// Returns the links of a page except web addresses and links in code.
std::vector<Link> links(std::string_view text);
/// Returns the anchors of a page: its headings, as GitHub spells them.
std::vector<std::string> anchors(std::string_view text);

}  // namespace qtape::docs
