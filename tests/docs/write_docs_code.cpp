// write_docs_code SOURCE_FOLDER PAGE FILE.cpp: writes the C++ code of a page as a source of
// docs_code.
// write_docs_code --files SOURCE_FOLDER PAGE FOLDER: writes the blocks that are files of a
// project.
#include <filesystem>

#include "qtape/core/error.h"
#include "qtape/io/files.h"
#include "qtape/programs/console/program.h"
#include "qtape/tests/docs/cpp_source.h"

namespace {

using namespace qtape;

void write_files(const docs::Page& page, const std::filesystem::path& folder) {
  for (const docs::Block& block : page.blocks) {
    if (!block.has("file")) continue;
    const std::filesystem::path path = folder / block.notes.at("file");
    std::filesystem::create_directories(path.parent_path());
    write_file(path.string(), block.text);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return console::run_program("write_docs_code", [&] {
    const bool files = argc > 1 && std::string_view(argv[1]) == "--files";
    require<ArgumentError>(argc == (files ? 5 : 4),
                           "usage: write_docs_code [--files] SOURCE_FOLDER PAGE TO");
    char** const given = argv + (files ? 2 : 1);
    const std::string path = std::string(given[0]) + "/" + given[1];
    const docs::Page page = docs::read_page(read_file(path, 1 << 20), given[1]);
    if (files) {
      write_files(page, given[2]);
    } else {
      write_file(given[2], docs::cpp_source(page, path));
    }
  });
}
