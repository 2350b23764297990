// docs_code PAGE: runs all code blocks of a page in a temporary folder: its files, its setup,
// its C++, its shell blocks; then parses its JSON. See page.h.
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "qtape/core/error.h"
#include "qtape/engine/serialize.h"
#include "qtape/io/files.h"
#include "qtape/programs/console/program.h"
#include "qtape/tests/docs/code.h"
#include "qtape/tests/docs/page.h"
#include "qtape/tests/docs/printed.h"
#include "qtape/tests/support/conformance.h"
#include "qtape/tests/support/folder.h"

namespace qtape::docs {

namespace {

namespace fs = std::filesystem;

int running = 0;             // line of the running C++ code
Printed* printed = nullptr;  // set while C++ code runs

/// Throws unless the program of a conformance case computes its values.
void check_conformance(const std::string& text) {
  const test::ConformanceFile file = test::read_conformance(text);
  const std::string different = test::first_difference(file, {.reference = true});
  require<Error>(different.empty(), "{} has another value", different);
}

class Run {
 public:
  explicit Run(Page page) : page_(std::move(page)) { fs::current_path(folder_.path()); }
  ~Run() { fs::current_path("/"); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void all() {
    each("file", [](const Block& block) { write(block); });
    each("setup", [this](const Block& block) { shell(block); });
    cpp();
    each("sh", [this](const Block& block) { outputs_[block.line] = shell(block); });
    each("json", [this](const Block& block) { parse(block); });
    compare_outputs();
  }

 private:
  /// Calls `use` for blocks that are run and have a language, or the note `kind`.
  template <class Use>
  void each(const std::string& kind, const Use& use) {
    for (const Block& block : page_.blocks) {
      if ((block.language == kind || block.has(kind)) && !block.has("not run")) use(block);
    }
  }

  template <class... Args>
  [[noreturn]] void fail_at(int line, fmt::format_string<Args...> text, Args&&... args) const {
    fail<Error>("{}: {}", page_.place(line), fmt::format(text, std::forward<Args>(args)...));
  }

  static void write(const Block& block) {
    const fs::path path = block.notes.at("file");
    if (path.has_parent_path()) fs::create_directories(path.parent_path());
    write_file(path.string(), block.text);
  }

  /// Returns the output of the commands.
  std::string shell(const Block& block) {
    write_file("block.sh", "set -eo pipefail\n" + block.text);
    const int status = std::system("bash block.sh >block.out 2>block.err </dev/null");
    const std::string out = read_file("block.out", 1 << 24);
    if (status != 0) {
      fail_at(block.line, "the commands fail:\n{}{}", out, read_file("block.err", 1 << 24));
    }
    return out;
  }

  void cpp() {
    const Code code = code_of(page_.name);
    if (!code.fragments) return;
    Printed to(folder_.file("cpp.out"));
    printed = &to;
    try {
      code.fragments();
      for (const Program& program : code.programs) run(program);
    } catch (const std::exception& error) {
      fail_at(running, "{}", error.what());
    }
    printed = nullptr;
    outputs_ = to.take();
  }

  void run(const Program& program) {
    std::vector<std::string> words = {"program"};
    for (const Block& block : page_.blocks) {
      if (block.line != program.line || !block.has("run")) continue;
      std::istringstream text(block.notes.at("run"));
      for (std::string word; text >> word;) words.push_back(word);
    }
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    at(program.line);
    const int code = program.main(static_cast<int>(arguments.size()), arguments.data());
    require<Error>(code == 0, "the program exits {}", code);
  }

  void parse(const Block& block) const {
    try {
      const auto json = nlohmann::ordered_json::parse(block.text);
      if (json.value("format", "") == "qtape-conformance") {
        check_conformance(block.text);
      } else if (json.contains("program")) {
        program_from_json(block.text);
      } else if (json.contains("nodes")) {
        model_from_json(block.text);
      }
    } catch (const std::exception& error) {
      fail_at(block.line, "{}", error.what());
    }
  }

  void compare_outputs() const {
    std::string actual;
    for (const Block& block : page_.blocks) {
      const auto found = outputs_.find(block.line);
      if (found != outputs_.end()) actual = found->second;
      if (block.has("output") && actual != block.text) {
        fail_at(block.line, "the page shows\n{}and the code prints\n{}", block.text, actual);
      }
    }
  }

  test::Folder folder_;
  Page page_;
  std::map<int, std::string> outputs_;  // by line
};

}  // namespace

void at(int line) {
  running = line;
  printed->begin(line);
}

}  // namespace qtape::docs

int main(int argc, char** argv) {
  using namespace qtape;
  return console::run_program("docs_code", [&] {
    require<ArgumentError>(argc == 2, "usage: docs_code PAGE");
    const std::string text = read_file(fmt::format("{}/{}", QTAPE_SOURCE, argv[1]), 1 << 20);
    std::string path;
    for (const char* folder : {"tools", "examples", "tests"}) {
      path += fmt::format("{}/{}", QTAPE_BUILD, folder) + ":";
    }
    const char* rest = ::getenv("PATH");
    ::setenv("PATH", (path + (rest == nullptr ? "/usr/bin:/bin" : rest)).c_str(), 1);
    docs::Run(docs::read_page(text, argv[1])).all();
  });
}
