// Phrases that findings share.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

namespace qtape {

/// Returns `channel 3 of 8`, `2 of 8 channels (3, 5)` with at most four channels listed, or
/// `all 8 channels`.
inline std::string channels_text(const std::vector<int64_t>& channels, int64_t all) {
  if (channels.size() == 1) return fmt::format("channel {} of {}", channels[0], all);
  if (static_cast<int64_t>(channels.size()) == all) return fmt::format("all {} channels", all);
  constexpr size_t most = 4;
  std::string text;
  for (size_t i = 0; i < channels.size() && i < most; ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", channels[i]);
  }
  if (channels.size() > most) text += ", ...";
  return fmt::format("{} of {} channels ({})", channels.size(), all, text);
}

}  // namespace qtape
