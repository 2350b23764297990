// Texts of runs that were stopped or skipped batches.
#include <fmt/format.h>

#include "qtape/model/fit.h"

namespace qtape {

FitInterrupted::FitInterrupted(int signal, const FitProgress& progress,
                               const std::string& report_failure)
    : console::Interrupted(
          signal, fmt::format("stopped by {} after step {} of {}{}{}",
                              console::signal_name(signal), progress.step, progress.steps,
                              report_failure.empty() ? "" : "; ", report_failure)),
      progress_(progress) {}

std::string skipped_text(const FitResult& result) {
  if (result.skipped_batches + result.non_finite_elements == 0) return {};
  return fmt::format(
      "skipped {} batch{} without a finite loss or gradient, {} NaN or infinite element{}",
      result.skipped_batches, result.skipped_batches == 1 ? "" : "es",
      result.non_finite_elements, result.non_finite_elements == 1 ? "" : "s");
}

}  // namespace qtape
