#include "qtape/tests/docs/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "qtape/core/error.h"

namespace qtape::docs {

namespace {

constexpr std::string_view fence = "```";

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \n");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \n") - begin + 1));
}

/// True for comments that delimit generated parts of pages.
bool is_generated_part(std::string_view comment) {
  return comment == "end" || comment.starts_with("written by ");
}

class Reader {
 public:
  Reader(std::string_view text, std::string name) : lines_(lines_of(text)) {
    page_.name = std::move(name);
  }

  Page read() {
    for (; at_ < lines_.size(); ++at_) {
      const std::string& line = lines_[at_];
      if (line.starts_with("<!--")) {
        comment();
      } else if (line.starts_with(fence)) {
        block();
      } else {
        check(notes_.empty() || trimmed(line).empty(), "no code block follows the comment");
      }
    }
    check(notes_.empty(), "no code block follows the comment");
    return std::move(page_);
  }

 private:
  int line() const { return static_cast<int>(at_) + 1; }

  template <class... Args>
  void check(bool condition, fmt::format_string<Args...> text, Args&&... args) const {
    if (condition) return;
    fail<FormatError>("{}: {}", page_.place(std::min(line(), static_cast<int>(lines_.size()))),
                      fmt::format(text, std::forward<Args>(args)...));
  }

  void comment() {
    const int first = line();
    std::string text = lines_[at_].substr(4);
    while (text.find("-->") == std::string::npos) {
      check(++at_ < lines_.size(), "a comment without an end");
      text += "\n" + lines_[at_];
    }
    text.resize(text.find("-->"));
    if (!is_generated_part(trimmed(text))) note(text, first);
  }

  void note(const std::string& text, int first) {
    static constexpr std::array of_blocks = {"not run", "same as",         "file",
                                             "run",     "namespace scope", "output"};
    const size_t colon = std::min(text.find(':'), text.size());
    const std::string kind = trimmed(text.substr(0, colon));
    const std::string rest = colon < text.size() ? text.substr(colon + 1) : "";
    if (std::ranges::find(of_blocks, kind) != of_blocks.end()) {
      notes_[kind] = trimmed(rest);
    } else if (kind == "setup") {
      page_.blocks.push_back({.language = "setup", .line = first, .text = rest + "\n"});
    } else {
      check(kind == "code" || kind == "declarations", "unknown comment \"{}\"", kind);
      Block hidden{.language = "cpp", .line = first, .text = rest + "\n"};
      if (kind == "declarations") hidden.notes["namespace scope"] = "";
      page_.blocks.push_back(std::move(hidden));
    }
  }

  void block() {
    static constexpr std::array languages = {"cpp", "sh", "json", "cmake", "text"};
    Block block{.language = lines_[at_].substr(fence.size()), .line = line() + 1};
    check(std::ranges::find(languages, block.language) != languages.end(),
          "expected a code block of {}, got \"{}\"", fmt::join(languages, ", "),
          block.language);
    for (++at_; at_ < lines_.size() && lines_[at_] != fence; ++at_) {
      block.text += lines_[at_] + "\n";
    }
    check(at_ < lines_.size(), "a code block without an end");
    block.notes = std::exchange(notes_, {});
    page_.blocks.push_back(std::move(block));
  }

  std::vector<std::string> lines_;
  size_t at_ = 0;
  Page page_;
  std::map<std::string, std::string> notes_;  // for the following block
};

}  // namespace

bool Block::whole_program() const { return text.find("int main(") != std::string::npos; }

std::string Page::place(int line) const { return fmt::format("{}:{}", name, line); }

Page read_page(std::string_view text, std::string name) {
  return Reader(text, std::move(name)).read();
}

std::vector<std::string> prose(std::string_view text) {
  std::vector<std::string> lines = lines_of(text);
  bool code = false, comment = false;
  for (std::string& line : lines) {
    const bool border = !comment && line.starts_with(fence);
    comment = comment || (!code && line.starts_with("<!--"));
    const bool comment_ends = comment && line.find("-->") != std::string::npos;
    if (code || border || comment) line.clear();
    code = code != border;
    comment = comment && !comment_ends;
  }
  return lines;
}

std::vector<std::string> code_spans(std::string_view line) {
  std::vector<std::string> spans;
  for (size_t begin = line.find('`'); begin != std::string_view::npos;) {
    const size_t end = line.find('`', begin + 1);
    if (end == std::string_view::npos) break;
    spans.emplace_back(line.substr(begin + 1, end - begin - 1));
    begin = line.find('`', end + 1);
  }
  return spans;
}

std::vector<Link> links(std::string_view text) {
  std::vector<Link> found;
  int number = 0;
  for (std::string& line : prose(text)) {
    ++number;
    for (const std::string& span : code_spans(line)) {
      line.erase(line.find('`' + span + '`'), span.size() + 2);
    }
    for (size_t at = line.find("]("); at != std::string::npos; at = line.find("](", at + 1)) {
      const size_t end = std::min(line.find(')', at), line.size());
      const std::string target = line.substr(at + 2, end - at - 2);
      if (target.find("://") == std::string::npos) found.push_back({number, target});
    }
  }
  return found;
}

std::vector<std::string> anchors(std::string_view text) {
  std::vector<std::string> found;
  for (const std::string& line : prose(text)) {
    const size_t level = std::min(line.find_first_not_of('#'), line.size());
    if (level == 0 || level == line.size() || line[level] != ' ') continue;
    std::string anchor;
    for (const char c : line.substr(level + 1)) {
      const auto byte = static_cast<unsigned char>(c);
      if (std::isalnum(byte) || c == '-' || c == '_' || byte > 127) {
        anchor += static_cast<char>(std::tolower(byte));
      } else if (c == ' ') {
        anchor += '-';
      }
    }
    found.push_back(anchor);
  }
  return found;
}

}  // namespace qtape::docs
