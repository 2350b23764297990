#include "qtape/programs/console/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "qtape/programs/console/standard_output.h"
#include "qtape/programs/console/terminal.h"

namespace qtape::console {
namespace {

constexpr auto redraw_every = std::chrono::milliseconds(100);
constexpr size_t widest_bar = 24;
constexpr size_t shortest_bar = 4;

std::string bar(double done, size_t room) {
  constexpr size_t frame = 3;  // space and brackets
  if (room < shortest_bar + frame) return {};
  const size_t width = std::min(widest_bar, room - frame);
  const auto filled = static_cast<size_t>(done * static_cast<double>(width));
  return fmt::format(" [{:-<{}}]", std::string(filled, '#'), width);
}

}  // namespace

std::string progress_line(const Progress& progress, const ProgressText& text, int columns) {
  const double done = static_cast<double>(progress.step) / static_cast<double>(progress.steps);
  const std::string head = fmt::format("epoch {:2}", progress.epoch);
  const std::string percent = fmt::format(" {:3.0f} %", 100 * done);
  std::string loss = "  loss " + text.loss;
  std::string result = text.result.empty() ? "" : "  " + text.result;
  std::string left = "  " + text.left + " left";
  const auto room = static_cast<size_t>(std::max(columns, 1) - 1);
  const auto width = [&] {
    return head.size() + percent.size() + loss.size() + result.size() + left.size();
  };
  for (std::string* part : {&result, &left, &loss}) {
    if (width() > room) part->clear();
  }
  const std::string drawn = bar(done, room - std::min(room, width()));
  return (head + drawn + percent + loss + result + left).substr(0, room);
}

std::string loss_text(double loss, int digits) {
  const double size = std::abs(loss);
  const bool usual = size == 0 || (size >= std::pow(10.0, 1 - digits) && size < 1e7);
  return usual ? fmt::format("{:.{}f}", loss, digits) : fmt::format("{:.4g}", loss);
}

ProgressDisplay::ProgressDisplay(int64_t first_step, int digits)
    : terminal_(can_redraw()), first_step_(first_step), digits_(digits) {}

void ProgressDisplay::step(const Progress& progress) {
  const auto now = Clock::now();
  if (!terminal_ || (now - drawn_ < redraw_every && progress.step != progress.steps)) return;
  drawn_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double left = seconds * static_cast<double>(progress.steps - progress.step) /
                      static_cast<double>(std::max<int64_t>(1, progress.step - first_step_));
  redraw(progress_line(
      progress, {loss_text(progress.loss, digits_), result_, fmt::format("{:.0f} s", left)},
      terminal_columns()));
}

void ProgressDisplay::finished(int64_t epochs) {
  print("all {} epochs are finished: nothing to train\n", epochs);
}

void ProgressDisplay::epoch(int64_t number, double loss, const std::string& result) {
  result_ = result;
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  if (terminal_) clear_line();
  print("epoch {:2}  loss {}  {}  {:.1f} s\n", number, loss_text(loss, digits_), result,
        seconds);
}

}  // namespace qtape::console
