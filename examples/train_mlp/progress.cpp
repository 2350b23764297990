#include "qtape/examples/train_mlp/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace qtape::examples {
namespace {

constexpr auto redraw_every = std::chrono::milliseconds(100);
constexpr int bar_width = 24;

}  // namespace

ProgressDisplay::ProgressDisplay(int64_t first_step)
    : terminal_(::isatty(STDOUT_FILENO) == 1), first_step_(first_step) {}

void ProgressDisplay::step(const Progress& progress) {
  last_ = progress;
  const auto now = Clock::now();
  if (!terminal_ || (now - drawn_ < redraw_every && progress.step != progress.steps)) return;
  drawn_ = now;
  const double done = static_cast<double>(progress.step) / static_cast<double>(progress.steps);
  const auto filled = static_cast<size_t>(done * bar_width);
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double left = seconds * static_cast<double>(progress.steps - progress.step) /
                      static_cast<double>(std::max<int64_t>(1, progress.step - first_step_));
  const std::string accuracy = accuracy_ < 0 ? "" : fmt::format("  test {:.2f} %", accuracy_);
  fmt::print("\r\033[Kepoch {:2} [{:-<{}}] {:3.0f} %  loss {:.4f}{}  {:.0f} s left",
             progress.epoch, std::string(filled, '#'), bar_width, 100 * done, progress.loss,
             accuracy, left);
  std::fflush(stdout);
}

void ProgressDisplay::epoch(const EpochResult& result) {
  accuracy_ = result.test_accuracy;
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  fmt::print("{}epoch {:2}  loss {:.4f}  test accuracy {:.2f} %  {:.1f} s\n",
             terminal_ ? "\r\033[K" : "", result.epoch, result.loss, result.test_accuracy,
             seconds);
  std::fflush(stdout);
}

}  // namespace qtape::examples
