// Whole files: read at once, written so that a failure or a kill keeps the old content.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace qtape {

/// The content of `path`. Throws IoError when it cannot be read or has more than `limit` bytes.
std::string read_file(const std::string& path, int64_t limit);

/// Replaces `path` by `content`: writes `<path>.partial`, syncs it and renames it over `path`.
/// A symbolic link stays, its target is replaced; a device or a pipe is written to. Throws
/// IoError; then a file at `path` is what it was and the partial file is removed. Of several
/// writers of one path each waits for the one before it.
void write_file(const std::string& path, std::string_view content);

/// The file that write_file replaces: where symbolic links at `path` lead, also to nothing yet.
std::string written_path(const std::string& path);

/// Writes all of `content` to a file descriptor. Throws IoError that begins with `name`.
void write_all(int file, std::string_view name, std::string_view content);

/// Whether the open `file` is what `path` names now.
bool is_open_at(int file, const std::string& path);

/// Throws the IoError that write_file would throw at once: for a folder that is missing or not
/// writable, and for a path that is a folder. Leaves nothing behind.
void require_writable(const std::string& path);

}  // namespace qtape
