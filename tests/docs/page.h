// Pages of documentation as tests read them: code blocks, what comments say of these, links.
//
// Readers do not see HTML comments. One line of them before a block says of it:
//   not run: REASON        it is not run
//   same as: FILE          it is what this file of the source tree holds from its includes on
//   file: NAME             it is written to this file before anything runs
//   run: ARGUMENTS         those of a whole program; without it, none
//   namespace scope        its declarations stand outside of functions
//   output                 it is what the code block before it prints
// Others stand by themselves:
//   setup: COMMANDS        run by bash before all blocks
//   code: C++              stands among the fragments
//   declarations: C++      the same at namespace scope
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace qtape::docs {

struct Block {
  std::string language = {};  ///< cpp, sh, json, cmake or text; setup for such comments
  int line = 0;               ///< of its first line, from 1
  std::string text = {};      ///< ends with a newline
  /// What comments say of it: "not run" and its reason.
  std::map<std::string, std::string> notes = {};

  bool has(const std::string& note) const { return notes.contains(note); }
  /// With an int main.
  bool whole_program() const;
};

struct Page {
  std::string name = {};  ///< docs/format.md
  std::vector<Block> blocks = {};

  /// `docs/format.md:12`
  std::string place(int line) const;
};

/// Throws FormatError, which begins with page and line, for a block without an end or of
/// another language, and for a comment that says something else.
Page read_page(std::string_view text, std::string name);

/// The lines of a page, those of code blocks and comments empty.
std::vector<std::string> prose(std::string_view text);
/// What stands in backticks in a line.
std::vector<std::string> code_spans(std::string_view line);

struct Link {
  int line = 0;
  std::string target = {};
};
/// Links of a page to other than web addresses, those in code aside.
std::vector<Link> links(std::string_view text);
/// What links can name of a page: its headings, as GitHub spells them.
std::vector<std::string> anchors(std::string_view text);

}  // namespace qtape::docs
