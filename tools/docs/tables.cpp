#include "qtape/tools/docs/tables.h"

#include "qtape/core/error.h"
#include "qtape/core/printable.h"
#include "qtape/tools/docs/observers_table.h"
#include "qtape/tools/docs/program_tables.h"

namespace qtape {
namespace {

constexpr std::string_view begin_mark = "<!-- written by write_tables: ";
constexpr std::string_view mark_end = " -->\n";
constexpr std::string_view end_mark = "<!-- end -->\n";

std::string table(std::string_view name) {
  if (name == "integer program") return program_tables();
  if (name == "observers") return observers_table();
  fail<FormatError>("the page asks for \"{}\"; expected \"integer program\" or \"observers\"",
                    printable(name));
}

}  // namespace

std::string with_tables(std::string_view page) {
  std::string text;
  size_t begin = page.find(begin_mark);
  require<FormatError>(begin != page.npos, "the page has no mark {}NAME{}", begin_mark,
                       mark_end);
  for (; begin != page.npos; begin = page.find(begin_mark)) {
    const size_t name = begin + begin_mark.size();
    const size_t content = page.find(mark_end, name);
    const size_t end = page.find(end_mark, name);
    require<FormatError>(content < end && end != page.npos, "a mark of the page has no {}",
                         end_mark);
    text += page.substr(0, content + mark_end.size());
    text += table(page.substr(name, content - name)) + std::string(end_mark);
    page.remove_prefix(end + end_mark.size());
  }
  return text + std::string(page);
}

}  // namespace qtape
