#include "qtape/programs/report/page.h"

#include "qtape/core/error.h"

namespace qtape::report {

/// Contents of page.html, embedded by the build.
extern const std::string_view page_template;

namespace {

constexpr std::string_view runs_mark = "QTAPE_RUNS";

/// JSON in which no HTML tag can start or end.
std::string without_tags(const std::string& json) {
  std::string result;
  result.reserve(json.size());
  for (const char each : json) {
    if (each == '<') {
      result += "\\u003c";
    } else {
      result += each;
    }
  }
  return result;
}

}  // namespace

std::string run_page(std::span<const RunRecord> runs) {
  require<ArgumentError>(!runs.empty(), "a page needs at least one run");
  std::string list = "[";
  for (const RunRecord& each : runs) {
    if (&each != runs.data()) list += ',';
    list += without_tags(to_json(each));
  }
  const size_t mark = page_template.find(runs_mark);
  std::string page(page_template.substr(0, mark));
  page += list + "]";
  page += page_template.substr(mark + runs_mark.size());
  return page;
}

}  // namespace qtape::report
