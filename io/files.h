// Whole files: read at once, and written such that a failure or a kill keeps the old content.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace qtape {

/// Reads the content of `path`. Throws IoError if it cannot be read or exceeds `limit` bytes.
std::string read_file(const std::string& path, int64_t limit);

/// Replaces the file `path` by `content`: writes `<path>.partial`, syncs it and renames it to
/// `path`. A symbolic link is kept and its target replaced; a device or a pipe is written to
/// directly. Throws IoError; the file at `path` is then unchanged and the partial file removed,
/// but for the error that the disk could not record the rename.
/// Concurrent writers of one path wait for each other.
void write_file(const std::string& path, std::string_view content);

/// Path of the file that write_file replaces: the target of symbolic links at `path`, even if
/// it does not exist yet.
std::string written_path(const std::string& path);

/// Writes all of `content` to a file descriptor. Throws IoError that starts with `name`.
void write_all(int file, std::string_view name, std::string_view content);

/// Opens or creates a file that only qtape writes, such as a lock or an incomplete file, with
/// O_WRONLY or O_RDWR as `access`. Returns its descriptor, or -1 with errno set. Throws IoError
/// where there is a link, or a pipe that nothing reads: others put it there.
int open_own_file(const std::string& path, int access);
/// Throws IoError if an open file that only qtape writes is not a regular one or has several
/// names, as far as the system tells. Precedes the first change of it.
void require_own_file(int file, const std::string& path);

/// True if `path` is the open `file` itself, not a link to it.
bool is_open_at(int file, const std::string& path);

/// Makes the rename of a file to `path` survive a power loss. Folders that cannot be opened for
/// reading and file systems that cannot sync folders are ignored. Throws IoError if the disk
/// fails.
void sync_folder_of(const std::string& path);

/// Creates the folder `path` and its parents if they are missing. Throws IoError.
void create_folder(const std::string& path);

/// Throws the IoError with which write_file would fail immediately: for a directory that is
/// missing or not writable, and for a path that is a directory. Leaves no file behind.
void require_writable(const std::string& path);

}  // namespace qtape
