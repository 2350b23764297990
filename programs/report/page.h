// The page that shows training runs: one self-contained HTML file.
#pragma once

#include <span>
#include <string>

#include "qtape/model/training/run_record.h"

namespace qtape::report {

/// HTML page with the curves of all `runs` and the scales, codes, memory and times of each. It
/// loads no other files: style, script and numbers are embedded. Throws ArgumentError if there
/// are no runs.
std::string run_page(std::span<const RunRecord> runs);

}  // namespace qtape::report
