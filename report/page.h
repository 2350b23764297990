// The page that shows training runs: one HTML file that needs nothing else.
#pragma once

#include <span>
#include <string>

#include "qtape/report/run_record.h"

namespace qtape::report {

/// An HTML page with the curves of all `runs`, and of each its scales, codes, memory and times.
/// It loads nothing: style, script and numbers are in it. Throws ArgumentError for no runs.
std::string run_page(std::span<const RunRecord> runs);

}  // namespace qtape::report
