#include "qtape/examples/shared/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace qtape::examples {
namespace {

constexpr auto redraw_every = std::chrono::milliseconds(100);
constexpr int bar_width = 24;

}  // namespace

ProgressDisplay::ProgressDisplay(int64_t first_step, int digits)
    : terminal_(::isatty(STDOUT_FILENO) == 1), first_step_(first_step), digits_(digits) {}

void ProgressDisplay::step(const Progress& progress) {
  const auto now = Clock::now();
  if (!terminal_ || (now - drawn_ < redraw_every && progress.step != progress.steps)) return;
  drawn_ = now;
  const double done = static_cast<double>(progress.step) / static_cast<double>(progress.steps);
  const auto filled = static_cast<size_t>(done * bar_width);
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double left = seconds * static_cast<double>(progress.steps - progress.step) /
                      static_cast<double>(std::max<int64_t>(1, progress.step - first_step_));
  fmt::print("\r\033[Kepoch {:2} [{:-<{}}] {:3.0f} %  loss {:.{}f}{}{}  {:.0f} s left",
             progress.epoch, std::string(filled, '#'), bar_width, 100 * done, progress.loss,
             digits_, result_.empty() ? "" : "  ", result_, left);
  std::fflush(stdout);
}

void ProgressDisplay::epoch(int64_t number, double loss, const std::string& result) {
  result_ = result;
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  fmt::print("{}epoch {:2}  loss {:.{}f}  {}  {:.1f} s\n", terminal_ ? "\r\033[K" : "", number,
             loss, digits_, result, seconds);
  std::fflush(stdout);
}

}  // namespace qtape::examples
